"""Nodes with equal reports share values and desired states; others do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nfd.features import Features
from nfd.master.node.desired import ALL_FRESH, Contribution, derive_desired
from nfd.master.node.outcome import DesiredCache, Outcome
from nfd.master.reports.store import INTERNED, LONGEST, ReportInterner, same_content
from nfd.master.rules.evaluation import Evaluation
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rules.policy import Policy
from nfd.store.base import Kind

F = "feature.node.kubernetes.io/"


def report(node: str = "one", sequence: int = 1, **fields: object) -> Report:
    values = {
        "labels": {F + "cpu-a": "1"},
        "origins": {F + "cpu-a": "cpu"},
        "sources": {"cpu": SourceState(State.FRESH)},
    }
    return replace(Report(node, order=Order(f"boot-{node}", 1, sequence)), **{**values, **fields})  # type: ignore[arg-type]


def test_a_beat_is_the_last_report_but_for_its_count() -> None:
    pool = ReportInterner()
    first = pool.share(report(), None)
    beat = pool.share(report(sequence=2), first)
    assert beat == report(sequence=2)
    assert same_content(beat, first)
    for name in ("labels", "origins", "sources", "features"):
        assert getattr(beat, name) is getattr(first, name)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {F + "cpu-a": "2"}},
        {"annotations": {"a/b": "c"}},
        {"origins": {F + "cpu-a": "local"}},
        {"sources": {"cpu": SourceState(State.FAILED)}},
        {"features": Features(flags={"cpu.cpuid": frozenset({"X"})})},
        {"order": Order("boot-2", 1, 2)},
        {"node_uid": "another"},
    ],
)
def test_a_report_that_says_anything_else_is_no_beat(change: dict[str, object]) -> None:
    first = report()
    changed = report(sequence=2, **change)
    assert not same_content(changed, first)
    assert ReportInterner().share(changed, first) == changed


def test_two_nodes_share_equal_values_and_no_others() -> None:
    pool = ReportInterner()
    one, two = pool.share(report("one"), None), pool.share(report("two", origins={}), None)
    assert one.labels is two.labels
    assert (one.origins, two.origins) == ({F + "cpu-a": "cpu"}, {})
    huge = {"a": "x" * LONGEST}
    assert (
        pool.share(report("one", labels=huge), None).labels is not pool.share(report("two", labels=huge), None).labels
    )


def test_what_is_remembered_is_bounded() -> None:
    pool = ReportInterner()
    for number in range(INTERNED + 10):
        pool.share(report(labels={"a": str(number)}, origins={}, sources={}), None)
    assert len(pool._known) == INTERNED


@pytest.mark.parametrize("kind", [Kind.LABELS, Kind.ANNOTATIONS, Kind.RESOURCES])
def test_derivations_are_those_of_derive_desired(kind: Kind) -> None:
    """Also for values that look a feature of the node up, which equal labels must not share."""
    policy, pool = Policy(), ReportInterner()
    derivations = DesiredCache()
    field = {Kind.LABELS: "labels", Kind.ANNOTATIONS: "annotations", Kind.RESOURCES: "extended_resources"}[kind]
    rule = (Contribution("rule:o/r", **{field: {"v.io/r": "@kernel.version.full"}}),)  # type: ignore[arg-type]
    for contributions in ((), rule, ()):
        for node, kernel in (("one", "61"), ("two", "62"), ("one", "63")):
            features = Features(attributes={"kernel.version": {"full": kernel}})
            shared = pool.share(report(node, features=features), None)
            desired = derivations.derive(Outcome(shared, ALL_FRESH, Evaluation(contributions), policy))
            assert desired == derive_desired(shared, policy, contributions, None)
            assert desired.of(kind).get("v.io/r") == (kernel if contributions else None)
