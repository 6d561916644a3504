"""Machines of many kinds: each boots, is labelled as it must be, follows its events, and is recorded.

`pytest tests/vm --update-expected` (NFD_VM=1) puts the recordings into tests/hosts, and what was seen into docs/vm.md.
"""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from tests.vm.conftest import Boot
from tests.vm.following import Slot
from tests.vm.guest import SETTINGS
from tests.vm.recording import HOSTS, Recording, disagreements
from tests.vm.shapes import CPUID, SHAPES
from tests.vm.table import Table, judged, masked


@pytest.mark.parametrize("name", SHAPES)
def test_machine(name: str, boot: Boot, machine_table: Table, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    shape, begun = SHAPES[name], time.monotonic()
    tell = partial(machine_table.put, name)
    tell(**{"what it is": shape.note})
    with boot(shape.hardware, shape.prepare) as guest:
        what = "; ".join(filter(None, (shape.note, masked(guest.machine))))
        tell(boot=f"{time.monotonic() - begun:.0f} s", **{"what it is": what or "as QEMU makes it"})
        found = {key: value for key, value in guest.labels().items() if not key.startswith(CPUID)}
        expected = shape.expected(guest.machine.disks.release)
        tell(labels=judged(found == expected, f"{len(guest.labels())} right"))
        recording = Recording.of(guest, tmp_path / "recording")
        live = guest.node.labels
        replayed = recording.discovered(SETTINGS, guest.node.name)
        tell(replay=judged(replayed["labels"] == live, "equals live"))
        flags = set(replayed["features"]["flags"]["cpu.cpuid"]["elements"])
        wrong, common = disagreements(flags, guest.machine.read("/proc/cpuinfo"))
        tell(flags=judged(not wrong, f"{common} equal"))
        slot = Slot(guest)
        times = [slot.plug(), slot.unplug()]
        tell(events=judged(all(one.in_time for one in times), " and ".join(map(str, times)), "LATE"))
        if request.config.getoption("--update-expected"):
            shutil.rmtree(HOSTS / name, ignore_errors=True)
            shutil.copytree(recording.folder, HOSTS / name)
            (HOSTS / name / "expected").mkdir()
        assert found == expected
        assert replayed["labels"] == live
        assert wrong == []
        assert all(one.in_time for one in times), times
