"""More than the annotations of a Node have room for: the surplus is dropped by name, all else is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from nfd.master.node.annotation_budget import BUDGET, LIMIT, USUAL, annotated, fitting_plan
from nfd.master.node.desired import Desired
from nfd.master.node.ownership import Origin
from nfd.master.node.plan import Goal
from nfd.store.base import Kind, Node, trim
from tests.master.test_plan_properties import applied

F = "feature.node.kubernetes.io/"


V = "vendor.io/"


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


GROUPS = {
    "cpu": (F + "cpu-", "cpu"),
    "feature": (F, "rule:o/a"),
    "vendor": (V, "rule:o/a"),
    "other": (V + "b", "rule:o/b"),
}


def crowd(groups: Mapping[str, tuple[int, int]], notes: int, text: str) -> Desired:
    """Labels of sources and rules, (letters, number) of each group, and annotations of a rule."""
    labels = {
        f"{GROUPS[group][0]}{'x' * letters}{number}": GROUPS[group][1]
        for group, (letters, count) in groups.items()
        for number in range(count)
    }
    found = {Kind.LABELS: labels, Kind.ANNOTATIONS: {f"{F}note-{number}": "rule:o/c" for number in range(notes)}}
    texts = {Kind.LABELS: "true", Kind.ANNOTATIONS: text}
    return Desired({kind: dict.fromkeys(keys, texts[kind]) for kind, keys in found.items()}, found)


@given(
    st.dictionaries(
        st.sampled_from(sorted(GROUPS)), st.tuples(st.integers(0, 40), st.sampled_from([1, 60, 2000, 4000]))
    ),
    st.sampled_from([0, 10, 300, 1000]),
    st.sampled_from(["", "z" * 10, "é" * 500]),
    st.integers(0, LIMIT - USUAL),
    st.booleans(),
)
@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_it_fits_whatever_fills_the_node(
    groups: Mapping[str, tuple[int, int]], notes: int, text: str, others: int, in_one: bool
) -> None:
    """Annotations of others count with all their bytes, and those of nfd as its lists do."""
    desired, size = crowd(groups, notes, text), others // 2 if in_one else 200
    found = node(
        **dict.fromkeys((f"others.io/{number:04}" for number in range(others // (size + 14))), "é" * (size // 2))
    )
    before = annotated(fitting_plan(Goal(Desired()), found)[0])
    planned, goal = fitting_plan(Goal(desired), found)
    allowed = min(LIMIT, max(BUDGET, before + USUAL))
    wanted = sum(len(keys) for keys in desired.values.values())
    written = sum(len(planned.changes[kind].write) for kind in Kind)
    assert annotated(planned) <= allowed
    assert len(goal.desired.dropped) == wanted - written
    if wanted > written:
        assert annotated(planned) > allowed / 3, "not many more than necessary: what a key needs is estimated"
    again, _ = fitting_plan(Goal(desired), applied(planned))
    assert not again


def test_a_usual_node_gets_all_even_if_others_use_the_rest() -> None:
    desired = wanting(cpu=61, local=100)
    planned, goal = fitting_plan(Goal(desired), node(**{"others.io/all": "x" * (LIMIT - USUAL - 100)}))
    assert goal.desired is desired
    assert annotated(planned) <= LIMIT


def test_a_node_as_usual_gets_all() -> None:
    desired = wanting(cpu=61, local=200)
    planned, goal = fitting_plan(Goal(desired), node())
    assert goal.desired is desired
    assert planned.changes[Kind.LABELS].write == desired.of(Kind.LABELS)
