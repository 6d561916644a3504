"""Machines of many kinds: each boots, is labelled as it must be, follows its events, and is recorded.

`pytest tests/vm --update-expected` (NFD_VM=1) puts the recordings into tests/hosts.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.vm.conftest import Boot
from tests.vm.following import Slot
from tests.vm.guest import SETTINGS
from tests.vm.recording import HOSTS, Recording, disagreements
from tests.vm.shapes import CPUID, SHAPES
from tests.vm.table import Row


@pytest.mark.parametrize("name", SHAPES)
def test_machine(name: str, boot: Boot, row: Row, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shape = SHAPES[name]
    row.name, row.note = name, shape.note
    with boot(shape.hardware, shape.prepare) as guest:
        row.booted(guest.machine)
        found = {key: value for key, value in guest.labels().items() if not key.startswith(CPUID)}
        row.cell("labels", found == shape.expected(guest.machine.disks.release), f"{len(guest.labels())} right")
        recording = Recording.of(guest, tmp_path / "recording")
        live = guest.node.labels
        replayed = recording.discovered(SETTINGS, guest.node.name)
        row.cell("replay", replayed["labels"] == live, "equals live")
        flags = set(replayed["features"]["flags"]["cpu.cpuid"]["elements"])
        wrong, common = disagreements(flags, guest.machine.read("/proc/cpuinfo"))
        row.cell("flags", not wrong, f"{common} equal")
        slot = Slot(guest)
        times = [slot.plug(), slot.unplug()]
        row.cell("events", all(one.in_time for one in times), " and ".join(map(str, times)))
        if request.config.getoption("--update-expected"):
            shutil.rmtree(HOSTS / name, ignore_errors=True)
            shutil.copytree(recording.folder, HOSTS / name)
            (HOSTS / name / "expected").mkdir()
        assert found == shape.expected(guest.machine.disks.release)
        assert replayed["labels"] == live
        assert wrong == []
        assert all(one.in_time for one in times), times
