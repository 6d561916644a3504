"""A machine, caught signals, and Events on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nfd.events.wakes import Events
from nfd.host import Host
from nfd.runtime.signals import Signals
from tests.events.machine import ALL, Maker


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for folder in ("sys/bus/pci/devices/0000:00:00.0", "sys/class/net/lo", "sys/block/sda", "proc", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/modules").write_text("loop 40960 0 - Live 0x0\next4 1 2 - Live 0x0\n")
    return tmp_path


@pytest.fixture
def make(machine: Path, signals: Signals) -> Iterator[Maker]:
    made: list[Events] = []

    def maker(**options: object) -> Events:
        made.append(Events(Host(machine), ALL, signals, **{"live": False, "poll": 0.1, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield maker
    for events in made:
        events.close()
