"""A rule that fails on a node: what it gave stays, others go on, it is named, and it is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nfd.errors import Endless
from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import Contribution, Freshness
from nfd.master.rules.evaluation import Limits, evaluation_steps
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import PlacedRule, compile_object, exhaust, place_rule
from nfd.master.rules.status import Tally, render_group, render_steps
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.compile import Group
from nfd.rules.model import ParsedRule, Rule, RuleObject
from nfd.rules.policy import Policy
from tests.master.custom_resources import evaluate
from tests.rules.clocks import FROZEN, Ticking
from tests.rules.raising import HERE, UNFORESEEN, Unreadable, raising

POLICY = Policy(enable_taints=True)
F = "feature.node.kubernetes.io/"
DEEP = '{{ define "a" }}{{ if . }}{{ template "a" . }}{{ end }}{{ end }}{{ template "a" . }}'
each = pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)


def placed(error: Exception, name: str = "raising") -> PlacedRule:
    return PlacedRule(name, raising(error, name), Contribution(f"rule:o/{name}", {"x": "1"}), fixed=True)


def rules(*given: dict[str, Any]) -> tuple[PlacedRule, ...]:
    return compile_object({"metadata": {"name": "o"}, "spec": {"rules": list(given)}}, POLICY).rules


@each
def test_rule_fails_alone_and_holds_what_it_gave(error: Exception) -> None:
    (good,) = rules({"name": "good", "labels": {"y": "2"}, "matchFeatures": [{"feature": "a.b"}]})
    found = evaluate((placed(error), good), HERE, POLICY)
    assert [one.labels for one in found.contributions] == [{F + "y": "2"}]
    assert found.problems[0][0].startswith(type(error).__name__)
    assert (found.errors, found.complete) == (1, True)
    assert found.unsure == {"rule:o/raising"}
    fresh = Freshness(rules=frozenset(("rule:o/raising", "rule:o/good")), uncertain=found.unsure)
    assert [fresh.proves_absent(f"rule:o/{name}") for name in ("raising", "good", "gone")] == [False, True, True]
    assert evaluate((placed(error), good), Features(), POLICY).unsure == set()


def test_rules_that_depend_on_a_failed_one_hold_what_they_gave() -> None:
    """What it would have put into `rule.matched` is not known to be gone; rules before it are not concerned."""
    term = {"feature": "rule.matched", "matchExpressions": {"x": {"op": "Exists"}}}
    before, after, refers, free = rules(
        {"name": "before", "labels": {"b": "1"}, "matchFeatures": [term]},
        {"name": "after", "labels": {"a": "1"}, "matchFeatures": [term]},
        {"name": "refers", "labels": {"r": "@rule.matched.x"}},
        {"name": "free", "labels": {"f": "1"}},
    )
    found = evaluate((before, placed(KeyError("x")), after, refers, free), HERE, POLICY)
    assert found.unsure == {"rule:o/raising", "rule:o/after", "rule:o/refers"}


def test_rule_that_does_not_end_is_suspended() -> None:
    """As one that takes too long: otherwise it would take its time on each node."""
    found = evaluate((placed(Endless(1.0)),), HERE, POLICY)
    assert (found.slow, found.unsure) == ((0,), {"rule:o/raising"})


@each
def test_rule_that_cannot_be_compiled(error: Exception) -> None:
    broken = ParsedRule("broken", Rule.model_construct(name="broken", match_features=(Unreadable(error),)))
    found = place_rule(RuleObject("o", (broken,)), broken, POLICY)
    assert type(error).__name__ in found.mistakes[0]
    assert evaluate((found,), HERE, POLICY).unsure == {"rule:o/broken"}


@each
def test_group_of_which_it_cannot_be_told(error: Exception) -> None:
    groups = (Group("a", "n", (raising(error),)), Group("b", "n", ()))
    found = exhaust(evaluation_steps((), groups, HERE, POLICY))
    assert (found.groups, found.errors) == ((), 1)
    assert type(error).__name__ in found.group_problems["n", "a"][0]
    tally = Tally((), POLICY)
    tally.add("node", found, Report("node", features=HERE))
    group = tally.group(("n", "a"))
    assert group.unsure == {"node"}
    status = render_group(group.nodes, group)
    assert status["problems"] == [{"message": found.group_problems["n", "a"][0], "nodes": 1, "sample": ["node"]}]


class Trouble(Metrics):
    """Metrics that raise while `error` is set: something outside of every rule goes wrong."""

    error: Exception | None = None

    def observe(self, name: str, seconds: float) -> None:
        if self.error is not None:
            raise self.error
        super().observe(name, seconds)


@each
async def test_outcome_is_current_only_once_it_is_there(error: Exception) -> None:
    metrics = Trouble("1", 0.0)
    evaluator = Evaluator(Joining(POLICY), metrics, lambda: None, lambda: None, Slices(FROZEN), Limits(FROZEN))
    report, changed = Report("n", features=HERE), list[str]()

    def put_in_force(value: str) -> None:
        item = {"metadata": {"name": "o"}, "spec": {"rules": [{"name": "r", "labels": {"x": value}}]}}
        evaluator.bind([compile_object(item, POLICY)], ())

    put_in_force("1")
    assert evaluator.is_current(evaluator.evaluation_of("n", report, ()))
    put_in_force("2")
    metrics.error = error
    assert not evaluator.is_current(evaluator.evaluation_of("n", report, ()))
    await evaluator.evaluate_due(changed.append)
    state = evaluator.evaluation_of("n", report, ())
    assert not evaluator.is_current(state)
    assert state.evaluation.contributions[0].labels == {F + "x": "1"}
    metrics.error = None
    state = evaluator.evaluation_of("n", report, ())
    assert evaluator.is_current(state)
    assert state.evaluation.contributions[0].labels == {F + "x": "2"}


class Busy(Slices):
    """Nothing is done at once while it is busy; what is left goes on step by step, and others have their turn."""

    busy = True

    def advance(self, steps: Iterator[Any], seconds: float = 0.0, keep: float = 0.0) -> bool:
        return not self.busy and all(True for _ in steps)

    async def run(self, steps: Iterator[Any]) -> None:
        for _ in steps:
            await asyncio.sleep(0)


@pytest.mark.parametrize("again", [False, True], ids=["current", "newer"])
async def test_outcome_of_older_rules_does_not_replace_a_newer_one(again: bool) -> None:
    slices = Busy(FROZEN)
    limits = Limits(Ticking().clocks, per_object=10.0, node=10.0)
    evaluator = Evaluator(Joining(POLICY), Metrics("1", 0.0), lambda: None, lambda: None, slices, limits)
    report = Report("n", features=HERE)

    def put_in_force(value: str) -> None:
        rules = [{"name": f"r{number}", "labels": {"x": value}} for number in range(10)]
        evaluator.bind([compile_object({"metadata": {"name": "o"}, "spec": {"rules": rules}}, POLICY)], ())

    put_in_force("1")
    assert not evaluator.is_current(evaluator.evaluation_of("n", report, ()))
    judging = asyncio.create_task(evaluator.evaluate_due(lambda node: None))
    await asyncio.sleep(0)
    put_in_force("2")
    slices.busy = False
    state = evaluator.evaluation_of("n", report, ())
    assert evaluator.is_current(state)
    if again:
        put_in_force("3")
    while not judging.done():
        assert {value for one in state.evaluation.contributions for value in one.labels.values()} <= {"2", "3"}
        await asyncio.sleep(0)
    assert evaluator.is_current(state)
    assert state.evaluation.contributions[0].labels == {F + "x": "3" if again else "2"}


def test_failed_rule_is_named_once_with_its_node(caplog: pytest.LogCaptureFixture) -> None:
    item = {"metadata": {"name": "o"}, "spec": {"rules": [
        {"name": "deep", "labelsTemplate": DEEP, "matchFeatures": [{"feature": "a.b"}]},
        {"name": "good", "labels": {"y": "2"}},
    ]}}  # fmt: skip
    metrics = Metrics("1", 0.0)
    evaluator = Evaluator(Joining(POLICY), metrics, lambda: None, lambda: None, Slices(FROZEN), Limits(FROZEN))
    compiled = compile_object(item, POLICY)
    evaluator.bind([compiled], ())
    tally = Tally(compiled.rules, POLICY)
    for number in range(3):
        features = replace(HERE, flags={"c.d": frozenset((str(number),))})
        state = evaluator.evaluation_of(f"node-{number}", Report(f"node-{number}", features=features), ())
        tally.add(f"node-{number}", state.evaluation, state.joined)
    said = [record for record in caplog.records if record.message.startswith("rule failed")]
    assert [(one.__dict__["fields"]["rule"], one.__dict__["fields"]["node"]) for one in said] == [
        ("rule:o/deep", "node-0")
    ]
    assert metrics["nodefeaturerule_processing_errors"] >= 1
    deep, good = exhaust(render_steps(compiled, 0, tally, ""))["rules"]
    assert deep["problems"][0]["nodes"] == 3
    assert "deeper than" in deep["problems"][0]["message"]
    assert good["matched"] == 3
