"""A worker may be silent by the interval that it got, or by that of the present fleet if longer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from nfd.master.node.condition_rejections import ConditionRejections
from nfd.master.node.conditions import Unknowns, types
from nfd.master.reports.heartbeats import HEARTBEAT_LIMITS, JITTER, MISSED_HEARTBEATS, Heartbeats
from nfd.store.kube import KubeStore

SHORTEST, LONGEST = HEARTBEAT_LIMITS
NAME = "node-0"


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


def fleet(heartbeats: Heartbeats, size: int) -> None:
    for number in range(size):
        heartbeats.note(f"node-{number}")
    for number in range(size):
        heartbeats.next_heartbeat(f"node-{number}")


def shrink(heartbeats: Heartbeats, before: int, after: int) -> None:
    for number in range(after, before):
        heartbeats.forget(f"node-{number}")


class Counted(dict[Any, Any]):
    """Counts the keys that are read one by one."""

    read = 0

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self.read += 1
            yield key


@dataclass
class Fleet:
    """Nodes of a cluster with a condition each, and how many of their names the checks of silence read."""

    size: int
    clock: Clock = field(default_factory=Clock)

    def names_read(self) -> int:
        store, heartbeats = KubeStore(None), Heartbeats(now=self.clock)  # type: ignore[arg-type]  # nothing is asked
        condition = {"type": types("")[0], "status": "True"}
        for number in range(self.size):
            metadata = {"name": f"node-{number}", "uid": f"uid-{number}", "resourceVersion": "1"}
            store._nodes.put({"metadata": metadata, "status": {"conditions": [condition]}})
        store._nodes.items = counted = Counted(store._nodes.items)
        fleet(heartbeats, self.size)
        self.clock.seconds += 4 * LONGEST
        unknowns = Unknowns(store, "", heartbeats, ConditionRejections(self.clock))
        due = unknowns.due(list(store.names()))
        silent = [name for name in store.names() if not unknowns.is_heard(name)]
        assert len(due) == len(silent) == self.size
        return counted.read


def test_checks_of_silence_do_not_grow_with_the_square_of_the_fleet() -> None:
    few, many = Fleet(20).names_read(), Fleet(200).names_read()
    assert many <= 10 * few


@pytest.mark.parametrize(
    ("before", "after", "interval"),
    [(9000, 900, LONGEST), (9000, 9000, LONGEST), (3000, 300, 300.0), (300, 30, SHORTEST), (10, 10, SHORTEST)],
)
def test_a_fleet_that_shrinks_makes_no_worker_silent(before: int, after: int, interval: float) -> None:
    """Neither in the conditions, nor in the metric, nor for the removal of labels."""
    clock = Clock()
    heartbeats = Heartbeats(stale_after=1.0, now=clock)
    fleet(heartbeats, before)
    shrink(heartbeats, before, after)
    assert heartbeats.patience(after, NAME) == pytest.approx(MISSED_HEARTBEATS * (1 + JITTER) * interval)
    clock.seconds += MISSED_HEARTBEATS * interval
    assert (heartbeats.count_silent(), heartbeats.newly_stale([NAME])) == (0, [])
    clock.seconds += 1
    assert (heartbeats.count_silent(), heartbeats.newly_stale([NAME])) == (after, [NAME])


def test_the_next_report_ends_the_long_interval() -> None:
    clock = Clock()
    heartbeats = Heartbeats(now=clock)
    fleet(heartbeats, 9000)
    shrink(heartbeats, 9000, 100)
    heartbeats.note(NAME)
    assert heartbeats.next_heartbeat(NAME) <= SHORTEST * (1 + JITTER)
    assert heartbeats.patience(100, NAME) == pytest.approx(MISSED_HEARTBEATS * (1 + JITTER) * SHORTEST)


def test_a_fleet_that_grows_makes_no_worker_silent() -> None:
    """A worker that got a short interval gets a longer one with its next answer."""
    heartbeats = Heartbeats(now=Clock())
    fleet(heartbeats, 10)
    for number in range(10, 9000):
        heartbeats.note(f"node-{number}")
    assert heartbeats.patience(9000, NAME) > MISSED_HEARTBEATS * LONGEST


def test_a_worker_that_is_to_report_soon_is_judged_by_the_fleet() -> None:
    heartbeats = Heartbeats(now=Clock())
    fleet(heartbeats, 9000)
    assert heartbeats.next_heartbeat(NAME, soon=True) <= SHORTEST * (1 + JITTER)
    assert heartbeats.patience(9000, NAME) > MISSED_HEARTBEATS * LONGEST


def test_what_a_worker_got_is_forgotten_with_its_node_and_with_the_term() -> None:
    heartbeats = Heartbeats(now=Clock())
    fleet(heartbeats, 9000)
    heartbeats.forget(NAME)
    heartbeats.next_heartbeat(NAME)
    assert NAME not in heartbeats._intervals, "the answer to the last report of a deleted node"
    heartbeats.clear()
    assert (heartbeats._intervals, len(heartbeats)) == ({}, 0)
