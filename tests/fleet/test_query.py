"""Expressions: what they mean, what is wrong with them, and the selectors that say the same."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nfd.errors import ConfigError
from nfd.fleet.affinity import to_selector
from nfd.fleet.query import compare_versions, parse_query
from nfd.names import key_problem, value_problem
from tests.fleet.expressions import expressions, kubernetes_selects, labels, parse_terms

F = "feature.node.kubernetes.io/"
M = "nvidia.com/gpu.memory"
A100 = {M: "81920", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", F + "cpu-cpuid.AVX512F": "true", "zone": "a"}

MEANINGS = [
    ("nvidia.com/gpu.memory>=40000 and cpu-cpuid.AVX512F", True),
    ("nvidia.com/gpu.memory >= 81920 and nvidia.com/gpu.memory <= 81920", True),
    ("nvidia.com/gpu.memory > 81920 or nvidia.com/gpu.memory < 81920", False),
    ("nvidia.com/gpu.product =~ A100", True),
    ("nvidia.com/gpu.product !~ '^A100'", True),
    ("nvidia.com/gpu.product in (Tesla-T4, NVIDIA-A100-SXM4-80GB)", True),
    ("nvidia.com/gpu.product not in (Tesla-T4)", True),
    ("nvidia.com/gpu.product > 3", False),
    ("nvidia.com/gpu.product < 3", False),
    ("not nvidia.com/gpu.product < 3", True),
    ("zone", False),
    ("/zone", True),
    ("/zone exists and not (cpu-cpuid.AMXTILE or zone)", True),
    ("/zone = b or /zone != b and /zone == a", True),
    ("NOT not /zone", True),
    ("/'zone' exists", None),
    ("gone != x", True),
    ("gone not in (x)", True),
    ("gone = x", False),
]


@pytest.mark.parametrize(("text", "holds"), MEANINGS)
def test_meaning(text: str, holds: bool | None) -> None:
    if holds is None:
        with pytest.raises(ConfigError):
            parse_query(text)
    else:
        assert parse_query(text).holds(A100) is holds


MISTAKES = [
    ("", "column 1: expected a label at the end"),
    ("a and", "column 6: expected a label at the end"),
    ("a = ", "expected a value at the end"),
    ("a b", "column 3: expected and, or, or the end, found 'b'"),
    ("(a", "expected ')'"),
    ("a)", "column 2: expected and, or, or the end, found ')'"),
    ("a in b", "expected '(', found 'b'"),
    ("a in ()", "expected a value, found ')'"),
    ("a > b", "column 5: 'b' is neither a whole number of 64 bits nor a version"),
    ("a > 9223372036854775808", "neither a whole number of 64 bits"),
    ("a = 'b c'", "column 6: 'b c' is no label value: it must be letters"),
    ("a/b/c", "is no label: its prefix"),
    ("a =~ '('", "regular expression '('"),
    ("a ~ b", "column 3: '~ b' is not expected here"),
    ("and", "column 1: expected a label, found 'and'"),
    ("a" * 5000, "too long"),
    ("(" * 60 + "a" + ")" * 60, "nested more than 50 deep"),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_mistakes_name_the_place(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_query(text)
    assert said in str(caught.value)


@given(st.text(max_size=40) | st.text("ab/()=<>!~,'\" andornotin0.9", max_size=40))
def test_whatever_is_typed_is_an_expression_or_a_mistake(text: str) -> None:
    with suppress(ConfigError):
        parse_query(text)


@settings(max_examples=400, deadline=None)
@given(expressions, st.lists(labels, max_size=6))
def test_the_selector_finds_what_the_expression_finds(text: str, fleet: list[Mapping[str, str]]) -> None:
    """By rules written down apart from the ones under test; every key, operator and value is legal in a selector."""
    expression = parse_query(text)
    try:
        selector = to_selector(expression, fleet)
    except ConfigError:
        assume(False)
    terms = selector.to_terms()
    for node in fleet:
        assert kubernetes_selects(terms, node) == expression.holds(node) == selector.selects(node)
    for requirement in (one for term in terms for one in term.get("matchExpressions", ())):
        assert key_problem(requirement["key"]) is None
        assert [value for value in requirement.get("values", ()) if value_problem(value)] == []
    assert parse_terms(terms) == parse_terms(parse_terms(terms).to_terms())


@settings(max_examples=300, deadline=None)
@given(expressions, labels)
def test_without_a_warning_it_holds_for_every_node_to_come(text: str, node: Mapping[str, str]) -> None:
    """Nodes that nobody had seen when the selector was written."""
    expression = parse_query(text)
    try:
        selector = to_selector(expression, [node])
    except ConfigError:
        assume(False)
    if not selector.warnings:
        fresh = to_selector(expression, [])
        assert kubernetes_selects(fresh.to_terms(), node) == expression.holds(node)


WRITTEN = [
    ("a = 1", [[(F + "a", "In", ("1",))]], f"{F}a=1"),
    ("a >= 5 and a < 9", [[(F + "a", "Gt", ("4",)), (F + "a", "Lt", ("9",))]], f"{F}a>4,{F}a<9"),
    ("a in (1, 2) and a != 2", [[(F + "a", "In", ("1",))]], f"{F}a=1"),
    ("a = 1 and a = 2", [[]], ""),
    ("a and not a", [[]], ""),
    ("a or a and b", [[(F + "a", "Exists", ())]], f"{F}a"),
    ("not (a or b)", [[(F + "a", "DoesNotExist", ()), (F + "b", "DoesNotExist", ())]], f"!{F}a,!{F}b"),
    ("not (a and b)", [[(F + "a", "DoesNotExist", ())], [(F + "b", "DoesNotExist", ())]], ""),
]


@pytest.mark.parametrize(("text", "terms", "short"), WRITTEN)
def test_how_it_is_written(text: str, terms: list[list[tuple[str, str, tuple[str, ...]]]], short: str) -> None:
    selector = to_selector(parse_query(text))
    assert [[(one.key, one.operator, one.values) for one in term] for term in selector.terms] == terms
    assert (selector.to_label_selector(), selector.warnings) == (short, ())


def test_what_no_selector_can_say_is_listed_with_a_warning() -> None:
    fleet = [A100, {"nvidia.com/gpu.product": "Tesla-T4"}, {F + "kernel-version.full": "6.8.0-45"}]
    selector = to_selector(parse_query("nvidia.com/gpu.product =~ ^T"), fleet)
    assert selector.to_label_selector() == "nvidia.com/gpu.product=Tesla-T4"
    assert [one.partition(":")[0] for one in selector.warnings] == ["nvidia.com/gpu.product"]
    selector = to_selector(parse_query("kernel-version.full >= 5.15"), fleet)
    assert selector.to_label_selector() == f"{F}kernel-version.full=6.8.0-45"
    selector = to_selector(parse_query("not nvidia.com/gpu.product > 5"), fleet)
    assert "there are 'NVIDIA-A100-SXM4-80GB', 'Tesla-T4'" in selector.warnings[0]


def test_too_many_alternatives_are_refused() -> None:
    text = " and ".join(f"(a{index} or b{index})" for index in range(8))
    with pytest.raises(ConfigError, match="more than 100 alternatives"):
        to_selector(parse_query(text))


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [("5.15", "5.4", 1), ("5.15", "5.15.0", 0), ("6.8.0-45-generic", "6.8.1", -1), ("x", "1", None), ("1", "", None)],
)
def test_versions(one: str, other: str, order: int | None) -> None:
    assert compare_versions(one, other) == order
