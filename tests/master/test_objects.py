"""NodeFeature objects joined to a report, the store that keeps objects, and selectors of namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.features import Features
from nfd.kube.check_responses import spec_version
from nfd.kube.informer import Store
from nfd.master.config import NamespaceSelector, Requirement
from nfd.master.node.desired import Freshness
from nfd.master.node.outcome import NO_RULES, evaluate_node
from nfd.master.node.ownership import CLAIMED, Owned
from nfd.master.rules.nodefeatures import (
    NODE_NAME,
    FeatureInterner,
    FeatureObject,
    Joining,
    join_objects,
    parse_feature_object,
    speak_alone,
)
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.store.base import Kind, Node

OWN = "nfd"
F = "feature.node.kubernetes.io/"
UNREPORTED = evaluate_node(Node.bare("n"), None, NO_RULES, (), Joining(Policy())).fresh
"""No report was received for the node: keys of its worker, and of rules that exist, stay."""


def item(name: str, namespace: str = OWN, node: str | None = "m", **spec: Any) -> dict[str, Any]:
    labels = {NODE_NAME: node} if node is not None else None
    return {"kind": "NodeFeature", "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec}


def joined(*objects: tuple[str, str], **fields: Any) -> Report:
    report = Report(
        "m", labels={"x": "report"}, origins={"x": "local"}, features=Features(attributes={"a.b": {"x": "report"}})
    )
    spec = [
        parse_feature_object(
            item(name, namespace, labels={"x": name}, features={"attributes": {"a.b": {"elements": {"x": name}}}})
        )
        for namespace, name in objects
    ]
    return join_objects(report, spec, Joining(namespace=OWN, **fields))


@pytest.mark.parametrize(
    ("objects", "winner"),
    [
        ([(OWN, "a")], "report"),
        ([(OWN, "z")], "z"),
        ([("other", "a")], "a"),
        ([("other", "a"), (OWN, "z")], "a"),
        ([("b", "y"), ("a", "z"), ("c", "x")], "z"),
        ([(OWN, "a"), (OWN, "l")], "report"),
    ],
)
def test_who_wins(objects: list[tuple[str, str]], winner: str) -> None:
    for order in (objects, objects[::-1]):
        found = joined(*order)
        assert found.labels == {F + "x": winner}
        assert found.features.attributes == {"a.b": {"x": winner}}
        origin = (
            "local" if winner == "report" else next(f"object:{ns}/{name}" for ns, name in objects if name == winner)
        )
        assert found.origins == {F + "x": origin}


def test_no_objects_leave_the_report_itself() -> None:
    report = Report("m")
    assert join_objects(report, (), Joining()) is report


def test_denied_labels_leave_the_features() -> None:
    found = joined((OWN, "z"), deny_labels=True)
    assert found.labels == {F + "x": "report"}
    assert found.features.attributes == {"a.b": {"x": "z"}}


def test_prefixed_beats_bare_in_one_object_and_later_beats_earlier() -> None:
    one = FeatureObject("other", "a", "m", {"x": "bare", F + "x": "full"})
    other = FeatureObject("other", "b", "m", {"x": "later"})
    report = Report("m")
    assert join_objects(report, [one], Joining()).labels == {F + "x": "full"}
    assert join_objects(report, [other, one], Joining()).labels == {F + "x": "later"}


def test_instances_are_appended_and_flags_united() -> None:
    spec = {"flags": {"f.f": {"elements": {"b": {}}}}, "instances": {"i.i": {"elements": [{"attributes": {"n": "2"}}]}}}
    found = join_objects(
        Report("m", features=Features({"f.f": frozenset("a")}, {}, {"i.i": ({"n": "1"},)})),
        [parse_feature_object(item("z", features=spec))],
        Joining(namespace=OWN),
    ).features
    assert found == Features({"f.f": frozenset("ab")}, {}, {"i.i": ({"n": "1"}, {"n": "2"})})


def test_one_malformed_object_spoils_only_itself() -> None:
    """And what was known of it stays."""
    heard: list[tuple[object, object]] = []
    store = Store(parse_feature_object, lambda before, now: heard.append((before, now)))
    store.put(item("good", labels={"a": "1"}))
    for broken in (
        {"labels": {"a": 1}},
        {"labels": 3},
        {"features": {"flags": []}},
        {"features": {"instances": {"i": 1}}},
    ):
        store.put(item("good", **broken))
        store.put(item("bad", **broken))
    assert list(store.items) == [(OWN, "good")]
    assert store.invalid.keys() == {(OWN, "good"), (OWN, "bad")}
    store.put(item("good", labels={"a": "1"}))
    assert len(heard) == 1
    store.retain(frozenset({("nfd", "other")}))
    assert heard[-1][1] is None
    assert not store.items
    assert not store.invalid


def test_status_alone_is_no_change() -> None:
    parsed: list[object] = []
    store = Store(lambda one: parsed.append(one) or len(parsed), version=spec_version, keep_status=True)  # type: ignore[func-returns-value]
    one = {"metadata": {"name": "r", "uid": "u", "generation": 1}}
    store.put(one)
    store.put({**one, "status": {"nodes": 1}})
    assert len(parsed) == 1
    assert store.statuses["", "r"] == {"nodes": 1}
    store.delete(("", "r"))
    store.put(one)
    assert len(parsed) == 2


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"match_labels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"match_labels": {"a": "1"}}, {"a": "2"}, False),
        ({"match_expressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"match_expressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"match_expressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"match_expressions": [{"key": "a", "operator": "Exists"}]}, {"a": ""}, True),
        ({"match_expressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": ""}, False),
    ],
)
def test_selector(selector: dict[str, Any], labels: dict[str, str], selected: bool) -> None:
    assert NamespaceSelector.model_validate(selector).selects(labels) is selected


@pytest.mark.parametrize(
    "wrong", [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["1"]}, {}]
)
def test_senseless_requirement(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs a key"):
        Requirement.model_validate(wrong)


RULE, GONE, SOURCE = "rule:o/r", "rule:o/gone", "cpu"


@pytest.mark.parametrize(
    ("fresh", "origin", "tells"),
    [
        (Freshness(rules=frozenset({RULE})), RULE, True),
        (Freshness(rules=frozenset({RULE}), blind=True), RULE, False),
        (Freshness(rules=frozenset({RULE}), blind=True), GONE, True),
        (Freshness(rules=frozenset({RULE}), objects_settled=False), RULE, False),
        (Freshness(rules=frozenset(), rules_synced=False), GONE, False),
        (Freshness(rules_synced=False, objects_synced=False), None, True),
        (Freshness(settled=False), None, False),
        (Freshness({SOURCE: True, "pci": False}), None, False),
        (Freshness(blind=True), None, False),
        (Freshness(blind=True), CLAIMED, False),
        (Freshness(uncertain=frozenset({"rule:o"})), None, False),
        (Freshness(uncertain=frozenset({"rule:o/r"})), CLAIMED, False),
        (Freshness(uncertain=frozenset({"object:a/b"})), CLAIMED, True),
        (UNREPORTED, SOURCE, False),
        (UNREPORTED, None, False),
        (UNREPORTED, "object:a/b", True),
        (Freshness(uncertain=frozenset({"object:a/b"})), "object:a/b", False),
        (Freshness(uncertain=frozenset({"object:a/b"})), "object:a/c", True),
        (Freshness(rules=frozenset(), uncertain=frozenset({"rule:o"})), "rule:o/r", False),
        (Freshness(rules=frozenset(), uncertain=frozenset({"rule:o"})), "rule:oo/r", True),
    ],
)
def test_what_absence_tells(fresh: Freshness, origin: str | None, tells: bool) -> None:
    assert fresh.proves_absent(origin) is tells


FRESHNESS = st.builds(
    Freshness,
    sources=st.none() | st.dictionaries(st.sampled_from((SOURCE, "pci")), st.booleans()),
    objects_settled=st.booleans(),
    settled=st.booleans(),
    blind=st.booleans(),
    rules=st.none() | st.frozensets(st.sampled_from((RULE, GONE))),
    reported=st.booleans(),
    uncertain=st.frozensets(st.sampled_from(("rule:o", RULE, GONE))),
)


@given(FRESHNESS, st.sampled_from((None, CLAIMED)))
def test_a_key_of_unknown_origin_goes_only_where_every_origin_is_told_of(fresh: Freshness, origin: str | None) -> None:
    """It may come from any of them: a source, a rule that exists or existed, an object."""
    fresh = replace(fresh, settled=fresh.settled and fresh.objects_settled)
    if fresh.proves_absent(origin):
        assert all(fresh.proves_absent(one) for one in (*(fresh.sources or ()), RULE, GONE, "object:a/b"))


@pytest.mark.parametrize(
    ("objects", "owned", "alone"),
    [
        (1, Owned(), True),
        (0, Owned(), False),
        (1, Owned(boot_id="b"), False),
        (1, Owned({Kind.LABELS: {F + "cpu-a": None}}), False),
        (1, Owned({Kind.TAINTS: {"vendor.io/t:NoSchedule": RULE}}), False),
        (1, Owned({Kind.LABELS: {F + "a": RULE}}, alone=True), True),
        (0, Owned({Kind.LABELS: {F + "a": RULE}}, alone=True), True),
    ],
)
def test_objects_speak_alone_only_where_no_worker_ever_spoke(objects: int, owned: Owned, alone: bool) -> None:
    """What rules gave a node whose report carried no labels is no sign that there is no worker."""
    one = parse_feature_object(item("a", "other"))
    assert speak_alone([one] * objects, owned) is alone


def test_pool_keeps_equal_values_once() -> None:
    def features(last: str) -> Features:
        return Features(
            {"f.f": frozenset("ab")}, {"a.a": {"x": "1"}, "a.b": {"x": last}}, {"i.i": ({"n": "1"},), "i.e": ()}
        )

    pool = FeatureInterner(limit=8)
    one, other = pool.share(features("1")), pool.share(features("2"))
    assert (one, other) == (features("1"), features("2"))
    assert one.flags["f.f"] is other.flags["f.f"]
    assert one.attributes["a.a"] is other.attributes["a.a"] is one.attributes["a.b"]
    assert one.instances["i.i"] is other.instances["i.i"]
    for number in range(20):
        pool.share(Features(attributes={"a.a": {"x": str(number)}}))
    assert len(pool._values) == 8
