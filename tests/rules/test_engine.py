"""What evaluation does beyond single rules: order, back-references, groups, errors, the JSON form, and speed."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nfd.cli.rules import eval_files, eval_objects
from nfd.features import Features
from nfd.master.node.outcome import evaluate_report
from nfd.master.rules.ruleset import compile_objects
from nfd.report import Report
from nfd.rules.model import RuleObject
from nfd.rules.parse import parse_object
from nfd.rules.policy import Policy

FLAG = Features(flags={"f.a": frozenset(("x",))}, attributes={"system.name": {"nodename": "n"}})


def rules_of(*rules: dict[str, Any], name: str = "r", kind: str = "NodeFeatureRule") -> RuleObject:
    field = "rules" if kind == "NodeFeatureRule" else "featureGroupRules"
    data = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {field: list(rules)},
    }
    return parse_object(data)


def outcome_of(*rules: dict[str, Any], features: Features = FLAG, **reported: Any) -> SimpleNamespace:
    named = [{"name": f"r{index}"} | rule for index, rule in enumerate(rules)]
    return SimpleNamespace(**eval_objects([rules_of(*named)], Report("n", features=features, **reported)))


def term(feature: str, **expressions: str) -> dict[str, Any]:
    return {"feature": feature, "matchExpressions": {name: {"op": op} for name, op in expressions.items()}}


EMPTY = {
    "flags": Features(flags={"f.a": frozenset()}),
    "attributes": Features(attributes={"f.a": {}}),
    "instances": Features(instances={"f.a": ()}),
    "one instance": Features(instances={"f.a": ({"y": "1"},)}),
    "absent": Features(),
}


@pytest.mark.parametrize(
    ("what", "no_expressions", "no_matchers", "does_not_exist"),
    [
        ("flags", True, True, True),
        ("attributes", True, True, True),
        ("instances", False, True, False),
        ("one instance", True, True, True),
        ("absent", False, False, False),
    ],
)
def test_empty_features(what: str, no_expressions: bool, no_matchers: bool, does_not_exist: bool) -> None:
    terms = ({"feature": "f.a", "matchExpressions": {}}, {"feature": "f.a"}, term("f.a", x="DoesNotExist"))
    held = [
        bool(outcome_of({"labels": {"l": "1"}, "matchFeatures": [one]}, features=EMPTY[what]).labels) for one in terms
    ]
    assert held == [no_expressions, no_matchers, does_not_exist]


@pytest.mark.parametrize("kind", ["flags", "attributes", "instances"])
def test_null_elements_match_nothing(kind: str) -> None:
    rule = """
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: r}
spec:
  rules:
  - {name: a, vars: {empty: "1"}, matchFeatures: [{feature: f.a, matchExpressions: {}}]}
  - {name: b, vars: {lacks: "1"}, matchFeatures: [{feature: f.a, matchExpressions: {x: {op: DoesNotExist}}}]}
  - {name: c, vars: {there: "1"}, matchFeatures: [{feature: f.a}]}
