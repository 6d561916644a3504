"""docs/migrating.md with the real programs: nothing that both products give is absent for a moment, in either way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports, without_proxy
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import FEATURES_D, Machine
from tests.e2e.nodes import NAMESPACE, Node
from tests.e2e.programs import Program, eventually, pass_again
from tests.gfd.machines import H100
from tests.nvml.library import build
from tests.peers.programs import program

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
OBJECTS = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
RULE = {
    "name": "r",
    "labels": {"vendor.io/both": "yes"},
    "matchFeatures": [{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}],
}
OPTIONS = "-options=" + json.dumps({"sources": {"custom": [RULE]}})
PRODUCT = "nvidia.com/gpu.product"
Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path, control_plane: ControlPlane) -> Iterator[Start]:
    """Starts a program of a tree."""
    made: list[Program] = []

    def begin(tree: str, name: str, *flags: str, **variables: str) -> Program:
        (port,) = free_ports(1)
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "KUBECONFIG": str(control_plane.kubeconfig), **variables}
        made.append(Program(str(program(tree, name)), flags, tmp_path / f"{len(made)}.log", port, variables))
        made[-1].start()
        return made[-1]

    yield begin
    for one in made:
        one.kill()


def flips(states: Sequence[Mapping[str, str]], keys: frozenset[str]) -> tuple[list[str], list[str]]:
    """Keys that were absent in a state, and keys whose value came back after another one."""
    removed = sorted({key for state in states for key in keys - state.keys()})
    changed = []
    for key in sorted(keys):
        values = [state[key] for state in states if key in state]
        distinct = [value for at, value in enumerate(values) if at == 0 or values[at - 1] != value]
        changed += [key] if len(distinct) != len(set(distinct)) else []
    return removed, changed


class Nfd:
    """NFD of a tree, as its manifests run it; 0.16 also with the old protocol."""

    def __init__(self, tree: str, node: Node, start: Start, plane: ControlPlane, *, old: bool) -> None:
        self.tree, self.node, self._start, self._old = tree, node, start, old
        self._kubeconfig = f"-kubeconfig={plane.kubeconfig}"
        self.port, self.metrics = free_ports(2)

    def worker(self) -> Program:
        flags = ["-config=/none", OPTIONS, self._kubeconfig]
        if self.tree == "nfd-0.16":
            gate = "-enable-nodefeature-api=false" if self._old else "-enable-nodefeature-api=true"
            flags = ["-config=/none", OPTIONS, gate, "-metrics=0", "-grpc-health=0", f"-server=localhost:{self.port}"]
            flags += [] if self._old else [self._kubeconfig]
        else:
            flags += [f"-port={self.metrics}", "-owner-refs="]
        return self._start(self.tree, "nfd-worker", *flags, NODE_NAME=self.node.name)

    def master(self, own: str) -> Program:
        flags = ["-config=/none", self._kubeconfig, f"-port={self.port}"]
        if self.tree == "nfd-0.16":
            gate = "-enable-nodefeature-api=false" if self._old else "-enable-nodefeature-api=true"
            flags += [gate, "-metrics=0", "-grpc-health=0"]
        return self._start(self.tree, "nfd-master", *flags, NODE_NAME=own)


@pytest.mark.parametrize(("tree", "old"), [("nfd-0.16", True), ("nfd-0.16", False), ("nfd-0.19", False)])
def test_nfd(
    tree: str,
    old: bool,
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    start: Start,
    control_plane: ControlPlane,
    table: list[tuple[str, ...]],
) -> None:
    kubelets = {"labels": {"kubernetes.io/os": "linux"}, "annotations": {"volumes": "true"}}  # NFD's patch needs both
    node, own = nodes(Machine(Path("/"), BOOT_ID.read_text().strip()), **kubelets), nodes(**kubelets)
    nfd = Nfd(tree, node, start, control_plane, old=old)
    name = f"NFD {tree.removeprefix('nfd-')}{', gRPC' if old else ''}"
    their_master, their_worker = nfd.master(own.name), nfd.worker()
    eventually(lambda: "vendor.io/both" in node.labels, 120)

    version, theirs = node.version, node.labels
    their_master.stop()
    their_worker.stop()
    forget(control_plane, node)
    master = masters()
    worker = workers(node, master, OPTIONS)
    pass_again(worker)
    record(table, name, "ours", node, version, theirs.keys() & node.labels.keys())

    version, ours = node.version, node.labels
    worker.stop()
    master.stop()
    their_worker = nfd.worker()
    if old:
        their_master = nfd.master(own.name)
    else:
        eventually(lambda: names(control_plane, node), 60)
        their_master = nfd.master(own.name)
    eventually(lambda: node.labels.keys() != ours.keys(), 120)
    record(table, "ours", name, node, version, ours.keys() & node.labels.keys())
    forget(control_plane, node)


def record(
    table: list[tuple[str, ...]], old: str, new: str, node: Node, version: str, both: frozenset[str] | set[str]
) -> None:
    assert len(both) > 10
    removed, changed = flips(node.states(version), frozenset(both))
    table.append((old, new, str(len(both)), str(len(removed)), str(len(changed))))
    assert (removed, changed) == ([], [])


def names(plane: ControlPlane, node: Node) -> list[str]:
    """Objects of the node's worker."""
    items = plane.request("GET", OBJECTS)["items"]
    return [one["metadata"]["name"] for one in items if one["metadata"]["name"] == node.name]


