"""Master or API server away for a while: nothing is lost, nothing is repeated without end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc
import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine, discovered
from tests.e2e.nodes import F, Node, asked
from tests.e2e.programs import Program, eventually, pass_again, port_of
from tests.rpc import nfd016

MakeMachine = Callable[[str], Machine]
ID = F + "system-os_release.ID"


def failures(worker: Program) -> float:
    return worker.metric("nfd_worker_report_failures_total")


def test_master_stopped_the_worker_keeps_its_pid_and_the_newest_state_arrives(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """What changed twice meanwhile is written once, as it is at the end."""
    machine = machines("debian-12-epyc-milan")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    pid, before, version = worker.pid, node.labels, node.version
    assert master.stop() == 0
    machine.write("etc/os-release", "ID=one\n")
    pass_again(worker)
    eventually(lambda: failures(worker) >= 1)
    machine.write("etc/os-release", "ID=two\n")
    pass_again(worker)
    eventually(lambda: failures(worker) >= 3)
    assert node.labels == before
    master.start()
    eventually(lambda: node.labels[ID] == "two")
    assert (worker.alive(), worker.pid) == (True, pid)
    assert node.states(version) == [discovered(f"--host-root={machine.root}")]
    phrases = [line["event"] for line in worker.events() if "report" in line["event"]]
    assert phrases == ["report not accepted; trying again", "reports are accepted again"]


def test_api_server_outage_labels_stay_and_the_change_made_meanwhile_is_written(
    machines: MakeMachine, nodes: MakeNode, masters: MakeMaster, master: Program, workers: StartWorker
) -> None:
    """Programs go on, a master started meanwhile waits, and the server meets a bounded number of requests.

    One that has just started refuses everybody for a moment, until it knows its roles.
    """
    machine = machines("debian-12-epyc-milan")
    node = nodes(machine)
    worker = workers(node, master, f"--host-root={machine.root}")
    pids, before = (worker.pid, master.pid), node.labels
    tried = master.metric("nfd_master_node_update_requests_total")
    with node.plane.outage():
        machine.write("etc/os-release", "ID=meanwhile\n")
        pass_again(worker)
        eventually(lambda: master.metric("nfd_master_node_update_failures_total") >= 4)
        assert master.metric("nfd_master_node_update_requests_total") - tried < 10
        assert master.metric("nfd_master_store_connected") == 0
        late = masters(wait=False)
        eventually(lambda: late.said("watch interrupted"))
        assert late.get("/readyz")[0] == 503
        mark = node.plane.audit_log.mark()
    eventually(lambda: node.labels[ID] == "meanwhile")
    after = {key: value for key, value in before.items() if "os_release.VERSION_ID" not in key}
    assert node.labels == after | {ID: "meanwhile"}
    eventually(late.ready)
    eventually(lambda: master.metric("nfd_master_store_connected") == 1)
    assert late.stop() == 0
    assert (worker.pid, master.pid) == pids
    assert worker.alive()
    assert master.alive()
    events = asked(node.plane, mark)
    patched = [(event.name, event.code) for event in events if event.verb == "patch" and event.code != 403]
    assert patched == [(node.name, 200)]
    assert {event.code for event in events if not event.early} <= {200}
    assert {event.code for event in events} <= {200, 403}
    assert len(events) < 20


@contextmanager
def frozen(plane: ControlPlane) -> Iterator[None]:
    """An API server that takes requests and answers none, for this block."""
    assert plane.apiserver.pid is not None
    os.kill(plane.apiserver.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(plane.apiserver.pid, signal.SIGCONT)


def test_sigterm_of_the_master_drains(nodes: MakeNode, masters: MakeMaster, control_plane: ControlPlane) -> None:
    """Reports under way are answered and on their Nodes before the process ends; later ones are refused."""
    master, message = masters(), nfd016.v016()
    crowd = [nodes() for _ in range(5)]

    def report(node: Node) -> bytes:
        request = message(node_name=node.name, labels={"mine": "1"})
        return nfd016.set_labels(port_of(master), request.SerializeToString())

    def refusal() -> grpc.StatusCode:
        with pytest.raises(grpc.RpcError) as caught:
            report(crowd[0])
        return caught.value.code()

    with ThreadPoolExecutor() as threads:
        with frozen(control_plane):
            calls = [threads.submit(report, node) for node in crowd]
            eventually(lambda: master.metric("nfd_master_reports_total") == len(crowd))
            master.signal(signal.SIGTERM)
            eventually(lambda: master.get("/readyz")[0] == 503)
            eventually(lambda: refusal() is grpc.StatusCode.UNAVAILABLE)  # CANCELLED in the very moment of the end
        assert [call.result() for call in calls] == [b""] * len(crowd)
    assert master.wait(10) == 0
    assert [node.labels for node in crowd] == [{F + "mine": "1"}] * len(crowd)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_master_and_worker_with_0(
    number: int, machines: MakeMachine, nodes: MakeNode, masters: MakeMaster, workers: StartWorker
) -> None:
    """The Node stays as it is."""
    master, machine = masters(), machines("raspberry-pi-4")
    node = nodes(machine)
    worker = workers(node, master, f"--replay={machine.root}")
    before = node.version
    assert worker.stop(number, seconds=10) == 0
    assert master.stop(number, seconds=10) == 0
    assert node.version == before
