"""`nfd rules validate` tells every mistake of a rule, also beside one that spoils it."""

from __future__ import annotations

import pytest

from nfd.rule_clock import CLOCKS
from nfd.rules.check import validate_text
from nfd.rules.model import Rule
from nfd.rules.parse import MAX_PARTS, parse_rule
from tests.rules.clocks import slowness
from tests.rules.test_parse import HEAD, TERM, rule_file

EVERY_MISTAKE = [
    (
        "expressions beside a broken one, and a label",
        (
            "name: r",
            "labels: {kubernetes.io/q: '1'}",
            *TERM,
            "    f:",
            "    a: {op: Gt, value: ['1', '2']}",
            "    e: {op: InRegexp, value: ['(', 'a', '[']}",
            "    g: {value: ['1'], type: int}",
        ),
        [
            "8: label 'kubernetes.io/q': namespace 'kubernetes.io' is not allowed",
            "12: matchFeatures.0.matchExpressions.f must be a mapping",
            "13: operator Gt takes 1 value, got 2",
            "14: regular expression '(': missing ): (",
            "14: regular expression '[': missing ]: [",
            "15: op is missing",
            "15: invalid value type 'int'",
        ],
    ),
    (
        "every part of a taint",
        ("name: r", "taints:", "- key: a", "  effect: Never", "  value: a b", "- effect: Never", "- 5", "- {key: 1}"),
        [
            "9: taint 'a': key 'a' has no namespace",
            "10: taint 'a': effect 'Never' is none of NoSchedule, PreferNoSchedule, NoExecute",
            "11: taint 'a': value must be letters, digits, '-', '_' or '.', with a letter or digit at both ends",
            "12: taints.1.key is missing",
            "12: taint '': effect 'Never' is none of NoSchedule, PreferNoSchedule, NoExecute",
            "13: taints.2 must be a mapping",
            "14: 1 is the number 1 to YAML, but text is required; put it in quotes",
            "14: taints.3.effect is missing",
            "14: taint '1': key '1' has no namespace",
        ],
    ),
    (
        "numbers that quotes would not help, and one that they would",
        ("name: r", "labels: 5", "annotations: [yes, 3]", "vars: {a: 7}", "extendedResources: 5"),
        [
            "8: labels must be a mapping",
            "9: annotations must be a mapping",
            "10: 7 is the number 7 to YAML, but text is required; put it in quotes",
            "11: extendedResources must be a mapping",
        ],
    ),
    (
        "key and value",
        ("name: r", "labels: {-a: b c}", "extendedResources: {kubernetes.io/x: many}", "annotations: {b: [c]}"),
        [
            "8: label '-a': key name must be letters, digits, '-', '_' or '.', with a letter or digit at both ends; "
            "value 'b c' must be letters, digits, '-', '_' or '.', with a letter or digit at both ends",
            "9: extendedResource 'kubernetes.io/x': namespace 'kubernetes.io' is not allowed; "
            "amount 'many' is not a quantity",
            "10: annotations.b must be text",
        ],
    ),
    (
        "an alternative without terms, other lists broken",
        ("name: r", "matchAny: [{}, 5]", "vars: 5", "matchFeatures:", "- [a]", "- feature: b"),
        [
            "8: matchAny.1 must be a mapping",
            "8: matchAny.0.matchFeatures is missing",
            "9: vars must be a mapping",
            "11: matchFeatures.0 must be a mapping",
            "12: feature 'b' is not of the form domain.feature",
        ],
    ),
    (
        "what a label must not be made of",
        ("name: r", "labelsTemplate: 'a={{ now | unixEpoch }}'", "varsTemplate: 'a={{ randInt 1 9 }}'"),
        [
            "8: template: now: only the worker's own rules may read the present time, since a label made of it changes "
            "by itself",
            "9: template: line 1: function 'randInt' gives another value each time, and a label must stay as it is",
        ],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), [m[1:] for m in EVERY_MISTAKE], ids=[m[0] for m in EVERY_MISTAKE])
def test_one_mistake_hides_no_other(lines: tuple[str, ...], expected: list[str]) -> None:
    assert validate_text("f", rule_file(*lines)) == [f"f:{line}" for line in expected]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("v1alpha1", "v1beta1", "1: apiVersion must be nfd.k8s-sigs.io/v1alpha1"),
        ("name: x", "name: Bad_Name", "4: metadata.name 'Bad_Name' must be lower-case letters"),
        ("name: x", "name: 'a..b'", "4: metadata.name 'a..b' must be lower-case letters"),
    ],
)
def test_what_the_api_server_would_refuse(old: str, new: str, expected: str) -> None:
    (found,) = validate_text("f", (HEAD + "spec: {rules: []}\n").replace(old, new))
    assert found.startswith(f"f:{expected}")


def test_a_rule_full_of_mistakes_takes_no_time() -> None:
    rule = {"name": "r", "labels": {f"a{n}": n for n in range(9_000)}, **{f"b{n}": n for n in range(9_000)}}
    begin = CLOCKS.cpu()
    assert len(parse_rule(rule, Rule).mistakes) == 18_000
    assert CLOCKS.cpu() - begin < 5 * slowness()


def test_a_rule_of_too_many_parts() -> None:
    """It would take the master long to read, which is busy meanwhile."""
    term = {"feature": "a.b", "matchExpressions": {"x": {"op": "In", "value": [str(n) for n in range(15_000)]}}}
    assert parse_rule({"name": "r", "matchFeatures": [term]}, Rule).mistakes == ()
    (mistake,) = parse_rule({"name": "r", "matchFeatures": [{"feature": "a.b"}] * 15_000}, Rule).mistakes
    assert mistake.reason == f"rule has more than {MAX_PARTS} parts"
