"""Requirements as a selector: whatever they are, it selects the nodes that meet them, by labels or by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from nfd.cli.compat import CompatibilitySet, evaluate_sets
from nfd.features import Features
from nfd.fleet.affinity import MOST_TERMS, Selector
from nfd.fleet.requirements import HOST_NAME, selector_for
from nfd.rules.model import GroupRule
from nfd.rules.operators import OPERATORS
from nfd.rules.parse import parse_rule

F = "feature.node.kubernetes.io/"
MODELS: dict[str, Mapping[str, str]] = {"n1": {"id": "85"}, "n2": {"id": "143"}, "n3": {"id": "no number"}, "n4": {}}
VALUES: tuple[list[str], ...] = ([], ["85"], ["85", "143"], ["("], ["x"], ["^1"], ["9" * 5000], ["no number"], [""])
FEATURES = {name: Features(attributes={"cpu.model": model}) for name, model in MODELS.items()}
LABELS = {
    name: {HOST_NAME: name, **{f"{F}cpu-model.{key}": value for key, value in model.items()}}
    for name, model in MODELS.items()
}


def selected(*rules: Mapping[str, Any]) -> tuple[Selector, set[str], set[str]]:
    """The selector, the nodes that it selects, and those that meet all rules."""
    parsed = CompatibilitySet(tuple(parse_rule(rule, GroupRule) for rule in rules))
    suitable = {
        name
        for name, found in FEATURES.items()
        if all(rule["isMatch"] for rule in evaluate_sets([parsed], found, ())[0][0]["rules"])
    }
    selector = selector_for([[one.rule for one in parsed.rules]], LABELS, FEATURES, suitable)
    return selector, {name for name, labels in LABELS.items() if selector.selects(labels)}, suitable


def rule(name: str, **expression: Any) -> Mapping[str, Any]:
    return {"matchFeatures": [{"feature": "cpu.model", "matchExpressions": {name: expression}}]}


@pytest.mark.parametrize("operator", [*OPERATORS, "Unheard"])
def test_each_operator_with_each_kind_of_value(operator: str) -> None:
    for values in VALUES:
        _, found, suitable = selected({"name": "a", **rule("id", op=operator, **({"value": values} if values else {}))})
        assert found == suitable, values


def test_more_alternatives_than_a_selector_may_have() -> None:
    alternatives = [rule("id", op="In", value=[value]) for value in ("85", "143", "1", "2")]
    rules = [
        {"name": str(number), "matchAny": [rule("id", op="NotIn", value=[f"{number}-{one}"]) for one in range(3)]}
        for number in range(5)
    ]
    assert 3 ** len(rules) > MOST_TERMS
    selector, found, suitable = selected({"name": "a", "matchAny": alternatives}, *rules)
    assert found == suitable == {"n1", "n2"}
    assert "more than 100 alternatives, so the nodes are listed as they are now" in selector.warnings[0]
