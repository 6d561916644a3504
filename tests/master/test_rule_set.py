"""Rules over one node, and what their status says, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import Contribution, find_overwrites
from nfd.master.rules.evaluation import SUSPENDED, Limits
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import LONGEST_NAME, NO_TAINTS, CompiledObject, compile_object, exhaust
from nfd.master.rules.status import MOST_MEMBERS, MOST_PROBLEMS, SAMPLE, Tally, render_group, render_steps, same_status
from nfd.master.rules.suspensions import STRIKES
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.runtime.prometheus import render
from tests.master.custom_resources import evaluate
from tests.rules.clocks import FROZEN

STILL = Slices(FROZEN), Limits(FROZEN)

POLICY = Policy(enable_taints=True)
F = "feature.node.kubernetes.io/"
HERE = Features(attributes={"kernel.version": {"major": "6"}})
ALWAYS = [{"feature": "kernel.version"}]
ENDLESS = "{{ range 1000 }}{{ range 1000 }}x{{ end }}{{ end }}"


def built(*rules: dict[str, Any], name: str = "o", policy: Policy = POLICY) -> CompiledObject:
    return compile_object(
        {"metadata": {"name": name, "uid": "u", "generation": 3}, "spec": {"rules": list(rules)}}, policy
    )


def test_contributions_carry_their_rule() -> None:
    rules = built(
        {"name": "a", "labels": {"x": "1"}, "vars": {"v": "2"}},
        {"name": "b", "matchFeatures": [{"feature": "pci.device"}], "labels": {"never": "1"}},
        {"name": "c", "matchFeatures": [{"feature": "rule.matched", "matchExpressions": {"v": {"op": "Exists"}}}],
         "labelsTemplate": "t={{ len .rule.matched }}", "annotations": {"n": "3"}},
    ).rules  # fmt: skip
    found = evaluate(rules, HERE, POLICY)
    assert found.contributions == (
        Contribution("rule:o/a", {F + "x": "1"}, vars={"v": "2"}),
        Contribution("rule:o/c", {F + "t": "1"}, {F + "n": "3"}),
    )
    assert found.matching == (0, 2)
    assert found.matched == {"x": "1", "v": "2", "t": "1"}
    assert evaluate(rules, HERE, POLICY).same_outcome(found)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"labels": {"a/b/c": "1"}}, "a/b/c"),
        ({"taints": [{"key": "x.io/a", "effect": "Never"}]}, "effect 'Never'"),
        ({"extendedResources": {"x.io/a": "1.5"}}, "amount"),
        ({"annotations": {"a": "x" * 1025}}, "1025 bytes"),
        ({"matchFeatures": [{"feature": "nodot"}]}, "not of the form domain.feature"),
        ({"matchFeatures": [{"feature": "a.b", "matchExpressions": {"x": {"op": "Gt", "value": ["y"]}}}]}, "y"),
        ({"varsTemplate": "{{ nope }}"}, "template"),
        ({"labels": 7}, "labels"),
    ],
)
def test_mistakes_are_known_without_any_node(rule: dict[str, Any], reason: str) -> None:
    found = built({"name": "r", **rule}).rules[0]
    assert any(reason in mistake for mistake in found.mistakes)


def test_policy_of_this_master_counts() -> None:
    rule = {"name": "r", "labels": {"kubernetes.io/x": "1"}, "taints": [{"key": "x.io/a", "effect": "NoSchedule"}]}
    strict = built(rule, policy=Policy()).rules[0].mistakes
    assert len(strict) == 2
    assert NO_TAINTS in strict
    lenient = Policy(enable_taints=True, extra_label_ns=frozenset({"kubernetes.io"}))
    assert built(rule, policy=lenient).rules[0].mistakes == ()


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": "x"}, "spec": {"rules": [None, 3, []]}},
        {"spec": {"rules": "no"}},
        {"metadata": {"name": "x"}, "spec": {"rules": [{}]}},
    ],
)
def test_malformed_objects_are_taken_as_they_are(item: dict[str, Any]) -> None:
    found = compile_object(item, POLICY)
    evaluate(found.rules, HERE, POLICY)


def test_rule_that_asks_for_more_than_a_node_can_hold() -> None:
    """It gives nothing; the rules around it are not concerned."""
    rules = built(
        {"name": "before", "labels": {"x": "1"}},
        {
            "name": "r" * 5000,
            "matchFeatures": ALWAYS,
            "labelsTemplate": "{{ range until 700 }}" + "p" * 200 + ".example/{{ . }}=1\n{{ end }}",
        },
        {"name": "n" * 5000, "labels": {"y": "1"}},
    ).rules
    found = evaluate(rules, HERE, POLICY)
    assert [one.labels for one in found.contributions] == [{F + "x": "1"}, {F + "y": "1"}]
    assert "at most" in found.problems[1][0]
    assert len(found.contributions[1].origin) <= LONGEST_NAME + len("rule:o/")


async def test_slow_rule_is_suspended_after_a_few_nodes() -> None:
    rebinds: list[None] = []
    evaluator = Evaluator(
        Joining(POLICY), Metrics("1", 0.0), lambda: None, lambda: rebinds.append(None), Slices(FROZEN), Limits(FROZEN)
    )
    compiled_objects = [
        built({"name": "slow", "matchFeatures": ALWAYS, "labelsTemplate": ENDLESS}, {"name": "b", "labels": {"x": "1"}})
    ]
    evaluator.bind(compiled_objects, ())
    for number in range(STRIKES):
        report = Report(f"node-{number}", features=HERE)
        evaluator.evaluation_of(report.node, report, ())
        await evaluator.evaluate_due(lambda node: None)
        assert evaluator.evaluation_of(report.node, report, ()).evaluation.contributions[0].labels == {F + "x": "1"}
    assert len(rebinds) == 1
    evaluator.bind(compiled_objects, ())
    changed: list[str] = []
    await evaluator.evaluate_due(changed.append)
    assert changed == []
    state = evaluator.get("node-0")
    assert state is not None
    assert state.evaluation.problems == {0: (SUSPENDED,)}
    evaluator.bind([built({"name": "slow", "matchFeatures": ALWAYS, "labels": {"y": "1"}})], ())
    await evaluator.evaluate_due(changed.append)
    assert changed == [f"node-{number}" for number in range(STRIKES)]


def test_nothing_is_computed_twice() -> None:
    told: list[None] = []
    evaluator = Evaluator(
        Joining(POLICY), Metrics("1", 0.0), lambda: told.append(None), lambda: None, Slices(FROZEN), Limits(FROZEN)
    )
    evaluator.bind([built({"name": "r", "labels": {"x": "1"}})], ())
    first = evaluator.evaluation_of("n", Report("n", features=HERE), ())
    again = evaluator.evaluation_of(
        "n", Report("n", labels={"a": "b"}, features=Features(attributes=dict(HERE.attributes))), ()
    )
    assert again.evaluation is first.evaluation
    assert len(told) == 1
    assert render(evaluator._metrics.families(), openmetrics=False).count("duration_seconds_count 1") == 1


def status(rules: CompiledObject, *nodes: Features, labels: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    tally = Tally(rules.rules, POLICY)
    for number, features in enumerate(nodes):
        report = Report("n", features=features, labels=labels, origins=dict.fromkeys(labels, "cpu"))
        tally.add(f"node-{number:03d}", evaluate(rules.rules, features, POLICY), report)
    return exhaust(render_steps(rules, 0, tally, "2020-01-01T00:00:00Z"))


def test_status_counts_and_samples() -> None:
    rules = built({"name": "all", "matchFeatures": ALWAYS, "labels": {"x": "1"}})
    found = status(rules, *[HERE] * 30, Features())
    assert (found["observedGeneration"], found["nodes"], found["problems"]) == (3, 31, 0)
    assert found["rules"] == [{"name": "all", "matched": 30, "sample": [f"node-{one:03d}" for one in range(SAMPLE)]}]
    assert same_status(found, {**found, "evaluated": "later"})
    assert not same_status(found, {**found, "nodes": 30})
    assert found["unknown"] == 0
    older = {key: value for key, value in found.items() if key != "unknown"}
    assert same_status(found, older)
    assert not same_status({**found, "unknown": 1}, older)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("kernel.versoin", "feature kernel.versoin: no node reports it; did you mean kernel.version?"),
        ("vendor.thing", "feature vendor.thing: no node reports it"),
        ("pci.device", "feature pci.device: no node reports it"),
        ("Kernel.Version", None),
        ("rule.matched", None),
    ],
)
def test_unknown_features(feature: str, message: str | None) -> None:
    found = status(built({"name": "r", "matchFeatures": [{"feature": feature}]}), HERE)
    assert [one["message"] for one in found["rules"][0].get("problems", ())] == ([message] if message else [])


def test_built_in_features_are_known_before_any_node_speaks() -> None:
    rules = built({"name": "r", "matchFeatures": [{"feature": "pci.device"}, {"feature": "pci.devices"}]})
    messages = [one["message"] for one in status(rules)["rules"][0]["problems"]]
    assert messages == ["feature pci.devices: no node reports it; did you mean pci.device?"]


def test_problems_of_nodes_are_counted() -> None:
    rules = built(
        {"name": "r", "matchFeatures": [{"feature": "a.b", "matchExpressions": {"n": {"op": "Gt", "value": ["1"]}}}]}
    )
    features = [Features(attributes={"a.b": {"n": text}}) for text in ("2", "many", "more", "many")]
    found = status(rules, *features)["rules"][0]
    assert found["matched"] == 1
    assert sorted(one["nodes"] for one in found["problems"]) == [1, 2]


def test_group_status_is_capped() -> None:
    members = {f"node-{number:05d}" for number in range(MOST_MEMBERS + 1)}
    found = render_group(members)
    assert (found["count"], found["truncated"], len(found["nodes"])) == (MOST_MEMBERS + 1, True, MOST_MEMBERS)


GIVES: tuple[tuple[str, Any, Any], ...] = (
    ("label 'x'", {"labels": {"x": "1"}}, {"labels": {"x": "2"}}),
    ("label 'v.io/x'", {"labelsTemplate": "v.io/x=1"}, {"labelsTemplate": "v.io/{{ `x` }}=2"}),
    ("annotation 'x'", {"annotations": {"x": "1"}}, {"annotations": {"x": "2"}}),
    ("extendedResource 'v.io/x'", {"extendedResources": {"v.io/x": "1"}}, {"extendedResources": {"v.io/x": "2"}}),
    (
        "taint 'v.io/x:NoExecute'",
        {"taints": [{"key": "v.io/x", "effect": "NoExecute"}]},
        {"taints": [{"key": "v.io/x", "effect": "NoExecute", "value": "2"}]},
    ),
)


@pytest.mark.parametrize(("key", "one", "other"), GIVES, ids=[one[0] for one in GIVES])
def test_a_key_of_two_rules_is_told_in_the_status_of_both(key: str, one: Any, other: Any) -> None:
    """By how many nodes it is so; the same value twice is nothing to tell."""
    more = {"matchFeatures": [{"feature": "kernel.version", "matchExpressions": {"more": {"op": "Exists"}}}]}
    rules = built({"name": "a", "matchFeatures": ALWAYS, **one}, {"name": "b", **more, **other})
    both = Features(attributes={"kernel.version": {**HERE.attributes["kernel.version"], "more": ""}})
    found = status(rules, HERE, both, both)
    nodes = {"nodes": 2, "sample": ["node-001", "node-002"]}
    assert [rule["problems"] for rule in found["rules"]] == [
        [{"message": f"{key}: rule 'b' of NodeFeatureRule {rules.name} overwrites the value of this rule", **nodes}],
        [{"message": f"{key}: overwrites the value of rule 'a' of NodeFeatureRule {rules.name}", **nodes}],
    ]
    assert found["problems"] == 2
    same = built({"name": "a", "matchFeatures": ALWAYS, **one}, {"name": "b", **more, **one})
    assert status(same, both)["problems"] == 0


def test_a_label_of_a_source_that_a_rule_replaces_is_told() -> None:
    rules = built({"name": "a", "matchFeatures": ALWAYS, "labels": {"cpu-a": "mine", "cpu-b": "same"}})
    for prefix in (F, ""):
        labels = {f"{prefix}cpu-a": "true", f"{prefix}cpu-b": "same", f"{prefix}cpu-c": "other"}
        (found,) = status(rules, HERE, labels=labels)["rules"]
        assert [one["message"] for one in found["problems"]] == ["label 'cpu-a': overwrites the value of source cpu"]


def test_what_is_overwritten_leaves_room_for_other_problems() -> None:
    many = {f"x{number}": "1" for number in range(2 * MOST_PROBLEMS)}
    rules = built(
        {"name": "a", "matchFeatures": ALWAYS, "labels": many},
        {"name": "b", "matchFeatures": ALWAYS, "labels": dict.fromkeys(many, "2"), "annotations": {"z": "@a.b.c"}},
    )
    (_, later) = status(rules, HERE)["rules"]
    assert len(later["problems"]) == MOST_PROBLEMS
    assert later["problems"][0]["message"] == "annotation 'z': reference '@a.b.c': no such attribute"


@pytest.mark.parametrize(
    ("gives", "policy"),
    [
        ({"labels": {"x": "no value!"}}, POLICY),
        ({"labels": {"x": "@not.one"}}, POLICY),
        ({"labels": {"kubernetes.io/x": "1"}}, POLICY),
        ({"annotations": {"x": "x" * 1025}}, POLICY),
        ({"extendedResources": {"v.io/x": "many"}}, POLICY),
        ({"taints": [{"key": "x", "effect": "NoExecute"}]}, POLICY),
        ({"taints": [{"key": "v.io/x", "effect": "NoExecute"}]}, Policy()),
        ({"labels": {"x": "1"}}, Policy(disable_labels=True)),
    ],
)
def test_what_no_node_would_get_is_not_lost(gives: dict[str, Any], policy: Policy) -> None:
    contribution = compile_object({"spec": {"rules": [{"name": "a", **gives}]}}, policy).rules[0].asked
    later = replace(
        contribution,
        labels=dict.fromkeys(contribution.labels, "2"),
        annotations=dict.fromkeys(contribution.annotations, "2"),
        extended_resources=dict.fromkeys(contribution.extended_resources, "2"),
        taints=tuple(one.model_copy(update={"value": "2"}) for one in contribution.taints),
    )
    assert find_overwrites(Report("n"), policy, (contribution, later)) == []
    assert (contribution == later) is False
