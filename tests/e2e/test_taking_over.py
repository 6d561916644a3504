"""Coming after NFD, speaking with its old workers, and leaving again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.children import run
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import without_proxy
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine, expected_labels
from tests.e2e.nodes import NAMESPACE, ORIGINS, OWNED, F, Node
from tests.e2e.programs import SCRIPTS, Program, eventually, pass_again, port_of
from tests.rpc import nfd016

MakeMachine = Callable[[str], Machine]
RECORDING = "debian-12-epyc-milan"
REPORT = "/labeler.Labeler/Report"


def speak(master: Program, node: Node, **labels: str) -> None:
    """What an NFD 0.16 worker says after a scan; names are written with `_` for what Python takes no keyword of."""
    request = nfd016.v016()(nfd_version="v0.16.6", node_name=node.name, labels=labels)
    request.features.flags["cpu.cpuid"].elements["AVX"].SetInParent()
    nfd016.set_labels(port_of(master), request.SerializeToString())


def test_labels_of_an_nfd_016_worker_are_written(nodes: MakeNode, master: Program) -> None:
    """Its report is whole: what it does not name any more goes, what is not allowed is left out."""
    node = nodes(labels={"foo": "bar"})
    wanted = {"cpu-cpuid.AVX": "true", "vendor.io/x": "1", F + "full": "2", "kubernetes.io/no": "3", "bad": "no value!"}
    speak(master, node, **wanted)
    assert node.labels == {"foo": "bar", F + "cpu-cpuid.AVX": "true", "vendor.io/x": "1", F + "full": "2"}
    assert node.annotations.keys() == {OWNED, ORIGINS}
    assert node.annotations[OWNED] == "cpu-cpuid.AVX,full,vendor.io/x"
    speak(master, node, **{"vendor.io/x": "2"})
    assert node.labels == {"foo": "bar", "vendor.io/x": "2"}


def test_a_node_that_nfd_labelled_is_taken_over_without_a_label_absent_for_a_moment(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker, control_plane: ControlPlane
) -> None:
    """Stale ones go in the same change, an outdated value is set right, and what NFD did not own stays."""
    machine, wanted = machines(RECORDING), expected_labels(RECORDING)
    stale = {F + "cpu-cpuid.GONE": "true", F + "pci-0302_10de.present": "true", "vendor.io/gone": "1"}
    old = {F + "kernel-version.full": "6.0.0-old"}
    foreign = {"foo": "bar", F + "theirs": "1"}
    node = nodes(machine, labels=wanted | old | stale | foreign)
    keys = ",".join(sorted(key.removeprefix(F) for key in wanted | stale))
    legacy = "nfd.node.kubernetes.io/worker.version=v0.13.2"
    control_plane.kubectl("annotate", "node", node.name, f"{OWNED}={keys}", legacy, "note=mine")
    version, mark = node.version, control_plane.mark()
    workers(node, master, f"--replay={machine.root}")
    assert node.states(version) == [wanted | foreign]
    assert node.owned() == wanted.keys()
    assert node.annotations.keys() == {OWNED, ORIGINS, "note"}
    assert [event.verb for event in node.writes(mark)] == ["patch"]


def test_prune_removes_exactly_ours_and_dry_run_only_lists_it(
    machines: MakeMachine, nodes: MakeNode, masters: MakeMaster, workers: StartWorker, kubeconfig: Path
) -> None:
    """On every Node, while no master runs; what is Kubernetes' own only if it is said again that we may write it."""
    extra = "--extra-label-ns=extra.kubernetes.io"
    master, machine = masters(extra), machines("raspberry-pi-4")
    foreign = {"foo": "bar", F + "theirs": "1", "nvidia.com/theirs": "1"}
    one, two, none = (nodes(labels=foreign, annotations={"note": "mine"}) for _ in range(3))
    worker = workers(one, master, f"--replay={machine.root}")
    speak(master, two, **{"cpu-cpuid.AVX": "true", "extra.kubernetes.io/x": "1"})
    assert worker.stop() == 0
    assert master.stop() == 0
    mark, before = one.plane.mark(), one.labels
    wanted = [
        *(f"{one.name} labels {key}" for key in expected_labels("raspberry-pi-4")),
        *(f"{one.name} annotations {key}" for key in (OWNED, ORIGINS)),
        *(f"{two.name} labels {key}" for key in (F + "cpu-cpuid.AVX", "extra.kubernetes.io/x")),
        *(f"{two.name} annotations {key}" for key in (OWNED, ORIGINS)),
    ]
    ours = (one.name, two.name, none.name)
    assert [line for line in prune(kubeconfig, "--dry-run", extra) if line.startswith(ours)] == unordered(wanted)
    without = [line for line in prune(kubeconfig, "--dry-run") if line.startswith(ours)]
    assert {*wanted} - {*without} == {f"{two.name} labels extra.kubernetes.io/x"}
    assert one.plane.writes(mark) == []
    assert one.labels == before
    assert [line for line in prune(kubeconfig, extra) if line.startswith(ours)] == unordered(wanted)
    assert sorted(event.name for event in one.plane.writes(mark)) == sorted([one.name, two.name])
    for node in (one, two, none):
        assert (node.labels, node.annotations) == (foreign, {"note": "mine"})
    assert prune(kubeconfig) == []


def prune(kubeconfig: Path, *flags: str) -> list[str]:
    """The lines that `nfd-master --prune` prints."""
    command = [str(SCRIPTS / "nfd-master"), "-config=", f"-kubeconfig={kubeconfig}", "--prune"]
    command += [f"--namespace={NAMESPACE}", *flags]
    done = run(command, env=without_proxy(), timeout=60)
    return sorted(done.stdout.splitlines())


def unordered(lines: list[str]) -> list[str]:
    return sorted(lines)


@contextmanager
def tap(port: int) -> Iterator[tuple[int, list[bytes]]]:
    """Passes reports on to a master, byte by byte, and keeps them; yields its own port and what came through."""
    taken: list[bytes] = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:

        def forward(request: bytes, context: Any) -> bytes:
            taken.append(request)
            answer: bytes = channel.unary_unary(REPORT)(request, timeout=10)
            return answer

        handler = grpc.unary_unary_rpc_method_handler(forward)
        server = grpc.server(ThreadPoolExecutor(2))
        handlers = grpc.method_handlers_generic_handler("labeler.Labeler", {"Report": handler})
        server.add_generic_rpc_handlers((handlers,))
        own = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield own, taken
        finally:
            server.stop(0).wait()


def test_an_old_report_that_is_replayed_does_not_win(
    machines: MakeMachine, nodes: MakeNode, master: Program, workers: StartWorker
) -> None:
    """Taken off the wire, and sent again when the worker has said something newer, and when it has started anew."""
    machine = machines(RECORDING)
    node = nodes(machine)
    with tap(port_of(master)) as (port, taken), grpc.insecure_channel(f"127.0.0.1:{port_of(master)}") as channel:
        worker = workers(node, master, f"--replay={machine.root}", to=port)
        old = taken[-1]
        machine.write("etc/os-release", "ID=newer\n")
        pass_again(worker)
        eventually(lambda: node.labels[F + "system-os_release.ID"] == "newer")
        second = taken[-1]
        mark = node.plane.mark()
        refused(channel, old)
        worker.kill()
        workers(node, master, f"--replay={machine.root}", to=port)
        for request in (old, second):
            refused(channel, request)
    assert node.labels[F + "system-os_release.ID"] == "newer"
    assert node.writes(mark) == []


def refused(channel: Any, request: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(REPORT)(request, timeout=10)
    assert "a newer report of this node was already received" in caught.value.details()
