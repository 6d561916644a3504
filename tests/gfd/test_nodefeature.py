"""NodeFeature objects on a real API server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfd.nodefeature import GROUP, NodeFeatureOutput
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import answer
from tests.gfd.cases import Start, prepare, read_labels, run_process
from tests.gfd.machines import H100
from tests.gfd.test_agent import wait_for
from tests.nvml.asking import needs_compiler

CRD = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "crds" / "nodefeatures.yaml").read_text())
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/namespaces/default/nodefeatures"
LABELS = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": "NVIDIA-L4"}


def status(plane: ControlPlane) -> int:
    """What a list of the objects ends with."""
    try:
        plane.request("GET", OBJECTS)
    except ApiError as error:
        return error.status
    return 200


@pytest.fixture
def nodefeatures(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the resource, which goes afterwards if this fixture made it."""
    ours = status(control_plane) != 200
    control_plane.create(CRDS, CRD)
    wait_for(lambda: status(control_plane) == 200, "the resource is served")
    yield control_plane
    if ours:
        control_plane.request("DELETE", f"{CRDS}/{CRD['metadata']['name']}")
        wait_for(lambda: status(control_plane) == 404, "the resource is gone")


def output(plane: ControlPlane, node: str, pod: str = "") -> NodeFeatureOutput:
    return NodeFeatureOutput(node, "default", pod, str(plane.kubeconfig_for("admin")))


def get(plane: ControlPlane, node: str) -> dict[str, Any]:
    return plane.request("GET", f"{OBJECTS}/nvidia-features-for-{node}")


def test_create_update_and_leave_alone(nodefeatures: ControlPlane) -> None:
    one = output(nodefeatures, "n1")
    assert one.is_served()
    assert one.read() == {}
    assert one.write(LABELS)
    made = get(nodefeatures, "n1")
    assert made["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "n1"}
    assert made["spec"] == {"features": {"flags": {}, "attributes": {}, "instances": {}}, "labels": LABELS}
    assert not one.write(LABELS)
    assert get(nodefeatures, "n1")["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert one.write({**LABELS, "nvidia.com/gpu.state": "degraded"})
    assert one.read()["nvidia.com/gpu.state"] == "degraded"
    one.remove()
    one.remove()
    assert one.read() == {}


def test_the_daemon_set_owns_it(nodefeatures: ControlPlane) -> None:
    template = {"metadata": {"labels": {"app": "gfd"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "gfd"}}, "template": template}
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    owner = nodefeatures.request("POST", sets, {"metadata": {"name": "gfd"}, "spec": spec})["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "gfd", "uid": owner, "controller": True}
    nodefeatures.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": "gfd-x", "ownerReferences": [reference]}, "spec": template["spec"]}
    uid = nodefeatures.request("POST", "/api/v1/namespaces/default/pods", pod)["metadata"]["uid"]
    assert output(nodefeatures, "n2", "gfd-x").write(LABELS)
    owners = get(nodefeatures, "n2")["metadata"]["ownerReferences"]
    assert owners == [reference, {"apiVersion": "v1", "kind": "Pod", "name": "gfd-x", "uid": uid}]
    assert not output(nodefeatures, "n2", "gfd-x").write(LABELS)
    assert output(nodefeatures, "n2").write(LABELS), "without a pod there is no owner"
    assert "ownerReferences" not in get(nodefeatures, "n2")["metadata"]


def cluster_start(plane: ControlPlane, folder: Path, *flags: str, kubeconfig: Path | None = None) -> Start:
    case = {"machine": {"devices": [H100]}, "plain": True, "flags": ["--oneshot", "-o", "{OUT}", *flags]}
    start = prepare(case, folder)
    env = {"NODE_NAME": "n3", "KUBECONFIG": str(kubeconfig or plane.kubeconfig_for("admin"))}
    return Start(start.argv, {**start.environment, **env}, start.out)


@needs_compiler
def test_the_program_writes_an_object_by_default(nodefeatures: ControlPlane, tmp_path: Path) -> None:
    start = cluster_start(nodefeatures, tmp_path)
    outcome = run_process(start)
    assert outcome.code == 0, outcome.stderr
    assert get(nodefeatures, "n3")["spec"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert not start.out.exists()
    assert run_process(Start([*start.argv, "--cleanup"], start.environment, start.out)).code == 0
    with pytest.raises(ApiError):
        get(nodefeatures, "n3")


@needs_compiler
def test_without_the_resource_it_writes_the_file_and_says_so(control_plane: ControlPlane, tmp_path: Path) -> None:
    with FaultProxy(control_plane) as proxy, proxy.inject(answer(404), path=f"/apis/{GROUP}"):
        start = cluster_start(control_plane, tmp_path, kubeconfig=proxy.kubeconfig())
        outcome = run_process(start)
    assert outcome.code == 0, outcome.stderr
    assert "has no NodeFeature objects" in outcome.stderr
    assert read_labels(start.out.read_text())["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"


@needs_compiler
@pytest.mark.parametrize(("flag", "word"), [("--node-name=", "NODE_NAME"), ("--namespace=", "NAMESPACE")])
def test_names_are_needed(flag: str, word: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    outcome = run_process(cluster_start(control_plane, tmp_path, flag))
    assert outcome.code == 1
    assert word in outcome.stderr


def test_a_lost_race_is_tried_again(nodefeatures: ControlPlane) -> None:
    """Two writers at once, each reading first."""
    one = output(nodefeatures, "n4")

    async def both() -> list[bool]:
        writes = (asyncio.to_thread(one.write, {**LABELS, "nvidia.com/gpu.count": str(n)}) for n in range(2))
        return await asyncio.gather(*writes)

    assert any(asyncio.run(both()))
    assert one.read()["nvidia.com/gpu.product"] == "NVIDIA-L4"
