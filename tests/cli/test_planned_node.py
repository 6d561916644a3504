"""What `nfd plan` says of one node: what the master holds, and what the API server rejects."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nfd.cli.plan.model import NodeInput, PlanInput, PlannedNode, plan_nodes
from nfd.cli.plan.recorded import after
from nfd.master.http.reports_api import MasterState
from nfd.master.node.desired import Freshness
from nfd.master.node.known_rejections import Unwritten
from nfd.master.rules.nodefeatures import FeatureObject
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.store.base import Kind, Node

F = "feature.node.kubernetes.io/"
V = "vendor.io/"
RULES = {"o": {"metadata": {"name": "o"}, "spec": {"rules": [{"name": "r", "labels": {V + "rule": "1"}}]}}}
OBJECT = FeatureObject("ns", "extra", "n", {V + "object": "1"})
REPORT = Report("n", labels={F + "a": "1"}, origins={F + "a": "local"})
STANDING = MasterState(Policy(enable_taints=True))


def one(situation: NodeInput, standing: MasterState = STANDING, rules: dict[str, object] = RULES) -> PlannedNode:  # type: ignore[assignment]
    (found,) = plan_nodes(PlanInput([situation], rules, standing))  # type: ignore[arg-type]
    return found


def labelled() -> Node:
    """A Node that has what its worker, a rule and an object ask for."""
    found = after(one(NodeInput(Node.bare("n", uid="n"), REPORT, (OBJECT,))).planned)
    assert found.labels == {F + "a": "1", V + "rule": "1", V + "object": "1"}
    return found


@pytest.mark.parametrize(
    ("lists", "rules", "gone"),
    [
        (Freshness(), RULES, {V + "object"}),
        (Freshness(uncertain=frozenset({"object:ns/extra"}), blind=True), RULES, set()),
        (Freshness(), {}, {V + "object", V + "rule"}),
        (
            Freshness(uncertain=frozenset({"object:ns/extra"})),
            {"o": {"metadata": {"name": "o"}, "spec": {"rules": 5}}},
            set(),
        ),
        (Freshness(uncertain=frozenset({"object:ns/extra"})), {"o": {"metadata": {"name": "o"}}}, set()),
    ],
)
def test_what_an_invalid_object_gave_stays(lists: Freshness, rules: dict[str, object], gone: set[str]) -> None:
    """A NodeFeature, or a NodeFeatureRule, that exists and cannot be read."""
    found = one(NodeInput(labelled(), REPORT, (), lists), rules=rules)
    assert found.planned.changes[Kind.LABELS].remove == gone


@pytest.mark.parametrize(
    ("key", "removal", "left", "told"),
    [
        (V + "rule", False, {F + "a", V + "old"}, ("label", V + "rule", "rejected by policy p: no")),
        (V + "old", True, {F + "a", V + "rule"}, ("label", V + "old", "removal rejected by policy p: no")),
        ("*", False, set(), ("node", "*", "every change is rejected by policy p: no")),
        (V + "rule", True, {F + "a", V + "rule", V + "old"}, None),
        (V + "else", False, {F + "a", V + "rule", V + "old"}, None),
    ],
)
def test_what_the_api_server_rejects_is_not_done(
    key: str, removal: bool, left: set[str], told: tuple[str, str, str] | None
) -> None:
    """By what the master says; what the plan would not do anyway is not named."""
    old = FeatureObject("ns", "old", "n", {V + "old": "1"})
    node = after(one(NodeInput(Node.bare("n", uid="n"), Report("n"), (old,)), rules={}).planned)
    assert node.labels == {V + "old": "1"}
    kind = "annotation" if key == "*" else "label"
    rejected = Unwritten(kind, key, "policy p", "no", ("n", "m"), removal)
    found = one(NodeInput(node, REPORT), replace(STANDING, unwritten=(rejected,)))
    change = found.planned.changes[Kind.LABELS]
    assert {*change.write, *change.remove} == left
    assert [(one.kind, one.key, one.reason) for one in found.dropped] == ([told] if told else [])
    other = one(NodeInput(replace(node, name="other"), REPORT), replace(STANDING, unwritten=(rejected,)))
    assert {*other.planned.changes[Kind.LABELS].write} == {F + "a", V + "rule"}
