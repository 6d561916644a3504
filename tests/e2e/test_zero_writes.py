"""Where nothing changed nothing is written: what the API server's audit log says about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.e2e.conftest import MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import F, Node, asked
from tests.e2e.programs import Program, eventually, pass_again, passes, port_of, scans
from tests.nvml.library import build
from tests.rpc import nfd016

MakeMachine = Callable[[str], Machine]
GPU = "0000:65:00.0"
TESLA = {
    "devices": [
        {"name": "Tesla T4", "memory": 16106127360, "cc": [7, 5], "pci": {"bus_id": f"0000{GPU}", "class": "0x030200"}}
    ]
}


def test_100_further_passes_of_the_worker_cause_zero_write_requests(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker, control_plane: ControlPlane
) -> None:
    """Full ones, configuration read again each time; the API server is asked nothing at all about Nodes meanwhile."""
    machine = machines("debian-12-epyc-milan")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    node.kubectl_label("foo=bar")
    before, mark, scanned = node.labels, control_plane.mark(), scans(worker)
    for _ in range(100):
        pass_again(worker)
    assert scans(worker) - scanned >= 100
    assert asked(control_plane, mark) == []
    assert node.labels == before
    assert before["foo"] == "bar"


def change_label(node: Node, label: str, master: Program) -> None:
    """Change it, and wait for the pass that follows: the queue joins it with the pass of a report that comes first."""
    before = passes(master)
    node.kubectl_label(label)
    eventually(lambda: passes(master) > before)


def test_100_further_passes_of_the_master_cause_zero_write_requests(
    nodes: MakeNode, master: Program, control_plane: ControlPlane
) -> None:
    """By reports that say the same, and by changes of the Node that are none of our business."""
    node = nodes()
    request = nfd016.v016()(nfd_version="v0.16.6", node_name=node.name, labels={"cpu-cpuid.AVX": "true", "mine": "1"})
    nfd016.set_labels(port_of(master), request.SerializeToString())
    before, mark, begun = node.labels, control_plane.mark(), passes(master)
    assert before == {F + "cpu-cpuid.AVX": "true", F + "mine": "1"}
    for number in range(100):
        nfd016.set_labels(port_of(master), request.SerializeToString())  # answered after its pass
        if number % 10 == 5:
            change_label(node, f"foo=bar-{number}", master)
    assert passes(master) - begun >= 110
    assert node.writes(mark) == []
    assert node.labels == before | {"foo": "bar-95"}


def test_kill_9_of_the_worker_and_restart_cause_zero_writes(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker, tmp_path: Path
) -> None:
    """With a GPU and its driver, whose labels hold a time. The new worker's report is taken and passes through."""
    libraries = build(TESLA, tmp_path / "driver")
    machine = machines("debian-12-epyc-milan")
    machine.plug(GPU, "030200", "10de", "1eb8")
    node = nodes(machine)
    flags, variables = (f"--host-root={machine.root}",), {**libraries.env, "NFD_NVML_LIBRARY": str(libraries.nvml)}
    first = workers(node, master, *flags, **variables)
    eventually(lambda: node.labels.get("nvidia.com/gpu.product") == "Tesla-T4")  # once the Node's labels are known
    before = node.labels
    assert "nvidia.com/gfd.timestamp" in before
    mark, begun = node.plane.mark(), passes(master)
    for _ in range(3):
        first.kill()
        first = workers(node, master, *flags, **variables)
    eventually(lambda: passes(master) - begun >= 3)
    assert node.writes(mark) == []
    assert node.labels == before


def test_a_restarted_master_writes_nothing(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker, control_plane: ControlPlane
) -> None:
    """Killed in the middle; the worker, restarted too, tells it what it told the one before."""
    machine = machines("dgx-a100")
    node = nodes(machine)
    worker = workers(node, master, f"--replay={machine.root}")
    before, mark = node.labels, control_plane.mark()
    master.kill()
    master.start()
    eventually(master.ready)
    worker.kill()
    workers(node, master, f"--replay={machine.root}")
    assert [event.verb for event in asked(control_plane, mark)] == ["list", "watch"]
    assert node.labels == before
