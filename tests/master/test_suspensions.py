"""Rules that are suspended come back, and no rule is suspended because its machine is slow or busy."""

from __future__ import annotations

import asyncio
import gc
import time
from random import Random
from typing import Any

import pytest

from bench import rules as normal
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import Contribution
from nfd.master.rules.evaluation import SUSPENDED, SUSPENDED_HERE, Limits
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import PlacedRule, compile_object, exhaust
from nfd.master.rules.status import Tally, render_steps
from nfd.master.rules.suspensions import FIRST, LONGEST, STRIKES, WINDOW, Suspensions
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rule_clock import CLOCKS
from nfd.rules.compile import CompiledRule
from nfd.rules.policy import Policy
from nfd.rules.time_limit import RULE_SECONDS
from tests.master.custom_resources import evaluate
from tests.master.test_costly_rules import ALWAYS, SLOW, Rules, Time, built, features_of, steady, template
from tests.rules.clocks import FROZEN, Ticking, slowness

POLICY = Policy()
F = "feature.node.kubernetes.io/"
MARGIN = 100
"""How many times less than it may a normal rule takes."""


async def suspended(rules: Rules) -> int:
    """The number of a node that was judged when the rules were suspended."""
    for number in range(STRIKES):
        await rules.evaluate_on(f"node-{number}", features_of(number))
    assert rules.rebinds
    rules.rebinds.clear()
    rules.bind()
    assert SUSPENDED in {texts[0] for texts in (await rules.evaluate_on("node-0", features_of(0))).problems.values()}
    return STRIKES


async def test_suspended_rule_is_tried_again_after_a_while() -> None:
    """If it still takes too long on as many nodes, it is suspended again, for longer."""
    rules = Rules(built(template(SLOW), name="slow"))
    number = await suspended(rules)
    waits = []
    for _ in range(5):
        wait = rules.evaluator.suspensions.retry_in()
        assert wait is not None
        waits.append(wait)
        rules.clock.now += wait + 1
        rules.bind()
        number += 1
        found = await rules.evaluate_on(f"node-{number}", features_of(number))  # and those before
        assert SUSPENDED not in found.problems[0]
        assert rules.rebinds
        rules.rebinds.clear()
        rules.bind()
    assert waits[:2] == [pytest.approx(FIRST, abs=10), pytest.approx(2 * FIRST, abs=10)]
    assert waits[-1] == pytest.approx(LONGEST, abs=10)


async def test_object_that_was_suspended_comes_back_when_the_machine_is_faster() -> None:
    rules = Rules(built(*steady(100), {"name": "good", "labels": {"y": "1"}}, name="heavy"))
    await suspended(rules)
    rules.clock.tick = 1e-6
    rules.clock.now += FIRST + 1
    rules.bind()
    found = await rules.evaluate_on("node-0", features_of(0))
    assert found.problems == {}
    assert [one.labels for one in found.contributions] == [{F + "y": "1"}]
    assert rules.evaluator.suspensions.retry_in() is None


async def test_what_a_suspended_rule_gave_stays() -> None:
    rules = Rules(built({**template(SLOW), "labels": {"x": "1"}}, name="slow"))
    await suspended(rules)
    found = await rules.evaluate_on("node-0", features_of(0))
    assert found.unsure == {"rule:slow/r"}


class Halting(Ticking):
    """A clock that jumps a few times in a row, and then goes on as before."""

    def __call__(self) -> float:
        self.tick = 10 * RULE_SECONDS if 0.1 <= self.now < 60 * RULE_SECONDS else 0.001
        return super().__call__()


async def test_machine_that_stands_still_for_once() -> None:
    """The rule that has its turn then is evaluated again: it has not failed, and nothing is counted."""
    text = "{{ range until 2000 }}{{ if lt . 0 }}y{{ end }}{{ end }}x=1"
    one = built(*(template(text, f"r{number}") for number in range(5)))
    clocks = Halting().clocks
    assert evaluate(one.rules, features_of(0), POLICY, Limits(clocks, node=10.0, per_object=10.0)).slow
    rules = Rules(one)
    rules.evaluator = Evaluator(
        Joining(POLICY),
        Metrics("1", 0.0),
        lambda: None,
        rules.bind,
        Slices(FROZEN),
        Limits(Halting().clocks, node=10.0),
    )
    rules.bind()
    found = await rules.evaluate_on("n", features_of(0))
    assert (found.problems, found.contributions[0].labels) == ({}, {F + "x": "1"})


