"""Selectors of expressions, asked of a real API server: it finds the nodes that we find."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from nfd.errors import ConfigError
from nfd.fleet.affinity import Selector, to_selector
from nfd.fleet.query import Term, parse_query
from tests.controlplane.cluster import ControlPlane
from tests.fleet.expressions import FULL, VALUES, expressions

MARK = "example.com/selectors"
MEMORY, PRODUCT, FLAG, ZONE = FULL.values()
NODES: dict[str, dict[str, str]] = {
    "sel-bare": {},
    "sel-a": {MEMORY: "81559", PRODUCT: "Tesla-T4", FLAG: "true", ZONE: "7"},
    "sel-b": {MEMORY: "40960", PRODUCT: "6.8.0-45-generic", ZONE: ""},
    "sel-c": {MEMORY: "007", FLAG: "5.15", ZONE: "0"},
    "sel-d": {MEMORY: "99999999999999999999", PRODUCT: "", ZONE: "Tesla-T4"},
    "sel-e": {MEMORY: "true", ZONE: "81559"},
}


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    for name, labels in NODES.items():
        control_plane.create_node(name, {**labels, MARK: "yes"})
    yield control_plane
    for name in NODES:
        control_plane.delete_node(name)


def found_by_server(plane: ControlPlane, selector: str) -> set[str]:
    answer: dict[str, Any] = plane.request("GET", f"/api/v1/nodes?labelSelector={quote(f'{MARK},{selector}')}")
    return {item["metadata"]["name"] for item in answer["items"]}


@settings(max_examples=120, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(expressions)
def test_random_expressions(plane: ControlPlane, text: str) -> None:
    """Each alternative by itself, since a label selector has none: together they are what the expression finds."""
    expression = parse_query(text)
    try:
        selector = to_selector(expression, NODES.values())
    except ConfigError:
        return
    found: set[str] = set()
    for term in selector.terms:
        if term:
            found |= found_by_server(plane, Selector((term,)).to_label_selector())
    assert found == {name for name, labels in NODES.items() if expression.holds(labels)}


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
def test_every_operator(plane: ControlPlane, operator: str) -> None:
    """With every value that it takes."""
    values: list[tuple[str, ...]] = [(value,) for value in VALUES] if operator in ("In", "NotIn") else [()]
    if operator in ("Gt", "Lt"):
        values = [("0",), ("7",), ("40959",), ("40960",), (str(2**63 - 1),)]
    for key in FULL.values():
        for one in values:
            term = Term(key, operator, one)
            assert found_by_server(plane, written(term)) == holding(term), term


def written(term: Term) -> str:
    return Selector(((term,),)).to_label_selector()


def holding(term: Term, nodes: Mapping[str, Mapping[str, str]] = NODES) -> set[str]:
    return {name for name, labels in nodes.items() if term.holds(labels)}
