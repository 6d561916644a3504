"""What a leader lacks must be unknown to it and come again in time; each breach is found as what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.chaos.knowledge import (
    BELIEVED,
    COMPARED,
    KINDS,
    LATE,
    LIMIT,
    UNCOUNTED,
    UNCOUNTED_LOOKS,
    Disturbances,
    Knowledge,
    Look,
    Place,
)
from tests.chaos.stamps import Acknowledged, Stamp, read_line, write_line

FIRST = Stamp("boot-1", 5, 1, "labels 1", "content 1")
SECOND = Stamp("boot-1", 5, 2, "labels 2", "content 2")
BEGUN = 100.0
"""When the second master begins to lead."""


class Fleet:
    """One node, whose second report the first leader acknowledged; then another master leads."""

    def __init__(self) -> None:
        self.place: Place | None = Place(0.0, settled=True, crew="workers-0")
        self.disturbances = Disturbances()
        self.knowledge = Knowledge(self.disturbances, lambda node: self.place, lambda: 0.0)
        self.knowledge.lead("master-0", 1, 0.0)
        for number, stamp in enumerate((FIRST, SECOND)):
            self.knowledge.acknowledge(Acknowledged("n", stamp, float(number)))
        self.knowledge.lead("master-1", 2, BEGUN)

    def look(self, after: float, stamp: Stamp | None = None, counted: int | None = None) -> None:
        """So many seconds after the beginning the leader offers that report."""
        reports: Mapping[str, Stamp] = {"n": stamp} if stamp is not None else {}
        self.knowledge.look(Look(BEGUN + after, reports, counted))

    @property
    def kinds(self) -> list[str]:
        return [one.kind for one in self.knowledge.violations]

    @property
    def at_the_beginning(self) -> tuple[int, int, int]:
        term = self.knowledge.terms[-1]
        return term.known, term.unknown, term.older


def count_what_is_missing(fleet: Fleet) -> None:
    for second in range(UNCOUNTED_LOOKS + 1):
        fleet.look(1 + second, counted=1)


def rely_on_the_older_one(fleet: Fleet) -> None:
    fleet.look(COMPARED + 1, FIRST)
    fleet.look(COMPARED + 2, FIRST)


def never_know_it(fleet: Fleet) -> None:
    fleet.look(1)
    fleet.look(LIMIT + 1)


def never_know_more_than_the_older_one(fleet: Fleet) -> None:
    """Its labels are the same, so the Node does not show that it is older."""
    older = replace(FIRST, labels=SECOND.labels)
    fleet.look(1, older)
    fleet.look(LIMIT + 1, older)


def not_know_it_at_the_end(fleet: Fleet) -> None:
    fleet.look(1)
    fleet.knowledge.final(BEGUN + 2)


def have_no_leader_at_the_end(fleet: Fleet) -> None:
    fleet.look(1, SECOND)
    fleet.knowledge.over(BEGUN + 2)
    fleet.knowledge.final(BEGUN + 3)


BREACHES: tuple[tuple[Callable[[Fleet], None], str], ...] = (
    (count_what_is_missing, UNCOUNTED),
    (rely_on_the_older_one, BELIEVED),
    (never_know_it, LATE),
    (never_know_more_than_the_older_one, LATE),
    (not_know_it_at_the_end, LATE),
    (have_no_leader_at_the_end, LATE),
)


@pytest.mark.parametrize(("breach", "kind"), BREACHES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_breach_is_found_once(breach: Callable[[Fleet], None], kind: str) -> None:
    fleet = Fleet()
    breach(fleet)
    assert fleet.kinds == [kind]


def test_every_kind_has_a_breach() -> None:
    assert {kind for _, kind in BREACHES} == set(KINDS)


@pytest.mark.parametrize(
    ("offered", "found"),
    [
        (SECOND, (1, 0, 0)),
        (replace(SECOND, sequence=9, content="later"), (1, 0, 0)),
        (replace(SECOND, started=6, sequence=1, content="of a later process"), (1, 0, 0)),
        (replace(SECOND, boot="boot-2", content="of a later boot"), (1, 0, 0)),
        (replace(FIRST, content=SECOND.content), (1, 0, 0)),
        (FIRST, (0, 0, 1)),
        (replace(SECOND, started=4, content="of an earlier process"), (0, 0, 1)),
        (None, (0, 1, 0)),
    ],
)
def test_a_report_is_known_if_it_is_the_latest_or_says_the_same(
    offered: Stamp | None, found: tuple[int, int, int]
) -> None:
    fleet = Fleet()
    fleet.look(1, offered)
    assert (fleet.at_the_beginning, fleet.kinds) == (found, [])


def test_a_report_of_the_boot_before_is_older() -> None:
    fleet = Fleet()
    fleet.knowledge.acknowledge(Acknowledged("n", Stamp("boot-2", 1, 1, "labels 3", "content 3"), 2.0))
    fleet.look(1, SECOND)
    assert fleet.at_the_beginning == (0, 0, 1)


def test_an_older_report_is_no_breach_while_the_node_does_not_show_the_latest_one() -> None:
    fleet = Fleet()
    fleet.place = Place(0.0, settled=False, crew="workers-0")
    fleet.look(COMPARED + 1, FIRST)
    assert fleet.kinds == []


@pytest.mark.parametrize(("whom", "kinds"), [("", []), ("workers-0", []), ("workers-1", [LATE]), ("master-0", [LATE])])
def test_time_counts_from_the_end_of_what_keeps_reports_from_the_leader(whom: str, kinds: list[str]) -> None:
    fleet = Fleet()
    fleet.disturbances.begin(whom)
    fleet.look(LIMIT + 1)
    fleet.disturbances.end(whom, BEGUN + LIMIT + 2)
    fleet.look(2 * LIMIT)
    assert fleet.kinds == kinds
    fleet.look(2 * LIMIT + 3)
    assert fleet.kinds == [LATE]


def test_of_two_disturbances_the_last_end_counts() -> None:
    disturbances = Disturbances()
    for whom in ("", "workers-0"):
        disturbances.begin(whom)
    disturbances.begin("")
    disturbances.end("", 3.0)
    assert disturbances.last(["workers-1"], 4.0) == 4.0
    disturbances.end("", 5.0)
    assert (disturbances.last(["workers-1"], 6.0), disturbances.last(["workers-0"], 6.0)) == (5.0, 6.0)


def test_a_node_that_does_not_exist_is_not_missing() -> None:
    fleet = Fleet()
    fleet.place = None
    fleet.look(LIMIT + 1)
    assert (fleet.knowledge.missing(), fleet.at_the_beginning, fleet.kinds) == ([], (0, 0, 0), [])
    fleet.place = Place(BEGUN + LIMIT + 2, settled=True)
    fleet.look(LIMIT + 3)
    assert (fleet.knowledge.missing(), fleet.kinds) == (["n"], [])


def test_how_long_a_node_was_unknown_is_counted_across_leaders() -> None:
    fleet = Fleet()
    fleet.look(1)
    fleet.knowledge.over(BEGUN + 50)
    fleet.knowledge.look(Look(BEGUN + 60, {}))
    fleet.knowledge.lead("master-0", 3, BEGUN + 100, "older")
    fleet.look(201, SECOND)
    assert fleet.knowledge.waits == [200]
    assert [(term.master, term.complete) for term in fleet.knowledge.terms] == [
        ("master-0", None),
        ("master-1", None),
        ("master-0", BEGUN + 201),
    ]
    assert fleet.knowledge.summary(BEGUN) == [
        "reports acknowledged: 2; leaderships: 3, of which seen: 2",
        "  nodes at their beginning: 1 known, 1 unknown, 0 with an older report",
        "  leaderships with all nodes known: 1, after 101.0 s at most; others ended before",
        "  nodes that no leader knew for a time: 1, for 200.0 s at most, 1 for more than 180 s",
        "        0.00 master-1: 0 known, 1 unknown, 0 older; ended before all were",
        "      100.00 master-0, release older: 1 known, 0 unknown, 0 older; all known after 101.0 s",
    ]


def test_the_same_master_begins_anew_as_another_process() -> None:
    fleet = Fleet()
    fleet.knowledge.lead("master-1", 2, BEGUN + 1)
    fleet.knowledge.lead("master-1", 4, BEGUN + 2)
    assert [(term.process, term.over) for term in fleet.knowledge.terms[1:]] == [(2, BEGUN + 2), (4, None)]


def test_a_line_is_read_as_it_was_written() -> None:
    one = Acknowledged("n", SECOND, 12.5)
    assert read_line(write_line(one)) == one


def test_one_count_may_be_of_another_moment_than_the_reports() -> None:
    fleet = Fleet()
    for second in range(0, 60, 3):
        fleet.look(second, counted=1)
        fleet.look(second + 1)
        fleet.look(second + 2, SECOND, counted=1)
    assert UNCOUNTED not in fleet.kinds
