"""The GPU operator reads our labels: what it writes on the nodes, where its pods are, and that our master is silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.consumers import operators
from tests.consumers.cluster import definitions, scheduling_cluster
from tests.consumers.fleet import FLEET, GPU_NODES, make
from tests.consumers.running import Discovery, nodes, prepare
from tests.consumers.table import DEPLOY
from tests.controlplane.audit import WRITES
from tests.controlplane.cluster import ControlPlane
from tests.e2e.nodes import MASTER, F
from tests.e2e.programs import eventually
from tests.peers.conftest import AddRow
from tests.peers.gpu_operator import GpuOperator, openshift
from tests.peers.programs import given, given_version

OBSERVED = 180.0
"""Seconds for which writes are counted once the operator has decided."""
INTERVAL = 65.0
"""A little more than the workers' `core.sleepInterval`."""
PATIENCE = 180.0
Labels = dict[str, dict[str, str]]
PRODUCT = "nvidia.com/gpu.product"
WORKLOAD = "nvidia.com/gpu.workload.config"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
DRIVER_CRD = {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": True}}
RHCOS = "416.94.202409191851-0"
RECORDED = Path(__file__).parents[1] / "consumers/gpu_operator.json"
"""The decisions of the last run: what tests/consumers compares our labels with."""


@dataclass(frozen=True)
class Mode:
    """A way to configure the operator; `nodes`: what an administrator puts on some of them before."""

    values: Mapping[str, Any]
    nodes: Mapping[str, Mapping[str, str]]
    openshift: bool = False


MODES = {
    "plain": Mode({}, {}),
    "precompiled drivers": Mode({"driver": {"usePrecompiled": True, "version": "595"}}, {}),
    "NVIDIADriver": Mode({"driver": DRIVER_CRD}, {}),
    "sandbox workloads": Mode(
        {"sandboxWorkloads": {"enabled": True}},
        {"h200": {WORKLOAD: "vm-passthrough"}, "l4-mps": {WORKLOAD: "vm-vgpu"}},
    ),
    "GPUCluster": Mode(
        {"clusterPolicy": {"deployCR": False}, "gpuCluster": {"deployCR": True}, "driver": DRIVER_CRD}, {}
    ),
    "OpenShift": Mode({"platform": {"openshift": True}}, {}, openshift=True),
    "OpenShift, NVIDIADriver": Mode({"platform": {"openshift": True}, "driver": DRIVER_CRD}, {}, openshift=True),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    given("gpu-operator", "gpu-operator")
    with scheduling_cluster() as plane:
        definitions(plane)
        yield plane


@pytest.fixture(scope="module")
def discovery(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    folder = tmp_path_factory.mktemp("fleet")
    machines = {name: make(member, folder / name) for name, member in FLEET.items()}
    running = prepare(cluster, folder, machines)
    with nodes(cluster, machines):
        try:
            running.master.start()
            eventually(running.master.ready, PATIENCE)
            for worker in running.workers.values():
                worker.start()
            eventually(
                lambda: all(F + "kernel-version.full" in labels for labels in labels_of(cluster).values()), PATIENCE
            )
            eventually(lambda: all(PRODUCT in labels_of(cluster)[name] for name in with_driver()), PATIENCE)
            yield running
        finally:
            running.kill()


def with_driver() -> list[str]:
    return [name for name in GPU_NODES if FLEET[name].gpus]


def labels_of(plane: ControlPlane) -> Labels:
    items = plane.request("GET", "/api/v1/nodes")["items"]
    return {item["metadata"]["name"]: item["metadata"].get("labels", {}) for item in items}


def written(before: Labels, after: Labels) -> Labels:
    """What others added, but for what follows the driver's pods: no kubelet runs them here."""
    found = {}
    for name, labels in sorted(after.items()):
        found[name] = {key: labels[key] for key in sorted(labels.keys() - before[name].keys() - {UPGRADE})}
    return {name: new for name, new in found.items() if new}


@pytest.mark.parametrize("name", MODES)
def test_mode(name: str, cluster: ControlPlane, discovery: Discovery, add_row: AddRow, tmp_path: Path) -> None:
    mode = MODES[name]
    if mode.openshift:
        openshift(cluster, {RHCOS: "driver-toolkit.example.invalid"})
    patch(cluster, mode.nodes)
    before = labels_of(cluster)
    operator = GpuOperator(cluster, mode.values, tmp_path / "operator.log")
    operator.start()
    try:
        after = decided(cluster, operator)
        writes = count_writes(cluster)
        assert stable(cluster) == after, "the labels still changed"
        assert operator.program.alive()
        sets = operator.daemon_sets()
        too_old = operator.sample("openshift_driver_toolkit_nfd_too_old")
    finally:
        operator.stop()
        patch(cluster, {node: dict.fromkeys([*keys, UPGRADE]) for node, keys in written(before, after).items()})
        patch(cluster, {node: dict.fromkeys(keys) for node, keys in mode.nodes.items()})
    added = written(before, after)
    keep(name, added, sets)
    version = given_version("gpu-operator")
    add_row("gpu-operator", f"{version}, {name}", about(added), about_sets(sets), writes)
    assert added.keys() == GPU_NODES
    assert writes == 0
    assert too_old == 0
    if name == "plain":
        wanted = {node: {**before[node], **operators.gpu_operator(before[node])} for node in GPU_NODES}
        assert added == written(before, wanted)


def patch(plane: ControlPlane, changes: Mapping[str, Mapping[str, str | None]]) -> None:
    for node, keys in changes.items():
        plane.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": dict(keys)}})


def decided(plane: ControlPlane, operator: GpuOperator) -> Labels:
    """The labels after the operator has seen every GPU node, and a whole interval of our workers without a change.

    Our own labels can follow the operator's: with the DRA driver, MIG devices are no resources of the device plug-in.
    """

    def present() -> bool:
        labels = labels_of(plane)
        return all(labels[name].get("nvidia.com/gpu.present") == "true" for name in GPU_NODES)

    eventually(present, PATIENCE)
    eventually(lambda: any(nodes for _, nodes in operator.daemon_sets().values()), PATIENCE)
    while True:
        labels, sets = stable(plane), operator.daemon_sets()
        threading.Event().wait(INTERVAL)
        if labels == stable(plane) and sets == operator.daemon_sets():
            return labels


def stable(plane: ControlPlane) -> Labels:
    """The labels without those that follow the driver's pods."""
    return {
        name: {key: value for key, value in labels.items() if key != UPGRADE}
        for name, labels in labels_of(plane).items()
    }


def count_writes(plane: ControlPlane) -> int:
    """Of our master, to any resource."""
    mark = plane.mark()
    threading.Event().wait(OBSERVED)
    events = [event for event in plane.audit(mark) if event.user == MASTER and event.verb in WRITES]
    for event in events:
        print(event)
    return len(events)


def keep(name: str, added: Labels, sets: Mapping[str, tuple[dict[str, str], list[str]]]) -> None:
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    listed = {each: {"selector": selector, "nodes": placed} for each, (selector, placed) in sets.items()}
    known[name] = {"version": given_version("gpu-operator"), "labels": added, "daemonSets": listed}
    RECORDED.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")


def about(added: Labels) -> str:
    """The nodes of each workload type, and of MIG manager, which not every node of the type `container` gets."""
    by_workload: dict[str, list[str]] = {}
    for node, keys in added.items():
        operands = {key.removeprefix(DEPLOY) for key in keys if key.startswith(DEPLOY)}
        by_workload.setdefault(workload(operands), []).append(node)
    return "; ".join(f"{name} on {', '.join(nodes)}" for name, nodes in by_workload.items())


def workload(operands: set[str]) -> str:
    special = {"dra-driver": "DRA driver", "vfio-manager": "`vm-passthrough`", "vgpu-manager": "`vm-vgpu`"}
    if found := [name for operand, name in special.items() if operand in operands]:
        return found[0]
    assert operands >= {*operators.OPERANDS}, operands
    return "`container` with MIG manager" if "mig-manager" in operands else "`container`"


def about_sets(sets: Mapping[str, tuple[dict[str, str], list[str]]]) -> str:
    """The driver's, with their nodes, and how many others there are."""
    drivers = {name: placed for name, (_, placed) in sets.items() if "driver" in name and "dra" not in name}
    listed = [f"`{name}` on {', '.join(placed) or 'no node'}" for name, placed in drivers.items()]
    return "; ".join([*listed, f"{len(sets) - len(drivers)} others"])