"""
    assert eval_files([rule], f"features: {{{kind}: {{f.a: {{elements: null}}}}}}")["vars"] == {"there": "1"}


def test_rule_matched_is_absent_before_the_first_rule() -> None:
    rule = {"labels": {"l": "1"}, "matchFeatures": [term("rule.matched", x="DoesNotExist")]}
    assert set(outcome_of(rule, rule | {"labels": {"m": "1"}}).labels) == {"feature.node.kubernetes.io/m"}


def test_a_rule_that_fails_leaves_nothing() -> None:
    bad = {"labels": {"l": "1"}, "vars": {"v": "1"}, "matchFeatures": [term("f.a", x="Nope")]}
    seen = {"labels": {"seen": "1"}, "matchFeatures": [term("rule.matched", v="Exists")]}
    outcome = outcome_of(bad, seen)
    assert not outcome.labels
    assert outcome.errors == [{"rule": "r0", "reason": "invalid operator 'Nope'"}]


def test_a_defective_rule_is_an_error_and_the_others_go_on() -> None:
    outcome = outcome_of({"labels": [1]}, {"labels": {"good": "1"}})
    assert [one["rule"] for one in outcome.errors] == ["r0"]
    assert set(outcome.labels) == {"feature.node.kubernetes.io/good"}


def test_reported_labels_lose_to_rules() -> None:
    rule = {"labels": {"a": "rule", "vendor.io/c": "@system.name.nodename"}}
    outcome = outcome_of(rule, labels={"a": "report", "feature.node.kubernetes.io/b": "report"})
    assert outcome.labels == {
        "feature.node.kubernetes.io/a": "rule",
        "feature.node.kubernetes.io/b": "report",
        "vendor.io/c": "n",
    }


def test_what_is_left_out_is_told() -> None:
    outcome = outcome_of(
        {"labels": {"bad key": "1", "vendor.io/x": "@a.b.c"}, "taints": [{"key": "k", "effect": "No"}]}
    )
    assert {(one["kind"], one["key"]) for one in outcome.problems} == {
        ("label", "feature.node.kubernetes.io/bad key"),
        ("label", "vendor.io/x"),
        ("taint", "k"),
    }


def test_groups() -> None:
    rules = [
        {"name": "a", "vars": {"v": "1"}, "matchFeatures": [term("f.a", x="Exists")]},
        {"name": "b", "matchFeatures": [term("rule.matched", w="Exists")]},
    ]
    report = Report("n", features=FLAG)
    assert eval_objects([rules_of(*rules, name="g", kind="NodeFeatureGroup")], report)["groups"] == ["g"]
    assert eval_objects([rules_of(*rules[1:], name="g", kind="NodeFeatureGroup")], report)["groups"] == []


def test_group_rules_have_no_labels() -> None:
    parsed = compile_objects([rules_of({"name": "a", "labels": {"l": "1"}}, kind="NodeFeatureGroup")], Policy())
    assert parsed.groups[0].rules[0].labels == {}


def test_the_json_form() -> None:
    rules = """
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: r}
spec:
  rules:
  - name: a
    labels: {b: "1", kubernetes.io/no: "1"}
    annotations: {c: any text}
    extendedResources: {vendor.io/d: "2"}
    taints: [{key: vendor.io/e, effect: NoExecute}, {key: vendor.io/f, effect: NoSchedule, value: g}]
    vars: {h: "3"}
  - name: broken
    labelsTemplate: "{{ fail `no` }}"
    matchFeatures: [{feature: f.a}]
---
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureGroup
metadata: {name: group}
spec:
  featureGroupRules: [{name: all}]