def test_garbage_collection_is_not_charged() -> None:
    """Whoever allocates next would pay for all that there is."""
    kept: list[Any] = [[[number]] for number in range(300_000)]
    began, cpu = time.thread_time(), CLOCKS.cpu()
    gc.collect()
    whole, charged = time.thread_time() - began, CLOCKS.cpu() - cpu
    assert charged < whole / 2
    assert kept


def test_normal_rules_have_a_large_margin() -> None:
    placed = compile_object(
        {"metadata": {"name": "o"}, "spec": {"rules": [*map(normal.rule, range(50))]}}, POLICY
    ).rules
    features = [normal.features(number) for number in range(5)]
    for one in features:
        evaluate(placed, one, POLICY)
    began = CLOCKS.cpu()
    assert all(evaluate(placed, one, POLICY).slow == () for one in features)
    assert (CLOCKS.cpu() - began) / len(features) / len(placed) < RULE_SECONDS / MARGIN * slowness()


def placed(name: str) -> PlacedRule:
    return PlacedRule(name, CompiledRule(name), Contribution(f"rule:o/{name}"), True)


def strike(found: Suspensions, rule: PlacedRule, *nodes: str) -> bool:
    struck = [found.strike(node, 1, {1: rule}) for node in nodes]
    return any(struck)


NODES = tuple(f"n{number}" for number in range(STRIKES))


def test_strikes_count_for_a_while() -> None:
    clock, rule = Time(), placed("r")
    found = Suspensions(clock)
    found.bind({1: rule})
    for number in range(3 * STRIKES):
        clock.now += WINDOW / (STRIKES - 1)
        assert not strike(found, rule, f"n{number}")
    clock.now += 1
    assert strike(found, rule, "another")
    assert found.active == {1}


def test_one_node_suspends_nothing_on_others() -> None:
    rule = placed("r")
    found = Suspensions(Time())
    found.bind({1: rule})
    assert not strike(found, rule, *(["n"] * 10 * STRIKES))
    assert not strike(found, rule, *NODES[: STRIKES - 2])
    found.forget("n")
    assert not strike(found, rule, NODES[-1])
    assert strike(found, rule, "n")


def test_suspension_ends_with_its_rule_and_with_time() -> None:
    clock, rule, other = Time(), placed("r"), placed("other")
    found = Suspensions(clock)
    assert not strike(found, rule, *NODES)
    found.bind({1: rule, 2: other})
    assert strike(found, rule, *NODES)
    found.bind({1: rule, 2: other})
    assert found.active == {1}
    found.bind({1: other})
    assert found.active == set()
    assert strike(found, other, *NODES)
    clock.now += FIRST
    found.bind({1: other})
    assert (found.active, found.retry_in()) == (set(), None)
    assert strike(found, other, *NODES)
    assert found.retry_in() == 2 * FIRST
    clock.now += 2 * FIRST + LONGEST
    found.bind({1: other})
    assert strike(found, other, *NODES)
    assert found.retry_in() == FIRST


def test_suspension_on_one_node_ends_with_its_rule_with_time_and_with_the_node() -> None:
    clock, rule, other = Time(), placed("r"), placed("other")
    found = Suspensions(clock)
    found.bind({1: rule, 2: other})
    assert found.suspend_on("n", {1: rule})
    assert not found.suspend_on("n", {1: rule})
    assert (found.active_on("n"), found.active_on("m"), found.active) == ({1}, (), set())
    assert (found.retry_in(), found.release_in(), found.release()) == (None, FIRST, [])
    clock.now += FIRST
    assert (found.release(), found.active_on("n"), found.release_in()) == (["n"], set(), None)
    assert found.suspend_on("n", {1: rule})
    assert found.release_in() == 2 * FIRST
    found.bind({1: other})
    assert (found.active_on("n"), found.release_in()) == ((), None)
    assert found.suspend_on("n", {1: other})
    found.forget("n")
    assert (found.active_on("n"), found.release_in()) == ((), None)


async def test_node_that_reports_too_much_concerns_no_other() -> None:
    """However often it reports, even if all rules together take too long there. The rest of them is evaluated there."""
    good = built({"name": "good", "labels": {"y": "1"}}, name="z")
    heavy = built(*(template(SLOW, f"r{number}") for number in range(10)), name="heavy")
    rules = Rules(heavy, good, node=0.2)
    for number in range(3 * STRIKES):
        found = await rules.evaluate_on("evil", features_of(number))
        assert found.complete
        assert [one.origin for one in found.contributions] == ["rule:z/good"]
        assert {*found.problems.values()} == {(SUSPENDED_HERE,)}
    assert not rules.rebinds
    rules.clock.tick = 1e-6
    elsewhere = await rules.evaluate_on("good", features_of(0))
    assert SUSPENDED_HERE not in {texts[0] for texts in elsewhere.problems.values()}
    rules.clock.now += FIRST - 60
    rules.evaluator.release()
    assert (await rules.evaluate_on("evil", features_of(0))).problems == dict.fromkeys(range(10), (SUSPENDED_HERE,))
    rules.clock.now += 60
    rules.evaluator.release()
    await rules.evaluator.evaluate_due(rules.changed.append)
    assert (await rules.evaluate_on("evil", features_of(0))) == elsewhere


