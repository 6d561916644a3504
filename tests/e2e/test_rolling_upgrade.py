"""Everything is replaced while it runs: workers two at a time, masters one by one, as processes on a real API server.

`NFD_TEST_NODES=50 python -m pytest -s tests/e2e/test_rolling_upgrade.py` shows it for 50 nodes, each with a worker
process of its own, and prints what a watch on the Nodes and the audit log tell of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine
from tests.e2e.nodes import F, Node
from tests.e2e.programs import Program, eventually, leads, pass_again, port_of, reports

NODES = int(os.environ.get("NFD_TEST_NODES", "4"))
RECORDING = "raspberry-pi-4"
ID = F + "system-os_release.ID"


@dataclass
class Member:
    """A machine, its Node, and the worker on it."""

    machine: Machine
    node: Node
    worker: Program


@contextmanager
def crew(
    masters: list[Program], machines: Callable[[str], Machine], nodes: MakeNode, folder: Path
) -> Iterator[list[Member]]:
    """The workers, started two at a time; half of them know the one master, half the other."""
    made: list[Member] = []
    try:
        for number in range(NODES):
            machine = machines(RECORDING)
            node = nodes(machine)
            (http_port,) = free_ports(1)
            server = f"localhost:{port_of(masters[number % len(masters)])}"
            words = (f"--server={server}", f"--http-port={http_port}", "--config=", f"--host-root={machine.root}")
            log = folder / f"worker-{number}.log"
            made.append(Member(machine, node, Program("nfd-worker", words, log, http_port, {"NODE_NAME": node.name})))
        start(made)
        yield made
    finally:
        for member in made:
            member.worker.kill()


def start(members: list[Member]) -> None:
    """Each pair has reported before the next one is started."""
    for pair in pairs(members):
        for member in pair:
            member.worker.start()
        for member in pair:
            eventually(lambda member=member: reports(member.worker), 120)  # type: ignore[misc]


def pairs(members: list[Member]) -> Iterable[list[Member]]:
    return (members[number : number + 2] for number in range(0, len(members), 2))


def roll_workers(members: list[Member]) -> None:
    for pair in pairs(members):
        for member in pair:
            assert member.worker.stop() == 0
        start(pair)


def roll_masters(masters: list[Program]) -> None:
    """As a rollout does, the next one goes when its predecessor's successor is ready."""
    for master in masters:
        assert master.stop() == 0
        master.start()
        eventually(master.ready, 120)
        eventually(lambda: sum(leads(one) for one in masters) == 1)


def watched(plane: ControlPlane, since: str, names: Iterable[str]) -> list[tuple[str, Mapping[str, str]]]:
    """Name and labels of each of these Nodes after each change since that resourceVersion."""
    lines = plane.text("GET", f"/api/v1/nodes?watch=1&resourceVersion={since}&timeoutSeconds=2").splitlines()
    told = [json.loads(line)["object"]["metadata"] for line in lines]
    return [(one["name"], one.get("labels", {})) for one in told if one["name"] in names]


def test_a_rolling_upgrade_deletes_no_label_and_writes_nothing_without_news(
    replicas: list[Program],
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> None:
    """Masters, workers, masters again; in between one machine changes, and that is the only write."""
    with crew(replicas, machines, nodes, tmp_path) as members:
        before = {member.node.name: member.node.labels for member in members}
        assert all(labels.get(ID) for labels in before.values())
        mark, since = control_plane.mark(), control_plane.request("GET", "/api/v1/nodes?limit=1")
        roll_masters(replicas)
        roll_workers(members[: NODES // 2])
        changed = members[0]
        changed.machine.write("etc/os-release", (changed.machine.root / "etc/os-release").read_text() + "ID=newer\n")
        pass_again(changed.worker)
        eventually(lambda: changed.node.labels[ID] == "newer", 120)
        roll_workers(members[NODES // 2 :])
        roll_masters(replicas)
        seen = watched(control_plane, since["metadata"]["resourceVersion"], before)
        patches = [event for member in members for event in member.node.writes(mark)]
        assert all(member.worker.alive() for member in members)
    known, deleted = dict(before), 0
    for name, labels in seen:
        deleted += len(known[name].keys() - labels.keys())
        known[name] = dict(labels)
    print(f"\n{NODES} nodes with {sum(map(len, before.values()))} labels: all workers replaced, both masters twice;")
    print(f"{len(seen)} changes of nodes, {len(patches)} patches, {deleted} labels deleted")
    assert deleted == 0
    assert seen == [(changed.node.name, before[changed.node.name] | {ID: "newer"})]
    assert [(event.name, event.code) for event in patches] == [(changed.node.name, 200)]