"""
    features = "kind: NodeFeature\nspec:\n  features: {flags: {f.a: {elements: {x: {}}}}}\n"
    assert json.loads(json.dumps(eval_files([rules], features))) == {
        "labels": {"feature.node.kubernetes.io/b": "1"},
        "annotations": {"feature.node.kubernetes.io/c": "any text"},
        "extendedResources": {"vendor.io/d": "2"},
        "taints": [
            {"key": "vendor.io/e", "effect": "NoExecute"},
            {"key": "vendor.io/f", "effect": "NoSchedule", "value": "g"},
        ],
        "vars": {"h": "3"},
        "groups": ["group"],
        "errors": [{"rule": "broken", "reason": "template: fail: no"}],
        "problems": [
            {"kind": "label", "key": "kubernetes.io/no", "reason": "namespace 'kubernetes.io' is not allowed"}
        ],
    }


@pytest.mark.parametrize(
    "text",
    [
        "[", "a: b: c", "- 1", "features: 1", "features: {flags: 1}", "features: {flags: {a: 1}}", "spec: 1",
        "features: {attributes: {a: {elements: {b: [1]}}}}", "features: {instances: {a: {elements: 1}}}",
        "features: {instances: {a: {elements: [1]}}}", "labels: [1]", "labels: {a: [1]}", "a: 1\n---\nb: 1",
        "\0", "\udc80",
    ],
)  # fmt: skip
def test_features_of_another_shape_are_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # any reason will do
        eval_files([], text)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ("feature: {flags: {}}", ["line 1: unknown key 'feature'"]),
        ("spec:\n  feature: {}\n  labels: {}", ["line 2: unknown key 'spec.feature'"]),
        ("features:\n  flag: {}\nmetadata: {generation: 3}", ["line 2: unknown key 'features.flag'"]),
        ("features: {flags: {a.b: {element: {}}}}", ["line 1: unknown key 'features.flags.a.b.element'"]),
        (
            "features:\n  attributes:\n    a.b:\n      elements: {x: 5}",
            ["line 4: 5 is the number 5 to YAML, but text is required; put it in quotes"],
        ),
        ("labels: {a: yes}", ["line 1: yes is the truth value true to YAML, but text is required; put it in quotes"]),
        ("kind: NodeFeature\nspec: {features: {flags: {a.b: }, instances: }}", []),
    ],
)
def test_what_is_odd_about_features_is_a_problem(text: str, reasons: list[str]) -> None:
    problems = eval_files([], text)["problems"]
    assert [one["reason"] for one in problems if one["kind"] == "features"] == reasons


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b: c", "p:1: not YAML"),
        ("- 1", "p: expected a mapping with features"),
        ("features: {instances: {a.b: {elements: [5]}}}", r"p: instances.a.b\[0\]: expected a mapping, found a single"),
    ],
)
def test_errors_name_the_file(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}"):
        eval_files([], text, name="p")


@pytest.mark.parametrize("text", ["", "features: {}", "spec: {}", "spec:", "kind: NodeFeature", "features:", "labels:"])
def test_nothing_reported(text: str) -> None:
    assert eval_files([], text)["labels"] == {}


def test_odd_text_in_features_is_harmless() -> None:
    odd = {"\x00": "\udc80", "\udc80": "\x00", "a": "9" * 100_000}
    features = Features({"f.a": frozenset(odd)}, {"f.a": odd}, {"f.a": (odd,)})
    template = "{{ range .f.a }}{{ range $k, $v := . }}{{ trunc 9 $k }}={{ $v | trunc 9 | upper }}\n{{ end }}{{ end }}"
    rule = {
        "labelsTemplate": template,
        "varsTemplate": template,
        "matchFeatures": [{"feature": "f.a", "matchName": {"op": "Exists"}}],
    }
    json.dumps(outcome_of(rule, features=features).vars).encode()


def test_a_thousand_nodes_and_fifty_rules_take_about_a_second() -> None:
    device = {"vendor": {"op": "In", "value": ["10de"]}, "class": {"op": "InRegexp", "value": ["^03"]}}
    kernel = {"major": {"op": "Gt", "value": ["5"]}}
    kinds: list[Any] = [
        lambda _index: {"feature": "pci.device", "matchExpressions": device},
        lambda index: term("kernel.loadedmodule", **{f"m{index}": "Exists"}),
        lambda _index: {"feature": "kernel.version", "matchExpressions": kernel},
    ]
    rules = [
        {"name": f"r{index}", "labels": {f"l{index}": "true"}, "matchFeatures": [kinds[index % 3](index)]}
        for index in range(50)
    ]
    devices = tuple({"vendor": "8086", "class": f"{index:04x}", "device": "1"} for index in range(30))
    features = Features(
        {"kernel.loadedmodule": frozenset(f"m{index}" for index in range(0, 100, 2))},
        {"kernel.version": {"major": "6"}},
        {"pci.device": devices},
    )
    compiled, report = compile_objects([rules_of(*rules)], Policy()), Report("n", features=features)
    begin = time.process_time()
    for _ in range(1_000):
        evaluate_report(report, compiled, Policy())
    assert time.process_time() - begin < 3, "the aim is one second; three leave room for a busy machine"
