"""docs/migrating.md with the real NFD: nothing that both products give is absent for a moment, in either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.nodes import Node
from tests.e2e.programs import Program, eventually
from tests.peers.conftest import AddRow, Start
from tests.peers.history import KINDS, look, settled
from tests.peers.nfd import EVERYTHING, PHASE, RULES, Nfd, options, patiently
from tests.peers.switch import Switch

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KUBELETS = {"labels": {"kubernetes.io/os": "linux"}, "annotations": {"volumes": "true"}}
"""NFD's patch needs that both exist."""
OURS = "this product"
HALF = f"{OURS} on half of the nodes"


@pytest.fixture
def rule(control_plane: ControlPlane, definitions: None) -> Iterator[None]:
    patiently(control_plane, "POST", RULES, EVERYTHING)
    yield
    patiently(control_plane, "DELETE", f"{RULES}/{EVERYTHING['metadata']['name']}")


@pytest.mark.parametrize(("release", "old"), [("0.16", True), ("0.16", False), ("0.19", False)])
def test_there_and_back(
    release: str,
    old: bool,
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    start: Start,
    control_plane: ControlPlane,
    rule: None,
    add_row: AddRow,
) -> None:
    boot_id = BOOT_ID.read_text().strip()
    pair = [nodes(Machine(Path("/"), boot_id), **KUBELETS) for _ in range(2)]
    initial = [look(node) for node in pair]
    nfd = Nfd(release, old, start, control_plane, nodes(**KUBELETS).name)
    one, other = pair

    nfd.start_master()
    for node in pair:
        nfd.start_worker(node, 1)
    for node in pair:
        nfd.reported(node, 1)
        assert {key.kind for key in settled(node).state} == {*KINDS}
    switch = Switch(add_row, pair, initial)

    nfd.master.stop()
    for node in pair:
        nfd.stop_worker(node)
    master = take_over(masters, nfd)
    running = [begin(workers, node, master, 2) for node in pair]
    switch.end(f"{nfd.name} → {OURS}")

    stop(*running, master)
    for node in pair:
        nfd.start_worker(node, 3)
    nfd.go_back(*pair)
    for node in pair:
        nfd.reported(node, 3)
    switch.end(f"{OURS} → {nfd.name}")

    nfd.master.stop()
    nfd.stop_worker(one)
    master = take_over(masters, nfd)
    nfd.restart_workers()
    worker = begin(workers, one, master, 4)
    switch.end(f"{nfd.name} → {HALF}")
    assert other.labels[PHASE] == "3"

    stop(worker, master)
    nfd.start_worker(one, 5)
    nfd.go_back(*pair)
    nfd.reported(one, 5)
    switch.end(f"{HALF} → {nfd.name}")


def take_over(masters: MakeMaster, nfd: Nfd) -> Program:
    """Our master, where NFD's old workers report to."""
    master = masters("-enable-taints", *([f"-port={nfd.port}"] if nfd.old else []), wait=False)
    eventually(master.ready, 120)
    return master


def begin(workers: StartWorker, node: Node, master: Program, phase: int) -> Program:
    port = int([flag for flag in master.flags if flag.startswith("-port=")][-1].removeprefix("-port="))
    worker = workers(node, master, options(phase), to=port)
    eventually(lambda: node.labels.get(PHASE) == str(phase))
    return worker


def stop(*programs: Program) -> None:
    for program in programs:
        program.stop()
