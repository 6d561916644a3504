"""How long a reading of the driver may take: `sources.nvidia.timeout` within the limit of the source."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gfd import discover as reading
from gfd.config import Config
from gfd.inventory import Inventory, Trouble
from gfd.source import MARGIN, SOURCE
from nfd.discovery import Plan, discover
from nfd.errors import Overdue
from nfd.host import Host
from nfd.runtime.threads import Limits
from nfd.source import Source

T = TypeVar("T")


class Slow:
    """A reading that comes when it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = 0

    def run(self) -> None:
        self.begun += 1
        self.go.wait(20)

    def inventory(self, unanswered: str = "") -> Inventory:
        return Inventory("nvml")


@pytest.fixture
def slow() -> Iterator[Slow]:
    one = Slow()
    yield one
    one.go.set()
    until = time.monotonic() + 10
    while reading._late and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.parametrize("timeout", ["1s", "30s", "119s", "2m", "5m", "2h"])
def test_the_limit_of_the_source_is_above_that_of_the_driver(timeout: str) -> None:
    config = Config.model_validate({"timeout": timeout})
    assert SOURCE.limit(config) == max(SOURCE.seconds, config.timeout + MARGIN)


def test_a_pass_gives_each_source_the_limit_of_its_configuration(tmp_path: Path) -> None:
    plain = Source("plain", Config, SOURCE.discover, SOURCE.labels)
    given: dict[str, float] = {}

    def run(name: str, seconds: float, work: Callable[[], T], /) -> T:
        given[name] = seconds
        return work()

    config: Any = Config.model_validate({"timeout": "5m"})
    discover(Host(tmp_path), Plan((SOURCE, plain), (SOURCE,), {"nvidia": config, "plain": config}), run=run)
    assert given == {"nvidia": 330.0, "labels of nvidia": 330.0, "plain": 30.0}


def test_no_reading_begins_while_one_hangs_that_was_given_up(slow: Slow) -> None:
    """Whoever waits for it is asked to end, and never gets to note that it is late."""
    limits = Limits()
    for _ in range(3):
        with suppress(Overdue):
            limits.run("nvidia", 0.05, lambda: reading.within(0.2, slow))
        time.sleep(0.3)
    found = reading.within(0.1, slow)
    assert (slow.begun, found.trouble) == (1, Trouble.DRIVER_ERROR)
    assert "has not returned yet" in found.reason


def test_a_reading_that_came_leaves_nothing_behind(slow: Slow) -> None:
    slow.go.set()
    assert [reading.within(5, slow).backend for _ in range(2)] == ["nvml", "nvml"]
    assert reading._late == []
