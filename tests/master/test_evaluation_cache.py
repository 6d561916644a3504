"""Nodes that share features are judged once, and as if each were judged by itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.rules.evaluation import Limits
from nfd.master.rules.evaluator import KNOWN, EvaluationCache, Evaluator, selected_features
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import compile_object, compile_objects
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.parse import parse_object
from nfd.rules.policy import Policy
from tests.master.custom_resources import evaluate
from tests.rules.clocks import FROZEN

STILL = Slices(FROZEN), Limits(FROZEN)

POLICY = Policy()
API = "nfd.k8s-sigs.io/v1alpha1"
FLAGS = [frozenset({"A"}), frozenset({"A", "B"})]
VERSIONS = [{"major": "5"}, {"major": "6"}, {}]
DEVICES: list[tuple[dict[str, str], ...]] = [(), ({"vendor": "10de", "device": "1"},)]
SEEDS: list[dict[str, str]] = [{}, {"seed": "x"}]


def rule(name: str, feature: str, key: str, **given: Any) -> dict[str, Any]:
    term = {"feature": feature, "matchExpressions": {key: {"op": "Exists"}}}
    return {"name": name, "matchFeatures": [term], **given}


RULES = [
    rule("flag", "cpu.cpuid", "B", labels={"b": "true"}, vars={"b": "1"}),
    rule("device", "pci.device", "vendor", labelsTemplate="{{ range .pci.device }}pci-{{ .device }}=1\n{{ end }}"),
    rule("after", "rule.matched", "b", labels={"after": "true"}),
    rule("seed", "rule.matched", "seed", labels={"seeded": "true"}),
    rule("wrong", "kernel.version", "major", labelsTemplate="{{ range .kernel.version }}no pair{{ end }}"),
]
TIMED = rule("timed", "cpu.cpuid", "A", labelsTemplate='{{ range .cpu.cpuid }}year={{ now | date "2006" }}{{ end }}')


def built(*rules: dict[str, Any]) -> Any:
    return compile_object({"metadata": {"name": "built"}, "spec": {"rules": list(rules)}}, POLICY)


def nodes() -> list[Report]:
    """All combinations, twice, each node with a name of its own."""
    found = []
    for number, (flags, version, devices, seed) in enumerate([*product(FLAGS, VERSIONS, DEVICES, SEEDS)] * 2):
        attributes = {"kernel.version": version, "system.name": {"nodename": f"n{number}"}}
        features = Features({"cpu.cpuid": flags}, {**attributes, **({"rule.matched": seed} if seed else {})}, {})
        found.append(
            Report(f"n{number}", features=Features(features.flags, features.attributes, {"pci.device": devices}))
        )
    return found


def judged(*rules: dict[str, Any]) -> Evaluator:
    """Every node judged by rules and a group, and compared with what it gets by itself."""
    group = parse_object({"apiVersion": API, "kind": "NodeFeatureGroup", "metadata": {"name": "g", "namespace": "ns"},
                          "spec": {"featureGroupRules": [rule("in", "pci.device", "vendor")]}})  # fmt: skip
    evaluator = Evaluator(
        Joining(POLICY), Metrics("test", 0.0), lambda: None, lambda: None, Slices(FROZEN), Limits(FROZEN)
    )
    evaluator.bind([built(*rules)], compile_objects([group], POLICY).groups)
    for report in nodes():
        found = evaluator.evaluation_of(report.node, report, ()).evaluation
        alone = evaluate(evaluator.rule_set.rules, report.features, POLICY)
        assert found.same_outcome(alone)
        assert (found.matching, found.problems, found.errors) == (alone.matching, alone.problems, alone.errors)
        assert found.groups == ((("ns", "g"),) if report.features.instances["pci.device"] else ())
    return evaluator


def test_shared_features_are_judged_alike() -> None:
    evaluator = judged(*RULES)
    found = [state for name in evaluator.names() if (state := evaluator.get(name))]
    assert len({id(one.evaluation) for one in found}) < len(found)
    assert evaluator.rule_set.repeatable


@pytest.mark.parametrize("kind", ["labels", "annotations", "extendedResources"])
def test_references_to_the_node_itself_are_not_shared(kind: str) -> None:
    judged(rule("looks-up", "cpu.cpuid", "A", **{kind: {"v.io/name": "@system.name.nodename"}}), *RULES)


def test_what_asks_for_the_time_is_not_remembered() -> None:
    assert not judged(TIMED).rule_set.repeatable


def test_equal_contents_that_are_not_the_same_are_told_apart() -> None:
    """Identity is a shortcut, and a different value is never taken for a known one once that is gone."""
    latest: EvaluationCache[int] = EvaluationCache()
    for number in range(3 * KNOWN):
        seen = selected_features(Features(attributes={"kernel.version": {"major": str(number)}}), ("kernel.version",))
        assert latest.get(seen) is None
        latest.put(seen, number)
        assert latest.get(seen) == number
    assert len(latest._known) <= KNOWN


def test_what_many_nodes_share_stays_however_many_others_come() -> None:
    latest: EvaluationCache[int] = EvaluationCache()
    contents = [Features(attributes={"kernel.version": {"major": str(number)}}) for number in range(3 * KNOWN)]
    common, *others = (selected_features(one, ("kernel.version",)) for one in contents)
    latest.put(common, 0)
    for number, seen in enumerate(others, 1):
        latest.put(seen, number)
        assert latest.get(common) == 0
