"""GPUs that DRA hands out, counted: as a table, and through a real API server in every version of resource.k8s.io."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nfd.cli import main
from nfd.fleet.dra_devices import compare
from nfd.fleet.node_summary import NodeSummary, summarize
from nfd.fleet.pods import Ask, ask_of
from nfd.kube.dra_lists import GROUP, VERSIONS
from tests.controlplane.cluster import ControlPlane
from tests.fleet.dra_cluster import dra_on, node_of
from tests.fleet.dra_objects import CASES, DRIVER, Case, claim, count, device, resource_slice

CONTRADICTS = ", which contradicts the label"
Found = tuple[list[Any], list[Any], list[str]]


def shown(summary: NodeSummary) -> Found:
    rows = [(one.name, one.capacity, one.allocatable, one.allocated) for one in summary.resources]
    holders = sorted((one.pod, one.resource, one.amount, one.device) for one in summary.holders)
    return rows, holders, [one for one in summary.problems if "DRA" in one]


def asks(case: Case) -> list[Ask]:
    return [one for pod in case.pods if (one := ask_of(pod)) is not None]


def expected(case: Case) -> Found:
    return list(case.rows), sorted(case.holders), list(case.problems)


@pytest.mark.parametrize("name", CASES)
def test_each_node(name: str) -> None:
    case = CASES[name]
    dra = count(case.slices, case.claims)
    assert dra.keys() == {name}
    assert shown(summarize(node_of(name, case), asks(case), dra[name])) == expected(case)


def test_all_nodes_at_once() -> None:
    """Devices of one name on different nodes are different devices."""
    dra = count(
        [one for case in CASES.values() for one in case.slices], [one for case in CASES.values() for one in case.claims]
    )
    for name, case in CASES.items():
        assert shown(summarize(node_of(name, case), asks(case), dra[name])) == expected(case), name


def test_one_name_twice_in_a_pool() -> None:
    found = count([resource_slice("n", [device("gpu-0"), device("gpu-0")])], [])
    assert found["n"].problems == (f"DRA pool n of {DRIVER} is invalid: two devices have one name",)
    assert not found["n"].resources


def test_a_shared_device_without_memory_does_not_shift_the_taints_of_others() -> None:
    shared = {"allowMultipleAllocations": True}
    devices = [
        {"name": "a", **shared, "taints": [{"effect": "NoSchedule"}]},
        {"name": "b", **shared, "capacity": {"memory": {"value": "2Gi"}}},
    ]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": pool, "devices": devices}
    (row,) = count([{"spec": spec}], [])["n"].resources
    assert (row.capacity, row.allocatable) == (2048, 2048)


def test_other_drivers_and_pending_claims_count_nothing() -> None:
    other = resource_slice("n", [device("channel-0")])
    other["spec"]["driver"] = "compute-domain.nvidia.com"
    pending = {**claim("p", "n", "gpu-0"), "status": {}}
    assert count([other], [pending]) == {}


@pytest.mark.parametrize(
    ("label", "value", "said"),
    [
        ("gpu.product", "NVIDIA-H100-80GB-HBM3", "productName NVIDIA-H100-80GB-HBM3 on 8 of 8 GPUs"),
        ("gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED", "productName NVIDIA-H100-80GB-HBM3 on 8 of 8 GPUs"),
        ("gpu.product", "NVIDIA-H200", "productName NVIDIA-H100-80GB-HBM3 on 8 of 8 GPUs" + CONTRADICTS),
        ("gpu.count", "7", f"devices of type gpu 8{CONTRADICTS}"),
        ("gpu.memory", "81559", "memory in MiB 81559 on 8 of 8 GPUs"),
        ("gpu.family", "hopper", "architecture hopper on 8 of 8 GPUs"),
        ("gpu.compute.minor", "0", "cudaComputeCapability 0 on 8 of 8 GPUs"),
        ("cuda.driver-version.full", "580.95.05", "driverVersion 580.95.5 on 8 of 8 GPUs"),
        ("cuda.driver-version.full", "580.82.07", f"driverVersion 580.95.5 on 8 of 8 GPUs{CONTRADICTS}"),
        ("gpu.family", None, "architecture hopper on 8 of 8 GPUs"),
        ("gpu.machine", "x", ""),
    ],
)
def test_labels_beside_the_attributes_of_slices(label: str, value: str | None, said: str) -> None:
    devices = count(CASES["full-gpus"].slices, ())["full-gpus"].devices
    lines = list(compare(f"nvidia.com/{label}", value, devices))
    assert lines == ([f"ResourceSlices of {DRIVER}: {said}"] if said else [])


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    with dra_on(control_plane):
        yield control_plane


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_the_api(plane: ControlPlane, version: str) -> None:
    """As servers of Kubernetes 1.32 (v1beta1), 1.33 (v1beta2) and later ones have it."""
    slices, claims = (
        plane.request("GET", f"{GROUP}/{version}/{kind}")["items"] for kind in ("resourceslices", "resourceclaims")
    )
    devices = [one for each in slices for one in each["spec"].get("devices", ())]
    assert {"basic" in one for one in devices} == {version == "v1beta1"}
    dra = count(slices, claims)
    for name, case in CASES.items():
        rows = [row for row in expected(case)[0] if not row[0].startswith("nvidia.com/")]
        assert [(one.name, one.capacity, one.allocatable, one.allocated) for one in dra[name].resources] == rows, name
        assert list(dra[name].problems) == list(case.problems)


def run(plane: ControlPlane, capsys: pytest.CaptureFixture[str], *words: str, user: str = "") -> tuple[str, str]:
    kubeconfig = plane.kubeconfig_for(user) if user else plane.kubeconfig
    assert main([words[0], f"--kubeconfig={kubeconfig}", *words[1:]]) == 0
    return capsys.readouterr()


def test_the_commands(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(plane, capsys, "gpus", "-o", "json")
    assert err == ""
    nodes = {one["name"]: one for one in json.loads(out)["nodes"]}
    for name, case in CASES.items():
        rows = [
            (one["name"], one["capacity"], one["allocatable"], one["allocated"])
            for one in nodes.get(name, {}).get("resources", [])
        ]
        assert rows == list(case.rows), name
        holders = [
            (one.get("pod", ""), one["resource"], one["amount"], one.get("device", ""))
            for one in nodes.get(name, {}).get("holders", [])
        ]
        assert sorted(holders) == sorted(case.holders), name
    text, _ = run(plane, capsys, "gpus")
    assert f"{DRIVER}/mig-3g.40gb" in text
    pods, _ = run(plane, capsys, "gpus", "--pods")
    assert [line.split() for line in pods.splitlines() if "dra/t " in line] == [
        ["mig-on-demand", "dra/t", f"{DRIVER}/mig-3g.40gb", "1", "gpu-0-mig-3g40gb-0", "dra/three"]
    ]
    table, _ = run(plane, capsys, "nodes", "missing-slice", "full-gpus")
    assert f"DRA pool missing-slice of {DRIVER} is incomplete: 1 of 2 slices" in table
    assert "no device plug-in" not in table
    plane.request("PATCH", "/api/v1/nodes/full-gpus", {"metadata": {"labels": {"nvidia.com/gpu.count": "7"}}})
    explained, _ = run(plane, capsys, "explain", "full-gpus", "nvidia.com/gpu.count")
    assert f"ResourceSlices of {DRIVER}: devices of type gpu 8{CONTRADICTS}" in explained


EXPRESSION = "nvidia.com/gpu.present"


def test_find_counts_both_kinds(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(plane, capsys, "find", EXPRESSION, "-o", "json")
    assert err == ""
    found = json.loads(out)["resources"]
    for name, case in CASES.items():
        rows = [(one["name"], one["capacity"], one["allocatable"], one["allocated"]) for one in found.get(name, ())]
        assert rows == list(case.rows), name
    out, err = run(plane, capsys, "find", EXPRESSION, "-o", "wide")
    assert err == ""
    (line,) = (line for line in out.splitlines() if line.startswith("both-kinds "))
    assert line.endswith(f"nvidia.com/gpu 2/3, {DRIVER} 1/1")


@contextmanager
def allowed(plane: ControlPlane, user: str, *resources: str) -> Iterator[None]:
    """The user may list these and nothing else."""
    rules = [{"apiGroups": ["", "resource.k8s.io"], "resources": list(resources), "verbs": ["list"]}]
    role = "/apis/rbac.authorization.k8s.io/v1"
    plane.request("POST", f"{role}/clusterroles", {"metadata": {"name": "dra-less"}, "rules": rules})
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "dra-less", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "dra-less"}, "roleRef": reference, "subjects": [subject]}
    plane.request("POST", f"{role}/clusterrolebindings", binding)
    try:
        yield
    finally:
        plane.request("DELETE", f"{role}/clusterrolebindings/dra-less")
        plane.request("DELETE", f"{role}/clusterroles/dra-less")


@pytest.mark.parametrize("words", [("gpus",), ("find", EXPRESSION)], ids=lambda words: words[0])
def test_without_the_permission_there_is_one_note(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with allowed(plane, "alice", "nodes", "pods"):
        out, err = run(plane, capsys, *words, "-o", "json", user="alice")
    assert "DRA is not counted: " in err
    assert err.count("\n") == 1
    data = json.loads(out)
    nodes = {one["name"]: one["resources"] for one in data["nodes"]} if words == ("gpus",) else data["resources"]
    assert [one["name"] for one in nodes["both-kinds"]] == ["nvidia.com/gpu"]


def test_find_needs_no_permission_for_pods(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    """What they request is unknown then, and what claims hold is not."""
    with allowed(plane, "alice", "nodes", "resourceslices", "resourceclaims"):
        out, err = run(plane, capsys, "find", EXPRESSION, "-o", "wide", user="alice")
        data, _ = run(plane, capsys, "find", EXPRESSION, "-o", "json", user="alice")
    assert err.startswith("nfd find: requests of pods are not counted: ")
    assert err.count("\n") == 1
    (line,) = (line for line in out.splitlines() if line.startswith("both-kinds "))
    assert line.endswith(f"nvidia.com/gpu ?/3, {DRIVER} 1/1")
    offers = json.loads(data)["resources"]["both-kinds"]
    assert [one.get("allocated") for one in offers] == [None, 1]
