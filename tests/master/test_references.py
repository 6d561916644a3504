"""A reference that finds nothing because something went wrong: the key that it is for stays on the Node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.node.desired import ALL_FRESH
from nfd.master.node.outcome import Known, Outcome, evaluate_node
from nfd.master.rules.nodefeatures import FeatureObject, Joining
from nfd.master.rules.ruleset import bind, compile_object
from nfd.report import Report, SourceState, State
from nfd.rules.policy import Policy
from nfd.store.base import Node
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
    less, whole = Features({}, PARTS, CARD), Features({}, PARTS | {"cpu.model": {"id": "85"}}, CARD)
    asked = rule(**gives)
    assert not tells(outcome(asked, features=less, failed="cpu"))
    assert tells(outcome(asked, features=whole, failed="cpu"))
    assert tells(outcome(asked, features=less))
    assert tells(outcome(asked, features=Features({}, PARTS, {"pci.device": ()}), failed="cpu"))
    empty = Features({}, PARTS | {"cpu.model": {"id": ""}}, CARD)
    assert not tells(outcome(asked, features=empty, failed="cpu"))


LINE = "{{ range .pci.device }}vendor.io/y=@rule.matched.y\n{{ end }}"
DEEP = '{{ define "a" }}{{ if . }}{{ template "a" . }}{{ end }}{{ end }}{{ template "a" . }}'
GIVERS = {
    "raises": ({"name": "giver", "labelsTemplate": DEEP, "matchFeatures": [{"feature": "pci.device"}]}, ""),
    "cannot be told": ({"name": "giver", "vars": {"y": "1"}, "matchFeatures": [{"feature": "cpu.model"}]}, "cpu"),
}


@pytest.mark.parametrize("gives", [{"labelsTemplate": LINE}, {"labels": {"vendor.io/y": "@rule.matched.y"}}], ids=str)
@pytest.mark.parametrize("case", GIVERS)
@pytest.mark.parametrize("first", [True, False])
def test_reference_to_what_a_rule_gives_that_fails(case: str, gives: dict[str, Any], first: bool) -> None:
    """It is looked up once all rules have run, so that the place of the one that gives it makes no difference."""
    giver, failed = GIVERS[case]
    asking, free = rule(**gives), rule("free", labels={"z": "1"})
    pair = (giver, asking) if first else (asking, giver)
    found = outcome(*pair, free, features=Features({}, PARTS, CARD), failed=failed)
    assert [tells(found, name) for name in ("giver", "r", "free")] == [False, False, True]
    good = {"name": "giver", "vars": {"other": "1"}}
    assert tells(outcome(good, asking, features=Features({}, PARTS, CARD)))


def test_rules_that_may_depend_on_an_object_that_cannot_be_read() -> None:
    """After a restart of the master nobody knows what the object gave before it became invalid."""
    term = {"feature": "rule.matched", "matchExpressions": {"y": {"op": "Exists"}}}
    asked = (
        {"name": "term", "labels": {"t": "1"}, "matchFeatures": [term]},
        rule("reference", labels={"r": "@rule.matched.y"}),
        rule("template", labelsTemplate=LINE),
        rule("free", labels={"z": "1"}),
    )
    names = [one["name"] for one in asked]
    for lost, expected in ((("rule:a",), [False, False, False, True]), (("object:n/o",), [True] * 4), ((), [True] * 4)):
        found = outcome(*asked, features=Features({}, PARTS, CARD), lost=lost)
        assert [tells(found, name) for name in names] == expected


def test_label_of_an_object_that_refers_to_a_source_that_failed_in_part() -> None:
    """Labels of NodeFeature objects may be references, too; other objects go on."""
    asked = FeatureObject("n", "asks", "n", {"vendor.io/x": "@cpu.model.id"}, Features())
    other = FeatureObject("n", "other", "n", {"vendor.io/z": "1"}, Features())
    names = ("object:n/asks", "object:n/other")
    for failed, expected in (("cpu", [False, True]), ("pci", [True, True]), ("", [True, True])):
        found = outcome(features=Features({}, PARTS, CARD), failed=failed, objects=(asked, other))
        assert [found.fresh.proves_absent(name) for name in names] == expected
