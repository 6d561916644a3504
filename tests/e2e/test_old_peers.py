"""NFD 0.16 on either side: its master takes our worker's reports, and ours takes what its worker says, and more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.controlplane.process import free_ports
from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine, discovered
from tests.e2e.nodes import F
from tests.e2e.programs import Program, eventually, pass_again, port_of, reports
from tests.rpc import nfd016


def test_our_worker_reports_to_a_master_of_nfd_016(machines: Callable[[str], Machine], tmp_path: Path) -> None:
    """Whole each time, since that master takes away what it is not told; and never an empty report before it."""
    machine, (http_port,) = machines("debian-12-epyc-milan"), free_ports(1)
    with nfd016.master() as (port, taken):
        words = (f"--server=localhost:{port}", f"--http-port={http_port}", "--config=", f"--host-root={machine.root}")
        worker = Program("nfd-worker", words, tmp_path / "log", http_port, {"NODE_NAME": "old-master"})
        worker.start()
        try:
            eventually(lambda: reports(worker) >= 1)
            before = discovered(f"--host-root={machine.root}")
            machine.write("etc/os-release", "ID=newer\n")
            pass_again(worker)
            eventually(lambda: reports(worker) >= 2)
        finally:
            worker.kill()
    first, second = taken
    assert {message.node_name for message in taken} == {"old-master"}
    assert {key if "/" in key else F + key: value for key, value in first.labels.items()} == before
    assert {"AVX", "AVX2"} <= set(first.features.flags["cpu.cpuid"].elements)
    assert first.features.flags == second.features.flags
    changed = {key for key in first.labels.keys() | second.labels.keys() if first.labels[key] != second.labels[key]}
    assert {key.rpartition("/")[2] for key in changed} >= {"system-os_release.ID"}
    assert len(second.labels) > len(before) / 2


def test_fields_that_nobody_knows_are_passed_over(nodes: MakeNode, master: Program) -> None:
    """A worker of a later release says more than its master understands: protobuf fields 77 and 2000."""
    node = nodes()
    request = nfd016.v016()(nfd_version="v0.99", node_name=node.name, labels={"cpu-cpuid.AVX": "true"})
    more = b"\xe8\x04\x01" + b"\x82\x7d\x05later"
    nfd016.set_labels(port_of(master), request.SerializeToString() + more)
    assert node.labels == {F + "cpu-cpuid.AVX": "true"}
    nfd016.set_labels(port_of(master), more + request.SerializeToString())
    assert node.labels == {F + "cpu-cpuid.AVX": "true"}
