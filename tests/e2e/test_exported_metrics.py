"""What running programs export is what monitoring.md says, and promtool finds nothing to say about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.deploy.monitoring import families, promtool
from tests.e2e.conftest import MakeMaster, MakeNode, StartWorker
from tests.e2e.machines import Machine
from tests.e2e.programs import Program, eventually


def exported(program: Program) -> dict[str, tuple[str, str]]:
    """Metric → (type, help); the text form names a counter with its `_total`."""
    text = program.get("/metrics")[1]
    assert promtool("check", "metrics", stdin=text) == ""
    words = [line.split(" ", 3) for line in text.splitlines() if line.startswith("#")]
    helps = {name: rest for _, word, name, rest in words if word == "HELP"}
    return {name: (rest, helps[name]) for _, word, name, rest in words if word == "TYPE"}


def documented(program: str) -> dict[str, tuple[str, str]]:
    return {
        f"{family.name}_total" if family.kind == "counter" else family.name: (family.kind, family.help)
        for family in families()[program]
    }


def test_metrics(
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    masters: MakeMaster,
    workers: StartWorker,
    tmp_path: Path,
) -> None:
    machine, master = machines("dgx-h100"), masters(f"--snapshot-file={tmp_path / 'reports'}")
    worker = workers(nodes(machine), master, f"--replay={machine.root}")
    assert exported(worker) == documented("nfd-worker")
    eventually(lambda: "snapshot_age_seconds" in master.get("/metrics")[1])  # after the first report
    assert exported(master) == documented("nfd-master")