async def test_what_a_node_makes_of_the_rules_that_are_left_is_no_other_nodes_outcome() -> None:
    rules = Rules(built({**template(SLOW), "labels": {"x": "1"}}, name="slow"))
    await rules.evaluate_on("evil", features_of(0))
    assert (await rules.evaluate_on("evil", features_of(1))).problems == {0: (SUSPENDED_HERE,)}
    assert (await rules.evaluate_on("good", features_of(1))).problems != {0: (SUSPENDED_HERE,)}


class Play:
    """Nodes and rules that change in any order, while they are judged."""

    def __init__(self, seed: int) -> None:
        self.dice, self.clock = Random(seed), Ticking(0.004)
        self.evaluator = self._make(Slices(self.clock.clocks), Limits(Ticking(1e-4).clocks))
        self.reports = {f"n{number}": Report(f"n{number}", features=features_of(0)) for number in range(4)}
        self.put_in_force()

    def _make(self, slices: Slices, limits: Limits) -> Evaluator:
        return Evaluator(Joining(POLICY), Metrics("1", 0.0), lambda: None, lambda: None, slices, limits)

    def put_in_force(self) -> None:
        """Other rules, more or fewer."""
        one = [
            {"name": f"r{at}", "labels": {f"l{at}": "@kernel.version.major"}, "matchFeatures": ALWAYS}
            for at in range(self.dice.randrange(12))
        ]
        two = [*steady(self.dice.randrange(3)), template("{{ fail `no` }}", "bad"), template("z=1", "good")]
        self.dice.shuffle(two)
        self.evaluator.bind([built(*one, name="a"), built(*two[: self.dice.randrange(5)], name="b")], ())

    def change(self) -> None:
        node, evaluator = self.dice.choice([*self.reports]), self.evaluator
        match self.dice.randrange(6):
            case 0:
                self.put_in_force()
            case 1:
                evaluator.forget(node)
            case 2:
                self.reports[node] = Report(node, features=features_of(self.dice.randrange(5)))
            case 3:
                evaluator.preview(node, Report(node, features=features_of(self.dice.randrange(5))), ())
            case 4:
                self.look()
        evaluator.evaluation_of(node, self.reports[node], ())
        self.clock.now += self.dice.choice((0.0, 0.0, 0.01, 1.0))

    def look(self) -> None:
        """Count as for the status."""
        book = self.evaluator.rule_set
        tally = Tally(book.rules, POLICY)
        for node in self.evaluator.names():
            if (state := self.evaluator.get(node)) is not None and state.rule_set is book:
                tally.add(node, state.evaluation, state.joined)
        first = 0
        for one in book.compiled_objects:
            exhaust(render_steps(one, first, tally, ""))
            first += len(one.rules)
        assert 0 <= self.evaluator.failing() <= len(book.rules)

    async def check(self) -> None:
        """Every outcome is that of the rules in force, as if there had been no others."""
        fresh = self._make(Slices(FROZEN), Limits(FROZEN))
        fresh.bind(self.evaluator.rule_set.compiled_objects, ())
        for node, report in self.reports.items():
            self.evaluator.evaluation_of(node, report, ())
            await self.evaluator.evaluate_due(lambda node: None)
            found = self.evaluator.evaluation_of(node, report, ())
            assert self.evaluator.is_current(found)
            assert found.evaluation == fresh.evaluation_of(node, report, ()).evaluation
        self.look()


@pytest.mark.parametrize("seed", range(40))
async def test_rules_that_change_while_nodes_are_judged(seed: int) -> None:
    """Whatever is interrupted where, outcomes and rules go together."""
    play = Play(seed)

    async def evaluate_on() -> None:
        while True:
            await play.evaluator.waiting.wait()
            await play.evaluator.evaluate_due(lambda node: None)

    evaluating = asyncio.create_task(evaluate_on())
    for _ in range(60):
        play.change()
        await asyncio.sleep(0)
        assert not evaluating.done()
    evaluating.cancel()
    await asyncio.gather(evaluating, return_exceptions=True)
    await play.check()
