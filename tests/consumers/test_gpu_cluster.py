"""GPU operator in GPUCluster mode, which deploys no GPU feature discovery: `nfd-worker` gives the labels.

The operator's part is `operators.gpu_cluster`; its operands are DaemonSets with its selectors, which a real scheduler
places. `NFD_TEST_SETTLED_SECONDS` is how long nothing may be written at the end.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.consumers import operators
from tests.consumers.cluster import apply, clear, counted, daemon_set, placed
from tests.consumers.fleet import FLEET, Member, make
from tests.consumers.running import Discovery, nodes, prepare
from tests.consumers.table import CHARTS_TERMS, DEPLOY, Consumer
from tests.controlplane.audit import WRITES
from tests.controlplane.cluster import ControlPlane
from tests.e2e.nodes import NAMESPACE
from tests.e2e.programs import eventually, scans
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

SETTLED = float(os.environ.get("NFD_TEST_SETTLED_SECONDS", "20"))
INTERVAL = int(min(60, SETTLED / 4))
"""Of the workers' scans; a Node that changes by itself would do so with one of them."""
SWITCHED = 180
"""Seconds: a worker learns the operator's labels with its next report, a heartbeat if nothing changes."""
N = "nvidia.com/"
CLIQUE = "7f3c0102-0304-0506-0708-090a0b0c0dff.7"
FABRIC = {"fabric": {"cluster_uuid": CLIQUE.removesuffix(".7"), "clique": 7}}
OLDER = ("cuda.driver.*", "cuda.runtime.*")
"""The older names that the table does not spell out."""
TABLE = Path(__file__).parents[2] / "docs/dra.md"

GPU_NODES = frozenset({"dgx-a100", "h200", "a100-mig"})
"""The first has no driver yet. The third is divided into MIG devices, and its worker has the strategy `single`."""
MEMBERS = {name: FLEET[name] for name in (*sorted(GPU_NODES), "milan-nic", "carmel", "alder-lake")}
MEMBERS["h200"] = replace(MEMBERS["h200"], device=FABRIC)

LABELS = {
    "h200": {
        "gpu.product": "NVIDIA-H200",
        "gpu.count": "8",
        "gpu.memory": "143771",
        "gpu.family": "hopper",
        "gpu.compute.major": "9",
        "gpu.clique": CLIQUE,
        "mig.capable": "true",
    },
    "a100-mig": {
        "gpu.product": "NVIDIA-A100-SXM4-40GB",
        "gpu.count": "2",
        "gpu.family": "ampere",
        "mig.capable": "true",
    },
    "dgx-a100": {"gpu.present": "true"},
}


def operand(part: str, **selector: str) -> Consumer:
    return Consumer("GPUCluster", part, "NVIDIA/gpu-operator 26.7, manifests", GPU_NODES, {**selector})


def workload(part: str, nodes: set[str], **selector: str) -> Consumer:
    return Consumer(
        "Workload", part, "labels of GFD", frozenset(nodes), {N + key: value for key, value in selector.items()}
    )


CONSUMERS = (
    operand("driver", **{DEPLOY + "driver": "true"}),
    replace(operand("kubelet plug-in", **{DEPLOY + "dra-driver": "true"}), terms=CHARTS_TERMS),
    operand("DRA validator", **{DEPLOY + "dra-validator": "true", N + "gpu.present": "true"}),
    operand("DCGM", **{DEPLOY + "dcgm-dra": "true"}),
    operand("DCGM exporter", **{DEPLOY + "dcgm-exporter-dra": "true"}),
    workload("by model", {"h200"}, **{"gpu.product": "NVIDIA-H200", "gpu.count": "8"}),
    workload("by model of a GPU with MIG", {"a100-mig"}, **{"gpu.product": "NVIDIA-A100-SXM4-40GB"}),
    workload("by clique", {"h200"}, **{"gpu.clique": CLIQUE}),
    workload("by capability", {"h200", "a100-mig"}, **{"mig.capable": "true"}),
)
ABSENT = (
    Consumer("GPU operator", "device plugin", "", frozenset(), {DEPLOY + "device-plugin": "true"}),
    Consumer("GPU operator", "feature discovery", "", frozenset(), {DEPLOY + "gpu-feature-discovery": "true"}),
    Consumer("Workload", "shared", "", frozenset(), terms=(((N + "gpu.replicas", "Exists", ()),),)),
)
ALL = (*CONSUMERS, *ABSENT)


def timed(member: Member) -> Member:
    return replace(member, config={**member.config, "core": {"sleepInterval": f"{INTERVAL}s"}})


@pytest.fixture(scope="module")
def discovery(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    """The device plugin was there before, as the labels of two nodes say."""
    folder = tmp_path_factory.mktemp("gpu-cluster")
    machines = {name: make(timed(member), folder / name) for name, member in MEMBERS.items()}
    running = prepare(cluster, folder, machines)
    with nodes(cluster, machines):
        for name in ("h200", "a100-mig"):
            label(cluster, name, {DEPLOY + "device-plugin": "true", DEPLOY + "mig-manager": "true"})
        apply(cluster, *(daemon_set(one.name, one.pod()) for one in ALL))
        running.start_master()
        running.start_workers()
        with suppress(AssertionError):  # the first test says what is not in place
            eventually(lambda: has_acted(cluster), SWITCHED)
        yield running
        running.kill()
        clear(cluster)


def label(plane: ControlPlane, name: str, labels: dict[str, Any]) -> None:
    plane.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})


