"""Files that a source lists itself wake it, once they have stopped changing."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from nfd.config.section import Section
from nfd.events.listing import FOLLOW
from nfd.events.wakes import Events, Wake
from nfd.features import Features
from nfd.host import Host
from nfd.runtime.failures import COUNTS
from nfd.runtime.settling import LOOKS, Settling
from nfd.runtime.signals import Signals
from nfd.source import Source

FOLDER = "proc/driver/some"


def source(name: str = "gpu") -> Source:
    return Source(
        name, Section, lambda host, config: Features(), lambda features, config: {},
        follows=lambda host: host.names(FOLDER),
    )  # fmt: skip


def events_of(machine: Path, signals: Signals, *sources: Source) -> Events:
    (machine / FOLDER).mkdir(parents=True)
    return Events(Host(machine), sources or (source(),), signals)


def test_a_change_wakes_its_source_after_a_second_of_quiet(machine: Path, signals: Signals) -> None:
    events = events_of(machine, signals)
    with events.scan():
        pass
    events.follow(["gpu"])
    (machine / FOLDER / "a").touch()
    started = time.monotonic()
    assert events.wait(10) == Wake(frozenset({"gpu"}), reasons=("files that gpu follows changed",))
    assert FOLLOW < time.monotonic() - started < 3 * FOLLOW
    assert events.wait(2.5 * FOLLOW) == Wake(), "told once"
    events.close()


def test_a_source_may_need_less_quiet(machine: Path, signals: Signals) -> None:
    """The look after a change comes sooner; without a change there is still one a second."""
    looks: list[float] = []

    def names(host: Host) -> tuple[str, ...]:
        looks.append(time.monotonic())
        return host.names(FOLDER)

    events = events_of(machine, signals, source(), replace(source("fast"), follows=names, quiet=0.25))
    with events.scan():
        pass
    events.follow(["gpu", "fast"])
    (machine / FOLDER / "a").touch()
    assert events.wait(10).sources == {"fast"}
    first, second = looks[-2:]
    assert 0.25 <= second - first < FOLLOW
    assert events.wait(10).sources == {"gpu"}
    looks.clear()
    assert events.wait(3.5 * FOLLOW) == Wake()
    assert 3 <= len(looks) <= 4
    events.close()


def test_nothing_is_listed_where_a_source_finds_nothing(machine: Path, signals: Signals) -> None:
    events = events_of(machine, signals)
    with events.scan():
        pass
    events.follow([])
    assert events.followed.names == frozenset()
    (machine / FOLDER / "a").touch()
    assert events.wait(2.5 * FOLLOW) == Wake()
    events.close()


def test_what_changes_during_a_scan_wakes_and_what_changed_before_does_not(machine: Path, signals: Signals) -> None:
    """Also during the first scan, before which nobody knows that there is something to follow."""
    events = events_of(machine, signals)
    with events.scan():
        (machine / FOLDER / "a").touch()
    events.follow(["gpu"])
    assert events.wait(10).sources == {"gpu"}
    (machine / FOLDER / "b").touch()
    with events.scan(["gpu"]):
        pass
    assert events.wait(2.5 * FOLLOW) == Wake()
    with events.scan(["gpu"]):
        (machine / FOLDER / "c").touch()
    assert events.wait(10).sources == {"gpu"}
    events.close()


def test_a_source_that_fails_to_list_is_as_one_without_files(machine: Path, signals: Signals) -> None:
    broken = replace(source("broken"), follows=lambda host: host.names("a\0b"))
    events = events_of(machine, signals, source(), broken)
    before = COUNTS["events"]
    with events.scan():
        pass
    events.follow(["gpu", "broken"])
    (machine / FOLDER / "a").touch()
    assert events.wait(10).sources == {"gpu"}
    assert COUNTS["events"] > before
    events.close()


def test_what_does_not_stop_to_change_is_told_all_the_same() -> None:
    settling = Settling(0)
    assert [settling.look(value) for value in (0, 1, 1, 1, 0, 0)] == [False, False, True, False, False, True]
    assert [settling.look(value) for value in range(1, 2 * LOOKS + 2)].count(True) == 2


@pytest.mark.parametrize("back", [True, False])
def test_a_source_that_is_followed_again_starts_from_what_there_is(
    machine: Path, signals: Signals, *, back: bool
) -> None:
    events = events_of(machine, signals)
    with events.scan():
        pass
    events.follow(["gpu"])
    events.follow([])
    (machine / FOLDER / "a").touch()
    events.follow(["gpu"] if back else [])
    assert events.wait(3 * FOLLOW).sources == ({"gpu"} if back else set()), "no scan has seen that change"
    events.close()
