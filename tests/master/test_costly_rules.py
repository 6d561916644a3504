"""Rules that take long: what is charged, what fails, what is suspended, and that nobody else waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.rules.evaluation import CROWDED, CUT_OFF, OBJECT_SECONDS, SUSPENDED, Limits, evaluation_steps
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import (
    COMPILE_SECONDS,
    CompiledObject,
    compile_object,
    compile_steps,
    exhaust,
    group_steps,
)
from nfd.master.rules.status import MOST_ADVICES, MOST_RULES, Tally, render_steps
from nfd.master.rules.suspensions import STRIKES
from nfd.master.rules.time_slices import AT_ONCE, SLICE, Slices
from nfd.report import Report
from nfd.rule_clock import CLOCKS
from nfd.rules.policy import Policy
from nfd.rules.time_limit import RULE_SECONDS, Clocks
from tests.master.custom_resources import evaluate
from tests.rules.clocks import FROZEN, Ticking, slowness

POLICY = Policy()
F = "feature.node.kubernetes.io/"
OPTIONS = {f"SOME_DRIVER_{number}_OPTION": "y" for number in range(4000)}
HERE = Features(
    attributes={"kernel.version": {"major": "6"}, "kernel.config": OPTIONS, "a.b": {"text": "01234567" * 90}}
)
ALWAYS = [{"feature": "kernel.version"}]
GENEROUS = 8 * slowness()
"""How many times longer than on an idle machine that is usual a step may take here."""
Json = dict[str, Any]

DIGITS = "{{ $t := repeat 5000 `0123456712` }}"
SLOW = "{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}"


def template(text: str, name: str = "r") -> Json:
    return {"name": name, "labelsTemplate": text, "matchFeatures": ALWAYS}


def named(pattern: str, name: str = "r") -> Json:
    """A rule that looks at all names of a large feature."""
    term = {"feature": "kernel.config", "matchName": {"op": "InRegexp", "value": [pattern]}}
    return {"name": name, "labels": {name: "1"}, "matchFeatures": [term]}


def built(*rules: Json, name: str = "o") -> CompiledObject:
    return compile_object({"metadata": {"name": name, "generation": 1}, "spec": {"rules": list(rules)}}, POLICY)


def steady(count: int) -> list[Json]:
    """Rules that take some milliseconds each, and none too long."""
    return [named(f"[0-9A-Z_].{{{300 + number}}}x", f"steady-{number}") for number in range(count)]


def counted(**limits: Any) -> Limits:
    """By work that is counted, not by the time that it takes."""
    return Limits(Ticking().clocks, **limits)


def longest_step(steps: Iterator[Any]) -> float:
    """CPU seconds of the longest step."""
    longest = 0.0
    while True:
        began = CLOCKS.cpu()
        ended = next(steps, StopIteration) is StopIteration
        longest = max(longest, CLOCKS.cpu() - began)
        if ended:
            return longest


COSTLY = {
    "a search in a text made for it": template(f"{DIGITS}{{{{ regexMatch `[0-7].{{900}}x` $t }}}}"),
    "many of them": template(f"{DIGITS}" + "{{ regexMatch `[0-7].{900}x` (substr 0 500 $t) }}" * 30),
    "other patterns each time": template(
        "{{ range $i := until 3000 }}{{ regexMatch (print `\\pL{90}` $i) `x` }}{{ end }}"
    ),
    "nested loops": template(SLOW),
    "letters one by one": template("{{ range until 100 }}{{ snakecase (repeat 3000 `aB1_`) }}{{ end }}"),
    "a layout": template("{{ range until 100 }}{{ date (repeat 5000 `2006`) 0 }}{{ end }}"),
    "names": named("[0-9A-Z_].{900}x"),
    "alternatives": {
        "name": "r",
        "matchAny": [{"matchFeatures": named(f"[A-Z_].{{{number + 90}}}x")["matchFeatures"]} for number in range(200)],
    },
    "a long value": {
        "name": "r",
        "matchFeatures": [
            {"feature": "a.b", "matchExpressions": {"text": {"op": "InRegexp", "value": ["([0-3]|[0-7])*[0-7]{900}x"]}}}
        ],
    },
}


@pytest.mark.parametrize("rule", COSTLY.values(), ids=COSTLY.keys())
def test_no_rule_takes_longer_than_it_may(rule: Json) -> None:
    """It fails, or it is done; the next one has its turn."""
    rules = built(rule, {"name": "good", "labels": {"y": "1"}}).rules
    assert longest_step(evaluation_steps(rules, (), HERE, POLICY)) < 2 * RULE_SECONDS * GENEROUS
    assert [one.labels for one in evaluate(rules, HERE, POLICY).contributions][-1] == {F + "y": "1"}


def test_text_that_is_too_long_for_a_pattern() -> None:
    """At once, wherever it is searched, and with the reason."""
    value = {"text": "0" * 1_000_000}
    term = {"feature": "a.b", "matchExpressions": {"text": {"op": "InRegexp", "value": ["[0-7].{900}x"]}}}
    made = {"name": "t", "matchFeatures": [{"feature": "a.b", "matchExpressions": {"text": {"op": "Exists"}}}],
            "labelsTemplate": "{{ range .a.b }}x={{ regexFind `[0-7].{900}x` .Value }}{{ end }}"}  # fmt: skip
    rules = built({"name": "r", "matchFeatures": [term]}, made).rules
    began = CLOCKS.cpu()
    found = evaluate(rules, Features(attributes={"a.b": value}), POLICY)
    assert CLOCKS.cpu() - began < 0.1 * GENEROUS
    for texts in found.problems.values():
        assert "text of 1000000 bytes is too long for a regular expression of" in texts[0]
    assert found.slow == ()
    assert found.unsure == {"rule:o/r", "rule:o/t"}


def test_object_of_rules_that_are_too_much_together() -> None:
    """The rest of it is left out on this node, and other objects are not concerned."""
    rules = (
        *built(*steady(400), name="heavy").rules,
        *built({"name": "good", "labels": {"y": "1"}}, name="z").rules,
    )
    found = evaluate(rules, HERE, POLICY, counted(node=10.0))
    assert found.heavy == ("rule:heavy",)
    assert found.complete
    assert found.problems[399] == (CROWDED,)
    assert [one.origin for one in found.contributions] == ["rule:z/good"]
    assert "rule:heavy/steady-399" in found.unsure


def test_pass_that_is_too_much() -> None:
    """What is left is left out; those that took most of the time are named."""
    compiled_objects = [built(*steady(200), name=f"heavy-{number}") for number in range(3)]
    rules = tuple(rule for one in compiled_objects for rule in one.rules)
    good = built({"name": "good", "labels": {"y": "1"}}, name="z").rules
    found = evaluate((*rules, *good), HERE, POLICY, counted(node=OBJECT_SECONDS * 1.5))
    assert not found.complete
    assert found.problems[600] == (CUT_OFF,)
    assert found.heavy
    assert set(found.heavy) <= {"rule:heavy-0", "rule:heavy-1"}
    assert "rule:z/good" in found.unsure


class Rules:
    """Evaluations, and what they say. They take as long as their work is counted, and all of it is done at once."""

    def __init__(
        self, *compiled_objects: CompiledObject, groups: Any = (), slices: Slices | None = None, node: float = 10.0
    ) -> None:
        self.rebinds, self.changed = list[None](), list[str]()
        self.compiled_objects, self.groups = compiled_objects, groups
        self.clock = Ticking()
        self.evaluator = Evaluator(
            Joining(POLICY),
            Metrics("1", 0.0),
            lambda: None,
            lambda: self.rebinds.append(None),
            slices or Slices(FROZEN),
            Limits(self.clock.clocks, node=node),
        )
        self.bind()

    def bind(self) -> None:
        self.evaluator.bind(self.compiled_objects, self.groups)

    async def evaluate_on(self, node: str, features: Features = HERE) -> Any:
        report = Report(node, features=features)
        self.evaluator.evaluation_of(node, report, ())
        await self.evaluator.evaluate_due(self.changed.append)
        state = self.evaluator.evaluation_of(node, report, ())
        assert self.evaluator.is_current(state)
        return state.evaluation


def features_of(number: int) -> Features:
    return Features(attributes={**HERE.attributes, "kernel.version": {"major": str(number)}})


async def test_heavy_object_is_suspended_with_all_its_rules() -> None:
    rules = Rules(built(*steady(400), name="heavy"), built({"name": "good", "labels": {"y": "1"}}, name="z"))
    for number in range(STRIKES):
        assert (await rules.evaluate_on(f"node-{number}", features_of(number))).contributions[0].origin == "rule:z/good"
    assert rules.rebinds
    rules.bind()
    found = await rules.evaluate_on("another", features_of(STRIKES))
    assert {*found.problems.values()} == {(SUSPENDED,)}
    assert len(found.unsure) == 400
    rules.compiled_objects = (
        built({"name": "steady-0", "labels": {"x": "1"}}, name="heavy"),
        rules.compiled_objects[1],
    )
    rules.bind()
    assert (await rules.evaluate_on("another", features_of(STRIKES))).problems == {}


async def test_group_that_takes_too_long_is_suspended() -> None:
    item = {"metadata": {"name": "g", "namespace": "n"}, "spec": {"featureGroupRules": [
        {"name": f"r{number}", "varsTemplate": SLOW, "matchFeatures": ALWAYS} for number in range(30)
    ]}}  # fmt: skip
    rules = Rules(groups=[exhaust(group_steps(item))])
    for number in range(STRIKES):
        found = await rules.evaluate_on(f"node-{number}", features_of(number))
        assert CROWDED in found.group_problems["n", "g"]
    found = await rules.evaluate_on("another", features_of(STRIKES))
    assert found.group_problems == {("n", "g"): (SUSPENDED,)}


async def test_nobody_waits_for_what_takes_long() -> None:
    """Whoever asks has the last outcome, and the node is named once there is another."""
    clock = Time()
    rules = Rules(built(*steady(60)), slices=Slices(Clocks(clock, clock)))
    evaluator, report = rules.evaluator, Report("n", features=HERE)
    clock.now += 1.0
    evaluator.slices.advance(passing(clock, AT_ONCE))
    state = evaluator.evaluation_of("n", report, ())
    assert not evaluator.is_current(state)
    assert state.evaluation.contributions == ()
    clock.now += 1.0
    await evaluator.evaluate_due(rules.changed.append)
    assert rules.changed == ["n"]
    assert evaluator.is_current(evaluator.evaluation_of("n", report, ()))


async def test_news_meanwhile_is_judged_in_the_end() -> None:
    ticking = Ticking(0.004).clocks
    rules = Rules(built(*steady(8), {"name": "v", "labels": {"v": "@kernel.version.major"}}), slices=Slices(ticking))
    evaluator = rules.evaluator
    for number in range(4):
        evaluator.evaluation_of("n", Report("n", features=features_of(number)), ())
    due = asyncio.create_task(evaluator.evaluate_due(rules.changed.append))
    await asyncio.sleep(0)
    last = Report("n", features=features_of(9))
    evaluator.evaluation_of("n", last, ())
    rules.bind()
    await due
    state = evaluator.evaluation_of("n", last, ())
    assert evaluator.is_current(state)
    assert state.evaluated is state.joined.features
    assert evaluator.failing() == 0


async def test_all_nodes_are_judged_anew_while_rules_keep_changing() -> None:
    rules = Rules(built({"name": "r", "labels": {"x": "0"}}))
    for number in range(50):
        await rules.evaluate_on(f"node-{number}", features_of(number))
    for number in range(20):
        rules.compiled_objects = (built({"name": "r", "labels": {"x": str(number)}}),)
        rules.bind()
        await rules.evaluator.evaluate_due(rules.changed.append)
    assert set(rules.changed) == {f"node-{number}" for number in range(50)}


async def test_loop_has_its_turn() -> None:
    """While a lot is computed, whatever waits for the loop has at least as much time as that."""
    clock = Time()
    slices = Slices(Clocks(clock, clock))
    ticks = 0

    def work() -> Iterator[None]:
        for _ in range(100):
            clock.now += 0.004
            yield

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            clock.now += 0.001
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    await slices.run(work())
    ticking.cancel()
    assert clock.now >= 100 * 0.004 * 2 - AT_ONCE - SLICE - 0.05
    assert ticks > 100


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def passing(clock: Time, seconds: float) -> Iterator[None]:
    """A step that takes so long."""
    clock.now += seconds
    yield


def test_turns_are_charged_more_for_long_steps() -> None:
    clock = Time()
    slices = Slices(Clocks(clock, clock))

    assert slices.advance(passing(clock, 0.001))
    assert slices.left() == pytest.approx(AT_ONCE - 0.001)
    assert slices.advance(passing(clock, 0.1)) in (False, True)
    assert slices.left() < -0.1
    assert not slices.advance(passing(clock, 0.001))
    clock.now += 1.0
    assert slices.left() == AT_ONCE


@pytest.mark.parametrize(
    "rules",
    [
        [{"name": f"r{number}", "labels": {f"l{number}": "1"}, "matchFeatures": ALWAYS} for number in range(3000)],
        [named("(?i)" + "[\\x{100}-\\x{fff}]" * 1300 + f"x{number}") for number in range(20)],
        [named("\\pL" * 150 + f"x{number}") for number in range(20)],
        [template("{{ add 1 2 }}" * 2400) for _ in range(5)],
        [{"name": "r", "matchFeatures": [{"feature": f"a.b{number}"} for number in range(6000)]}],
        [{"name": "r", "matchFeatures": [{"feature": f"a.b{number}"} for number in range(100_000)]}],
        [{"name": "r", "matchFeatures": [{"feature": "a.b", "matchExpressions": {
            f"x{number}": {"op": "InRegexp", "value": [f"\\pL{{900}}{number}"]} for number in range(300)}}]}],
    ],
    ids=["many", "patterns", "classes", "templates", "terms", "too many terms", "patterns that do not compile"],
)  # fmt: skip
def test_objects_are_compiled_in_steps(rules: list[Json]) -> None:
    item = {"metadata": {"name": "o"}, "spec": {"rules": rules}}
    began = CLOCKS.cpu()
    assert longest_step(compile_steps(item, POLICY)) < 2 * RULE_SECONDS * GENEROUS
    assert CLOCKS.cpu() - began < 2 * COMPILE_SECONDS * GENEROUS


def test_status_of_many_unknown_features_takes_no_time() -> None:
    """For the first of them the nearest name is looked up."""
    rules = [
        {"name": f"u{n}", "matchFeatures": [{"feature": f"vendor.unknown_{n:050d}"}]} for n in range(2 * MOST_RULES)
    ]
    found = built(*rules)
    tally = Tally(found.rules, POLICY)
    began = CLOCKS.cpu()
    status = exhaust(render_steps(found, 0, tally, ""))
    assert CLOCKS.cpu() - began < (MOST_ADVICES * 0.01 + 0.1) * GENEROUS
    assert (len(status["rules"]), status["problems"]) == (MOST_RULES, 2 * MOST_RULES)