def has_acted(plane: ControlPlane) -> bool:
    """The operator looks at each Node, and writes what it lacks."""
    for name in MEMBERS:
        labels = labels_of(plane, name)
        wanted = operators.gpu_cluster(labels)
        if changes := {key: value for key, value in wanted.items() if labels.get(key) != value}:
            label(plane, name, changes)
    return in_place(plane) and labels_are_as_listed(plane) == []


def labels_of(plane: ControlPlane, name: str) -> dict[str, str]:
    return dict(plane.get_node(name)["metadata"].get("labels", {}))


def in_place(plane: ControlPlane) -> bool:
    return found(plane) == wanted() and not any(counted(plane, one.name) for one in ABSENT)


def found(plane: ControlPlane) -> dict[str, list[str]]:
    """Without the pods of `ABSENT`: no kubelet ends those that were there before."""
    absent = {one.name for one in ABSENT}
    return {name: where for name, where in placed(plane).items() if name not in absent}


def wanted() -> dict[str, list[str]]:
    return {one.name: sorted(one.nodes) for one in CONSUMERS}


def listed() -> tuple[list[str], list[str]]:
    """Patterns of the labels that docs/dra.md lists as present, and as absent."""
    present: list[str] = []
    absent: list[str] = []
    text = TABLE.read_text().partition("## Which labels there are")[2].partition("\n## ")[0]
    for line in text.splitlines():
        first, second = [*line.split("|")[1:3], "", ""][:2]
        found = re.findall(r"`([a-z][^`]*)`", first)
        (absent if second.strip().startswith("none") else present).extend(map(pattern, found))
    present += map(pattern, OLDER)
    return present, [one for one in absent if one not in present]  # a value of `gpu.product` is absent, not the label


def pattern(name: str) -> str:
    parts = re.split(r"<[^>]*>|\*", name)
    return r"[^/]+".join(map(re.escape, parts))


def labels_are_as_listed(plane: ControlPlane) -> list[str]:
    """What contradicts the list."""
    present, absent = listed()
    wrong = []
    for name in MEMBERS:
        labels = {key.removeprefix(N): value for key, value in labels_of(plane, name).items() if key.startswith(N)}
        own = {key for key in labels if not key.startswith("gpu.deploy.")}
        wrong += [f"{name}: {key} is not listed" for key in own if not any(re.fullmatch(one, key) for one in present)]
        wrong += [f"{name}: {key} is listed as absent" for key in own if any(re.fullmatch(one, key) for one in absent)]
        wanted = LABELS.get(name, {})
        wrong += [f"{name}: {key} is {labels.get(key)}" for key in wanted if labels.get(key) != wanted[key]]
        wrong += [f"{name}: {key} on a node without a GPU" for key in labels if name not in GPU_NODES]
    return wrong


def test_labels_are_as_the_page_lists_them(cluster: ControlPlane, discovery: Discovery) -> None:
    present, absent = listed()
    assert len(present) > 15
    assert len(absent) > 8
    assert labels_are_as_listed(cluster) == []


def test_pods_are_on_the_right_nodes(cluster: ControlPlane, discovery: Discovery) -> None:
    with suppress(AssertionError):
        eventually(lambda: in_place(cluster))
    assert found(cluster) == wanted()
    assert {one.name: counted(cluster, one.name) for one in ABSENT} == {one.name: 0 for one in ABSENT}


def test_nothing_is_written_once_all_is_in_place(cluster: ControlPlane, discovery: Discovery) -> None:
    """By us to anything, by anybody to a Node; the operator looks at its Nodes all the time."""
    versions = {name: cluster.get_node(name)["metadata"]["resourceVersion"] for name in MEMBERS}
    mark, end = cluster.mark(), time.monotonic() + SETTLED
    before = {name: scans(worker) for name, worker in discovery.workers.items()}
    while time.monotonic() < end:
        assert has_acted(cluster)
        time.sleep(min(5.0, SETTLED / 10))
    ours = f"system:serviceaccount:{NAMESPACE}:"
    events = [event for event in cluster.audit(mark) if event.verb in WRITES]
    writes = [event for event in events if event.user.startswith(ours) or event.resource == "nodes"]
    scanned = {name: scans(worker) - before[name] for name, worker in discovery.workers.items()}
    print(f"{SETTLED:g} s, {sum(scanned.values()):g} scans of {len(scanned)} workers, {len(writes)} writes")
    assert writes == []
    assert all(number >= 2 for number in scanned.values()), scanned
    assert {name: cluster.get_node(name)["metadata"]["resourceVersion"] for name in MEMBERS} == versions
