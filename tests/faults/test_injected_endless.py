"""A computation that does not end in a stage of the worker's own loop. Those of sources: `test_injected_worker.py`."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_injected_worker import FIRST, MINE, STAGES, Machine, machine_of
from tests.master.places import Cluster, until
from tests.worker.process import program

OWN = [stage for stage in STAGES if stage not in ("source", "label")]


@pytest.mark.parametrize("stage", OWN)
async def test_a_stage_without_end_harms_itself_alone(
    stage: str, masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, tmp_path: Path
) -> None:
    """It is ended again and again: nothing vanishes, everything else goes on, and the process stays the same."""
    at, node, switch, master = STAGES[stage], make(), tmp_path / "endless", await masters.start(proxy)
    root = machine_of(tmp_path / "root")
    machine = Machine(root, place, node)
    words = ("tests.faults.endless_worker", str(root), str(master.port), node, stage, str(switch))
    async with program(*words) as worker:
        await until(lambda: machine.shows(MINE, "1") and machine.shows(FIRST))
        switch.touch()
        if stage == "reload":
            worker.process.send_signal(signal.SIGHUP)
        machine.plug("8086", "0000:02:00.0")
        machine.write("2")
        new = "feature.node.kubernetes.io/pci-0300_8086.present"
        if not at.all_wait:
            await until(lambda: machine.shows(new))
        await until(lambda: any(is_about(line, at.task) for line in worker.lines))
        assert machine.shows(FIRST)
        switch.unlink()
        machine.write("3")
        await until(lambda: machine.shows(MINE, "3") and machine.shows(new) and machine.shows(FIRST))
        assert (await worker.end())[0] == 0


def is_about(line: dict[str, object], task: str) -> bool:
    return line.get("task") == task and "of CPU time" in str(line.get("error"))
