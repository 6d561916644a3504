"""`nfd export nodes-template` on a real API server: each planner's own definitions accept what it prints, `--check`
finds what has drifted, and Karpenter's scheduler makes a node for a pod because of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli import main
from tests.children import run
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.go_module import fetch_module
from tests.controlplane.servers import ADMIN
from tests.fleet.test_node_templates import H200, TAINT, F, N
from tests.planners.build import ensure

MODULES = {
    "sigs.k8s.io/karpenter@v1.14.1": (
        "h1:GjqvOHLjl2+OXM0ti5VEZSQuvcitB0pETd8zdChXEtI=",
        ("pkg/apis/crds/karpenter.sh_nodepools.yaml", "pkg/apis/crds/karpenter.sh_nodeoverlays.yaml"),
    ),
    "sigs.k8s.io/kueue@v0.19.2": (
        "h1:mPNzr37u0nwI7ikST5QQl5gg6EgtYOAvC9ZbTgywdN8=",
        ("config/components/crd/bases/kueue.x-k8s.io_resourceflavors.yaml",),
    ),
    "volcano.sh/volcano@v1.15.0": (
        "h1:dW8hW/FPDqwcJ1GxGfpR/9qToH1t3+ySn+oaiEMfpm4=",
        ("config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml",),
    ),
    "sigs.k8s.io/cluster-api@v1.11.3": (
        "h1:apxfugbP1X8AG7THCM74CTarCOW4H2oOc6hlbm1hY80=",
        ("config/crd/bases/cluster.x-k8s.io_machinedeployments.yaml",),
    ),
}
BEFORE: dict[str, tuple[str, dict[str, Any]]] = {
    "karpenter": (
        "/apis/karpenter.sh/v1/nodepools",
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "planned"},
            "spec": {
                "template": {
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
                    }
                }
            },
        },
    ),
    "cluster-api": (
        "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments",
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "MachineDeployment",
            "metadata": {"name": "planned"},
            "spec": {
                "clusterName": "c",
                "selector": {"matchLabels": {"pool": "planned"}},
                "template": {
                    "metadata": {"labels": {"pool": "planned"}},
                    "spec": {
                        "clusterName": "c",
                        "bootstrap": {"dataSecretName": "s"},
                        "infrastructureRef": {"apiGroup": "x.io", "kind": "M", "name": "m"},
                    },
                },
            },
        },
    ),
}
"""Objects as their owner made them, before an export is merged in."""
PLACES = {
    "NodeOverlay": "/apis/karpenter.sh/v1alpha1/nodeoverlays",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "HyperNode": "/apis/topology.volcano.sh/v1alpha1/hypernodes",
}
POOL = {"example.com/pool": "planned", "node.kubernetes.io/instance-type": "p5en.48xlarge"}
Export = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """Two alike nodes of a pool, one that differs from them, and the definitions of the planners."""
    files = [fetch_module(name, digest) / file for name, (digest, paths) in MODULES.items() for file in paths]
    for file in files:
        control_plane.kubectl("apply", "--server-side", "-f", str(file))
    names = [yaml.safe_load(file.read_text())["metadata"]["name"] for file in files]
    crds = [f"crd/{name}" for name in names]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    listed = {"nfd.node.kubernetes.io/feature-labels": ",".join(H200)}
    for name, labels in (("planned-1", H200), ("planned-2", H200 | {N + "gpu.state": "degraded"})):
        control_plane.create_node(name, labels | POOL, listed)
        control_plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": [TAINT]}})
        capacity = {"cpu": "192", "memory": "2000Gi", "nvidia.com/gpu": "8"}
        control_plane.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": capacity}})
    control_plane.create_node("planned-other", H200 | {N + "gpu.product": "Tesla-T4"}, listed)
    yield control_plane
    for name in ("planned-1", "planned-2", "planned-other"):
        control_plane.delete_node(name)
    control_plane.kubectl("delete", "--wait=false", *crds)


@pytest.fixture
def export(plane: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Export:
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig_for(ADMIN)))

    def call(planner: str, *words: str) -> tuple[int, str, str]:
        status = main(["export", "nodes-template", "-l", "example.com/pool=planned", "--for", planner, *words])
        return status, *capsys.readouterr()

    return call


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("planner", ["karpenter", "cluster-api", "kueue", "volcano"])
def test_the_planner_accepts_it(plane: ControlPlane, export: Export, planner: str) -> None:
    status, out, err = export(planner)
    assert (status, err) == (0, "")
    found = documents(out)
    if planner in BEFORE:
        collection, before = BEFORE[planner]
        plane.request("POST", collection, before)
        after = plane.request(
            "PATCH",
            f"{collection}/planned?fieldValidation=Strict",
            {**found.pop(0), "metadata": {**documents(out)[0]["metadata"], "name": "planned"}},
        )
        text = json.dumps(after)
        assert N + "gpu.product" in text
        assert "degraded" not in text
        plane.request("DELETE", f"{collection}/planned")
    for document in found:
        place = PLACES[document["kind"]]
        plane.request("POST", f"{place}?fieldValidation=Strict", document)
        plane.request("DELETE", f"{place}/{document['metadata']['name']}")


def test_kueue_has_the_fewest_labels(export: Export) -> None:
    (flavor,) = documents(export("kueue")[1])
    assert flavor["spec"] == {
        "nodeLabels": {N + "gpu.product": "NVIDIA-H200"},
        "nodeTaints": [TAINT],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }


@pytest.mark.parametrize("planner", ["aws-asg", "azure-vmss", "gce", "cluster-api", "karpenter", "kueue", "volcano"])
def test_what_was_exported_has_not_drifted(export: Export, tmp_path: Path, planner: str) -> None:
    file = tmp_path / "configured.yaml"
    file.write_text(export(planner)[1])
    assert export(planner, "--check", str(file)) == (0, "", "no differences\n")
    file.write_text(export(planner, "-o", "json")[1])
    configured = [one for group in json.loads(file.read_text()) for one in group["documents"]]
    file.write_text(
        json.dumps({"items": configured} if planner not in ("aws-asg", "azure-vmss", "gce") else configured[0])
    )
    assert export(planner, "--check", str(file)) == (0, "", "no differences\n")


def test_drift_is_found(export: Export, tmp_path: Path) -> None:
    file = tmp_path / "configured.yaml"
    pool, overlay = documents(export("karpenter")[1])
    pool["spec"]["template"]["metadata"]["labels"][N + "gpu.product"] = "NVIDIA-H100"
    overlay["spec"]["capacity"] = {"x.io/y": 1}
    file.write_text(yaml.safe_dump_all([pool, overlay]))
    status, out, err = export("karpenter", "--check", str(file))
    group = "example.com/pool=planned: "
    assert (status, out.splitlines(), err) == (
        1,
        [
            group + "label nvidia.com/gpu.product: the nodes have 'NVIDIA-H200', 'NVIDIA-H100' is configured",
            group + "resource nvidia.com/gpu: the nodes have '8', it is not configured",
            group + "resource x.io/y: 1 is configured, but not all nodes have it",
        ],
        "3 differences\n",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind: Pod\n", "has no NodePool or NodeOverlay object"),
        ("[", "not YAML"),
        ("kind: NodePool\nspec: 1\n", "spec"),
    ],
)
def test_files_that_are_none(export: Export, tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "configured.yaml"
    file.write_text(text)
    status, out, err = export("karpenter", "--check", str(file))
    assert (status, out) == (2, "")
    assert str(file) in err
    assert reason in err


def test_groups_and_nodes_that_belong_to_none(plane: ControlPlane, export: Export, capsys: Any) -> None:
    plane.create_node("planned-bare", POOL)
    try:
        status = main(["export", "nodes-template", "--group-by", "example.com/pool", "--for", "kueue"])
        out, err = capsys.readouterr()
    finally:
        plane.delete_node("planned-bare")
    assert status == 0
    assert out.startswith("# planned: 2 nodes\n")
    assert "planned-bare" in err.splitlines()[0]
    assert "planned-other" in err.splitlines()[-1]


def test_karpenter_makes_a_node_because_of_the_export(export: Export) -> None:
    pool, _ = documents(export("karpenter")[1])
    before = BEFORE["karpenter"][1]
    spec = before["spec"]["template"]["spec"]
    labels, taints = pool["spec"]["template"]["metadata"]["labels"], pool["spec"]["template"]["spec"]["taints"]
    exported = {**before, "spec": {"template": {"metadata": {"labels": labels}, "spec": {**spec, "taints": taints}}}}
    assert nodes_for_a_pod(before) == (0, 'label "nvidia.com/gpu.product" does not have known values')
    assert nodes_for_a_pod(exported) == (1, "")


def nodes_for_a_pod(pool: dict[str, Any]) -> tuple[int, str]:
    """How many nodes Karpenter would make for a pod that selects the product, and why none."""
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    pod = {
        "metadata": {"name": "p", "namespace": "default", "uid": "1"},
        "spec": {
            "nodeSelector": {N + "gpu.product": "NVIDIA-H200", F + "cpu-cpuid.AMXBF16": "true"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        },
    }
    instance = {"cpu": "192", "memory": "2000Gi", "pods": "110", "nvidia.com/gpu": "8"}
    question = {"nodePool": pool, "pods": [pod], "instance": {"name": "p5en.48xlarge", "resources": instance}}
    if F + "cpu-cpuid.AMXBF16" not in json.dumps(pool):
        del pod["spec"]["nodeSelector"][F + "cpu-cpuid.AMXBF16"]  # type: ignore[attr-defined]
    answer = run([ensure()], input=json.dumps(question))
    found = json.loads(answer.stdout)
    return found["nodeClaims"], "".join(found["errors"].values()).removeprefix("incompatible requirements, ")
