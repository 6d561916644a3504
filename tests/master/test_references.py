"""A reference that finds nothing because something went wrong: the key that it is for stays on the Node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.node.desired import ALL_FRESH
from nfd.master.node.outcome import Known, Outcome, evaluate_node
from nfd.master.node.ownership import Owned
from nfd.master.node.plan import Goal, plan_node
from nfd.master.rules.nodefeatures import FeatureObject, Joining
from nfd.master.rules.ruleset import bind, compile_object
from nfd.report import Report, SourceState, State
from nfd.rules.policy import Policy
from nfd.store.base import Kind, Node
from tests.master.custom_resources import rule

POLICY = Policy()
PARTS = {"cpu.topology": {"sockets": "2"}}
PRINTED = "{{ range .pci.device }}vendor.io/x=@cpu.model.id\n{{ end }}"
CARD = {"pci.device": ({"vendor": "10de"},)}


def outcome(
    *rules: dict[str, Any],
    features: Features,
    failed: str = "",
    lost: tuple[str, ...] = (),
    objects: tuple[FeatureObject, ...] = (),
) -> Outcome:
    """Of a node on which that source failed in part; `lost` are origins of which nothing can be read."""
    book = bind([compile_object({"metadata": {"name": "o"}, "spec": {"rules": list(rules)}}, POLICY)], ())
    sources = {name: SourceState(State.FAILED if name == failed else State.FRESH) for name in ("cpu", "pci")}
    known = Known(lists=replace(ALL_FRESH, uncertain=frozenset(lost)))
    report = Report("n", sources=sources, features=features)
    return evaluate_node(Node.bare("n"), report, book, objects, Joining(POLICY), known)


def tells(found: Outcome, name: str = "r") -> bool:
    """Whether a key of that rule that is not wanted is removed."""
    return found.fresh.proves_absent(f"rule:o/{name}")


def left(found: Outcome, origin: str = "rule:o/r") -> set[str]:
    """Names of the keys that stay, of a Node that has `vendor.io/x` and `vendor.io/before` of each kind from there."""
    kinds = (Kind.LABELS, Kind.ANNOTATIONS, Kind.RESOURCES)
    values = {"vendor.io/x": "7", "vendor.io/before": "7"}
    node = replace(Node.bare("n"), labels=values, annotations=values, resources=values)
    owned = Owned({kind: dict.fromkeys(values, origin) for kind in kinds})
    changes = plan_node(Goal(found.derive_desired(), found.fresh, remembered=owned, policy=POLICY), node).changes
    assert not any(values.keys() & changes[kind].write.keys() for kind in kinds), changes
    return {key.removeprefix("vendor.io/") for kind in kinds for key in values.keys() - changes[kind].remove}


@pytest.mark.parametrize(
    "gives",
    [
        {"labels": {"vendor.io/x": "@cpu.model.id"}},
        {"annotations": {"vendor.io/x": "@cpu.model.id"}},
        {"extendedResources": {"vendor.io/x": "@cpu.model.id"}},
        {"labelsTemplate": PRINTED},
    ],
    ids=lambda gives: next(iter(gives)),
)
def test_reference_into_a_source_that_failed_in_part(gives: dict[str, Any]) -> None:
    """The key that refers to it stays, and no other of the rule."""
    less, whole = Features({}, PARTS, CARD), Features({}, PARTS | {"cpu.model": {"id": "7"}}, CARD)
    asked = rule(**gives)
    assert left(outcome(asked, features=less, failed="cpu")) == {"x"}
    assert left(outcome(asked, features=whole, failed="cpu")) == {"x"}
    assert left(outcome(asked, features=less)) == set()
    assert left(outcome(asked, features=Features({}, PARTS, {"pci.device": ()}), failed="cpu")) == set()
    if "annotations" not in gives:  # which may be empty
        empty = Features({}, PARTS | {"cpu.model": {"id": ""}}, CARD)
        assert left(outcome(asked, features=empty, failed="cpu")) == {"x"}


LINE = "{{ range .pci.device }}vendor.io/x=@rule.matched.y\n{{ end }}"
DEEP = '{{ define "a" }}{{ if . }}{{ template "a" . }}{{ end }}{{ end }}{{ template "a" . }}'
GIVERS = {
    "raises": ({"name": "giver", "labelsTemplate": DEEP, "matchFeatures": [{"feature": "pci.device"}]}, ""),
    "cannot be told": ({"name": "giver", "vars": {"y": "1"}, "matchFeatures": [{"feature": "cpu.model"}]}, "cpu"),
}


@pytest.mark.parametrize("gives", [{"labelsTemplate": LINE}, {"labels": {"vendor.io/x": "@rule.matched.y"}}], ids=str)
@pytest.mark.parametrize("case", GIVERS)
@pytest.mark.parametrize("first", [True, False])
def test_reference_to_what_a_rule_gives_that_fails(case: str, gives: dict[str, Any], first: bool) -> None:
    """It is looked up once all rules have run, so that the place of the one that gives it makes no difference."""
    giver, failed = GIVERS[case]
    asking, free = rule(**gives), rule("free", labels={"z": "1"})
    pair = (giver, asking) if first else (asking, giver)
    found = outcome(*pair, free, features=Features({}, PARTS, CARD), failed=failed)
    assert [tells(found, name) for name in ("giver", "free")] == [False, True]
    assert left(found) >= {"x"}
    good = {"name": "giver", "vars": {"other": "1"}}
    assert left(outcome(good, asking, features=Features({}, PARTS, CARD))) == set()


def test_rules_that_may_depend_on_an_object_that_cannot_be_read() -> None:
    """After a restart of the master nobody knows what the object gave before it became invalid."""
    term = {"feature": "rule.matched", "matchExpressions": {"y": {"op": "Exists"}}}
    asked = (
        {"name": "term", "labels": {"t": "1"}, "matchFeatures": [term]},
        rule("reference", labels={"r": "@rule.matched.y"}),
        rule("template", labelsTemplate=LINE),
        rule("free", labels={"z": "1"}),
    )
    names = ("term", "reference", "free")
    for lost, expected in ((("rule:a",), [False, False, True]), (("object:n/o",), [True] * 3), ((), [True] * 3)):
        found = outcome(*asked, features=Features({}, PARTS, CARD), lost=lost)
        assert [tells(found, name) for name in names] == expected
        assert left(found, "rule:o/template") == (set() if all(expected) else {"x"})


def test_label_of_an_object_that_refers_to_a_source_that_failed_in_part() -> None:
    """Labels of NodeFeature objects may be references, too; other labels of the object go on."""
    asked = FeatureObject("n", "asks", "n", {"vendor.io/x": "@cpu.model.id"}, Features())
    for failed, expected in (("cpu", {"x"}), ("pci", set()), ("", set())):
        found = outcome(features=Features({}, PARTS, CARD), failed=failed, objects=(asked,))
        assert left(found, "object:n/asks") == expected


@pytest.mark.parametrize("feature", ["rdma.device", "network.device", "acme.card", "vendor.thing"])
def test_rule_over_a_feature_of_a_source_with_another_name(feature: str) -> None:
    """What no reported source is known to give may be one of a plug-in, which may be the one that failed."""
    states = dict.fromkeys(("acme", "cpu", "custom", "network"), SourceState(State.FRESH))
    term = {"feature": feature, "matchExpressions": {"state": {"op": "In", "value": ["ACTIVE"]}}}
    given = {"name": "r", "labels": {"vendor.io/x": "1"}, "matchFeatures": [term]}
    refers = {"name": "refers", "labels": {"vendor.io/x": f"@{feature}.state"}}
    book = [compile_object({"metadata": {"name": "o"}, "spec": {"rules": [given, refers]}}, POLICY)]
    relied = {"rdma.device": {"network"}, "network.device": {"network"}, "acme.card": {"acme"}}
    owned = {Kind.LABELS: {"vendor.io/x": "rule:o/refers"}}
    node = replace(Node.bare("n"), labels={"vendor.io/x": "ACTIVE"})
    for failed in ("acme", "cpu", "custom", "network", ""):
        sources = states | ({failed: SourceState(State.FAILED)} if failed else {})
        features = Features(attributes={f"{name}.other": {} for name in states})
        report = Report("n", sources=sources, features=features)
        found = evaluate_node(Node.bare("n"), report, bind(book, ()), (), Joining(POLICY))
        stays = failed in relied.get(feature, {"acme", "cpu", "network"})
        assert tells(found) is not stays, failed
        goal = Goal(found.derive_desired(), found.fresh, remembered=Owned(owned), policy=POLICY)
        assert bool(plan_node(goal, node).changes[Kind.LABELS].remove) is not stays, failed
