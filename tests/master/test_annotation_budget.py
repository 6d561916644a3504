"""More labels than the annotations of a Node can list: the surplus is dropped by name, all else is written."""

from __future__ import annotations

import pytest

from nfd.master.node.annotation_budget import BUDGET, annotated, fitting_plan
from nfd.master.node.desired import Desired
from nfd.master.node.ownership import Origin
from nfd.master.node.plan import Goal
from nfd.store.base import Kind, Node, trim
from tests.master.test_plan_properties import applied

F = "feature.node.kubernetes.io/"


def node(**annotations: str) -> Node:
    return trim({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": annotations}})


def wanting(**counts: int) -> Desired:
    """So many labels of each source, with names of 60 letters."""
    keys: dict[str, Origin] = {
        f"{F}{source}-{'x' * 50}{number:05}": source for source, count in counts.items() for number in range(count)
    }
    return Desired({Kind.LABELS: dict.fromkeys(keys, "true")}, {Kind.LABELS: keys})


@pytest.mark.parametrize("counts", [{"local": 9000}, {"local": 4000, "custom": 3000}, {"custom": 2500, "local": 2400}])
def test_the_surplus_of_who_asks_for_most_is_dropped(counts: dict[str, int]) -> None:
    desired = wanting(cpu=50, **counts)
    planned, goal = fitting_plan(Goal(desired), node())
    written = planned.changes[Kind.LABELS].write
    assert 0.9 * BUDGET < annotated(planned) <= BUDGET
    assert {key for key in desired.of(Kind.LABELS) if key.startswith(f"{F}cpu-")} <= written.keys()
    assert {one.key for one in goal.desired.dropped} == desired.of(Kind.LABELS).keys() - written.keys()
    assert planned.owned.of(Kind.LABELS).keys() == written.keys()
    after = applied(planned)
    again, _ = fitting_plan(Goal(desired), after)
    assert not again


def test_what_is_there_stays_and_changes_whatever_else_is_asked_for() -> None:
    before = applied(fitting_plan(Goal(wanting(local=500)), node())[0])
    desired = wanting(cpu=10, local=500, custom=9000)
    desired.values[Kind.LABELS][f"{F}local-{'x' * 50}00000"] = "changed"  # type: ignore[index]
    planned, _ = fitting_plan(Goal(desired), before)
    after = applied(planned)
    assert before.labels.keys() < after.labels.keys()
    assert after.labels[f"{F}local-{'x' * 50}00000"] == "changed"
    assert sum(key.startswith(f"{F}cpu-") for key in after.labels) == 10


def test_room_that_others_take_is_theirs() -> None:
    planned, _ = fitting_plan(Goal(wanting(local=1500)), node(**{f"others.io/{n}": "x" * 1000 for n in range(150)}))
    assert annotated(planned) <= BUDGET
    assert 0 < len(planned.changes[Kind.LABELS].write) < 1500


def test_a_node_as_usual_gets_all() -> None:
    desired = wanting(cpu=61, local=200)
    planned, goal = fitting_plan(Goal(desired), node())
    assert goal.desired is desired
    assert planned.changes[Kind.LABELS].write == desired.of(Kind.LABELS)
