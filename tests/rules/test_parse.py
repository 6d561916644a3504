"""Rule files as people write them: shapes, short forms, and every mistake on its line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.features import Features
from nfd.rules.check import validate_text
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_custom
from nfd.rules.model import Rule
from nfd.rules.parse import parse_custom, parse_custom_text, parse_object, parse_rule, parse_text
from nfd.rules.scalars import text_documents

HEAD = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata:\n  name: x\n"
"""Four lines; the specification begins on line 5."""


def rule_file(*lines: str) -> str:
    """A file with one rule; its first line is line 7."""
    return f"{HEAD}spec:\n  rules:\n" + "".join(
        f"  {'- ' if not index else '  '}{line}\n" for index, line in enumerate(lines)
    )


TERM = ("matchFeatures:", "- feature: f.a", "  matchExpressions:")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rule_file("name: r", "lables: {}"), ["8: unknown key 'lables'; did you mean labels?"]),
        (
            rule_file("name: r", "matchFeatures:", "- feature: f.a", "  values: []"),
            ["10: unknown key 'matchFeatures.0.values'; did you mean value?"],
        ),
        (
            rule_file("name: r", *TERM, "    class: {op: In, value: [0300]}"),
            ["11: 0300 is the number 192 to YAML, but text is required; put it in quotes"],
        ),
        (
            rule_file("name: r", "labels:", "  a: yes"),
            ["9: yes is the truth value true to YAML, but text is required; put it in quotes"],
        ),
        (rule_file("name: r", *TERM, "    x:"), ["11: matchFeatures.0.matchExpressions.x must be a mapping"]),
        (
            rule_file("name: r", *TERM, "    x: {op: In, value: a}"),
            ["11: matchFeatures.0.matchExpressions.x.value must be a list"],
        ),
        (rule_file("name: r", "labels: [a]"), ["8: labels must be a mapping"]),
        (rule_file("name: r", "taints:", "- effect: NoSchedule"), ["9: taints.0.key is missing"]),
        (rule_file("labels: {a: b}"), ["7: rule has no name"]),
        (rule_file("name: r", *TERM, "    x: {op: Nope}"), ["11: invalid operator 'Nope'"]),
        (rule_file("name: r", *TERM, "    x: {value: ['1']}"), ["11: op is missing"]),
        (rule_file("name: r", *TERM, "    x: {op: Gt, value: ['a']}"), ["11: not a number: 'a'"]),
        (rule_file("name: r", *TERM, "    x: {op: In}"), ["11: operator In takes at least 1 value, got 0"]),
        (rule_file("name: r", *TERM, "    x: {op: Exists, type: int}"), ["11: invalid value type 'int'"]),
        (
            rule_file("name: r", *TERM, "    x: {op: InRegexp, value: ['(']}"),
            ["11: regular expression '(': missing ): ("],
        ),
        (rule_file("name: r", "matchFeatures:", "- feature: f"), ["9: feature 'f' is not of the form domain.feature"]),
        (rule_file("name: r", "labelsTemplate: '{{ if }}'"), ["8: template: line 1: missing value for if"]),
        (
            rule_file("name: r", "labels:", "  kubernetes.io/x: a"),
            ["9: label 'kubernetes.io/x': namespace 'kubernetes.io' is not allowed"],
        ),
        (
            rule_file("name: r", "labels:", "  x: '@a.b'"),
            ["9: label 'x': reference '@a.b' is not of the form @domain.feature.element"],
        ),
        (
            rule_file("name: r", "extendedResources:", "  v.io/x: many"),
            ["9: extendedResource 'v.io/x': amount 'many' is not a quantity"],
        ),
        (rule_file("name: r", "labels:", "  x: '@a.b.c'", "annotations:", "  z: any text"), []),
        (
            rule_file("name: r") + "---\n" + HEAD.replace("NodeFeatureRule", "Pod"),
            ["10: kind 'Pod' is neither NodeFeatureRule nor NodeFeatureGroup"],
        ),
        (HEAD, ["1: spec must be a mapping"]),
        (HEAD + "spec: {}\n", ["5: rules must be a list"]),
        (HEAD + "spec: {rules: {}}\n", ["5: rules must be a list"]),
        (
            HEAD.replace("nfd.k8s-sigs.io/v1alpha1", "v1") + "spec: {rules: []}\n",
            ["1: apiVersion must be nfd.k8s-sigs.io/v1alpha1"],
        ),
        (HEAD.replace("  name: x\n", "  generation: 3\n") + "spec: {rules: []}\n", ["3: metadata.name is missing"]),
        (
            HEAD + "spec: {rules: [{name: r, name: s}]}\nspec:\n  rules: []\n",
            ["6: spec is written twice; the last one is used"],
        ),
        (
            HEAD + "spec: {rules: []}\n---\n" + HEAD + "spec: {rules: []}\n",
            ["10: metadata.name 'x': a NodeFeatureRule of this name is in line 4 already"],
        ),
        (
            rule_file("name: r", *TERM, '    "y\\nz": s'),
            [r"11: matchFeatures.0.matchExpressions.y\nz must be a mapping"],
        ),
        ("a: [b", ["2: not YAML: did not find expected ',' or ']'"]),
        ("- 1\n- 2\n", ["1: must be a mapping"]),
        ("", []),
        ("# nothing\n---\n", []),
    ],
)
def test_mistakes_have_lines(text: str, expected: list[str]) -> None:
    assert validate_text("f", text) == [f"f:{line}" for line in expected]


def test_a_clean_file_has_no_mistakes() -> None:
    text = rule_file(
        "name: r",
        "labels: {a: 'true', vendor.io/b: '@cpu.model.family'}",
        "labelsTemplate: '{{ range .pci.device }}{{ .class }}=1{{ end }}'",
        "vars: {c: ''}",
        "annotations: {d: e}",
        "extendedResources: {vendor.io/f: 1Gi}",
        "taints: [{key: vendor.io/g, effect: NoExecute}]",
        "matchFeatures:",
        "- {feature: pci.device, matchExpressions: {class: {op: In, value: ['0300']}}, matchName: {op: Exists}}",
        "matchAny:",
        "- matchFeatures: [{feature: cpu.model}]",
    )
    assert validate_text("f", text) == []
    assert parse_text(text).objects[0].rules[0].mistakes == ()


def test_the_items_of_a_list_are_objects() -> None:
    inner = "".join(f"  {line}\n" for line in rule_file("name: r", "colour: red").splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n- {inner[2:]}"
    parsed = parse_text(text)
    assert [one.name for one in parsed.objects] == ["x"]
    assert [(one.line, one.reason) for one in parsed.findings] == [(11, "unknown key 'colour'")]


def test_a_bad_rule_spoils_only_itself() -> None:
    parsed = parse_object(
        {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeatureRule",
            "metadata": {"name": "x"},
            "spec": {"rules": [{"name": "bad", "labels": 1}, {"name": "good"}, None, {"name": ["odd"]}]},
        }
    )
    assert [rule.rule is not None for rule in parsed.rules] == [False, True, False, False]
    assert parsed.rules[0].defect == "labels must be a mapping"


def test_numbers_in_objects_become_text() -> None:
    parsed = parse_rule({"name": 1, "labels": {"a": True, "b": 1.5}, "unknown": {"x": 1}}, Rule)
    assert isinstance(parsed.rule, Rule)
    assert (parsed.rule.name, parsed.rule.labels) == ("1", {"a": "true", "b": "1.5"})
    assert len(parsed.mistakes) == 4
    assert all(mistake.soft for mistake in parsed.mistakes)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 5_000,
        "- " * 5_000,
        "a: &a [x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\n" * 2,
        "&a [*a]",
        "*nothing",
        "\x00",
        "\udc80",
        "a: \ud800",
        "? [a]\n: b",
        "!!python/object/apply:os.system ['true']",
        "a: !!int x",
        "a: !!binary x",
        "\ufeffkind: NodeFeatureRule",
        "kind: [NodeFeatureRule]",
        "kind: NodeFeatureRule\nspec: {rules: [{matchFeatures: [{matchExpressions: [[[[]]]]}]}]}",
        "spec: " + "9" * 10_000,
        HEAD + "spec: {rules: [" + "{a: 1}," * 3_000 + "]}",
    ],
)
def test_hostile_files_are_findings(text: str) -> None:
    parse_text(text)
    parse_custom_text(text)
    validate_text("f", text)


# The worker's dialect


def custom_labels(rules: Any, features: Features) -> dict[str, str]:
    wanted = run_custom(map(compile_rule, parse_custom(rules)), features)
    assert not wanted.errors
    return wanted.labels


FEATURES = Features(
    flags={"f.flags": frozenset(("a", "b"))},
    attributes={"f.attributes": {"x": "1", "y": "true", "v": "1.10", "big": "1234567.5"}},
)


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        ({"x": "1"}, True),
        ({"x": 1}, True),
        ({"x": 1.0}, True),
        ({"big": 1234567.5}, True),
        ({"big": {"op": "In", "value": 1234567.5}}, True),
        ({"x": "2"}, False),
        ({"y": True}, True),
        ({"x": ["2", "1"]}, True),
        ({"x": None}, True),
        ({"z": None}, False),
        (["x", "y=true"], True),
        (["x=2"], False),
        (["v=1.10"], True),
        (["z"], False),
        ({"x": {"op": "In", "value": "1"}}, True),
        ({"x": {"op": "Gt", "value": 0}}, True),
        ({"x": {"op": "Ge", "value": ["1"]}}, True),
        ({"v": {"op": "Gt", "value": ["1.9"], "type": "version"}}, True),
        ({}, True),
    ],
)
def test_short_forms(expressions: Any, expected: bool) -> None:
    rule = {
        "name": "r",
        "labels": {"l": "1"},
        "matchFeatures": [{"feature": "f.attributes", "matchExpressions": expressions}],
    }
    assert bool(custom_labels([rule], FEATURES)) == expected


@pytest.mark.parametrize(
    ("expressions", "soft", "holds"),
    [
        ({"x": [6, 1]}, 2, True),
        ({"x": [6, "2"]}, 1, False),
        ({"x": [True, 1.0]}, 2, True),
        ({"x": {"op": "In", "value": [1]}}, 1, True),
        ({"x": [["1"]]}, 0, None),
        ({"x": [6, {}]}, 1, None),
        ({"x": [None]}, 0, None),
        ([1, 2], 0, None),
        ([["x"]], 0, None),
        ({"x": {"value": {"a": 1}}}, 0, None),
        (5, 0, None),
    ],
)
def test_numbers_in_short_forms(expressions: Any, soft: int, holds: bool | None) -> None:
    """They are read as text with a warning; what cannot be read spoils its own rule and no other."""
    terms = [{"feature": "f.attributes", "matchExpressions": expressions}]
    bad = {"name": "r", "labels": {"l": "1"}, "matchFeatures": terms}
    parsed = parse_custom([bad, {"name": "good", "labels": {"g": "1"}}])
    wanted = run_custom(map(compile_rule, parsed), FEATURES)
    assert sum(mistake.soft for mistake in parsed[0].mistakes) == soft
    assert wanted.labels == ({"l": "1"} if holds else {}) | {"g": "1"}
    assert [one.rule for one in wanted.errors] == (["r"] if holds is None else [])


def test_names_and_values_stay_as_written() -> None:
    rule = {"name": "r", "labels": {"kubernetes.io/x": "not legal", "plain": "@a.b.c"}}
    assert custom_labels([rule], FEATURES) == {"kubernetes.io/x": "not legal", "plain": "@a.b.c"}


def test_custom_rules_see_earlier_ones() -> None:
    rules = [
        {"name": "a", "vars": {"v": "1"}},
        {
            "name": "b",
            "labels": {"l": "1"},
            "matchFeatures": [{"feature": "rule.matched", "matchExpressions": ["v=1"]}],
        },
    ]
    assert custom_labels(rules, FEATURES) == {"l": "1"}
    assert custom_labels(rules[::-1], FEATURES) == {}


def test_a_custom_file() -> None:
    text = "- name: a\n  labels: {x: '1'}\n- name: b\n  taints: []\n- name: c\n  matchFeatures: 1\n"
    parsed = parse_custom_text(text)
    assert [(one.line, one.reason, one.soft) for one in parsed.findings] == [
        (4, "unknown key 'taints'", True),
        (6, "matchFeatures must be a list", False),
    ]
    assert [rule.rule is not None for rule in parsed.rules] == [True, True, False]
    assert parse_custom_text("a: b").findings[0].reason == "must be a list of rules"
    assert parse_custom_text("# nothing").rules == ()


SPELLINGS = st.sampled_from(["1", "0300", "-5", ".5", "1.50", "yes", "true", "0x1F", "1_000"])
BEFORE = st.sampled_from(["", "&x ", "&x\n    ", "&x   ", "!!str ", "!!str &x ", "&x !!str ", "! "])
AROUND = st.sampled_from([("", "\n"), ("", "  # 1\n"), ("", "\r\n"), ("[é, ", ", 'é']\n"), ("{😀: ", "  , b: x}\n")])


@given(st.lists(st.tuples(SPELLINGS, BEFORE, AROUND), max_size=6), st.sampled_from(["", "é", "😀"]))
def test_numbers_are_texts_wherever_they_stand(values: list[tuple[str, str, tuple[str, str]]], letter: str) -> None:
    """After an anchor or a tag, and after letters of several bytes; an alias stands for the same text."""
    text = f"{letter}0: {letter}\n"
    expected: dict[str, Any] = {f"{letter}0": letter or None}
    for number, (spelling, before, (opened, closed)) in enumerate(values, 1):
        text += f"{letter}{number}: {opened}{before}{spelling}{closed}"
        inside: Any = {"": spelling, "[": ["é", spelling, "é"], "{": {"😀": spelling, "b": "x"}}[opened[:1]]
        expected[f"{letter}{number}"] = inside
        if "&x" in before:
            text += f"again{number}: *x\n"
            expected[f"again{number}"] = spelling
    ((document, _),) = text_documents(text, "f")
    assert document.data == expected


def test_the_line_of_an_anchored_number_is_reported() -> None:
    ((_, plain),) = text_documents("spec:\n  a: &x 1\n  b: *x\n", "f")
    assert [(one.line, one.text) for one in plain] == [(2, "1")]