def forget(plane: ControlPlane, node: Node) -> None:
    """What the garbage collector does when the worker's pod is gone."""
    for name in names(plane, node):
        plane.request("DELETE", f"{OBJECTS}/{name}")


@pytest.mark.parametrize("form", ["object", "file"])
def test_gfd(
    form: str,
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    control_plane: ControlPlane,
    tmp_path: Path,
    table: list[tuple[str, ...]],
) -> None:
    """GFD's labels, then the worker's with the driver library, then GFD ends; its object or file goes."""
    libraries, machine = build({"devices": [H100]}, tmp_path / "driver"), machines("debian-12-epyc-milan")
    machine.plug(str(H100["pci"]["bus_id"]).removeprefix("0000"), "030200", "10de", "2330")
    (machine.root / FEATURES_D).mkdir(parents=True, exist_ok=True)
    node, master = nodes(machine), masters()
    flags = [f"--output-file={machine.root / FEATURES_D / 'gfd'}", "--mig-strategy=none", "--sleep-interval=1s"]
    flags += [f"--use-node-feature-api={'true' if form == 'object' else 'false'}"]
    env = {**without_proxy(), **libraries.env, "KUBECONFIG": str(control_plane.kubeconfig)}
    env |= {"NODE_NAME": node.name, "NAMESPACE": NAMESPACE, "POD_NAME": "gfd", "HOME": os.environ.get("HOME", "/")}
    blind = workers(node, master, f"--host-root={machine.root}", NFD_NVML_LIBRARY="/nowhere/lib.so")
    with (tmp_path / "gfd.log").open("wb") as log:
        gfd = subprocess.Popen([str(program("gfd-0.20", "gpu-feature-discovery")), *flags], env=env, stderr=log)
        try:
            eventually(lambda: node.labels.get(PRODUCT) == "NVIDIA-H100-80GB-HBM3", 60)
            version, theirs = node.version, node.labels
            blind.stop()
            variables = {**libraries.env, "NFD_NVML_LIBRARY": str(libraries.nvml)}
            worker = workers(node, master, f"--host-root={machine.root}", **variables)
            pass_again(worker)
        finally:
            gfd.send_signal(signal.SIGTERM)
            gfd.wait(30)
    if form == "object":
        control_plane.request("DELETE", f"{OBJECTS}/nvidia-features-for-{node.name}")
    else:
        assert not (machine.root / FEATURES_D / "gfd").exists()
    pass_again(worker)
    both = {key for key in theirs.keys() & node.labels.keys() if key.startswith("nvidia.com/")}
    record(table, f"GFD 0.20, {form}", "ours", node, version, both)
