"""What a Node should carry: one function says it, for the master with its caches and for every command."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.cli.rule_results import Trial, try_rules
from nfd.cli.rules import eval_files
from nfd.features import Features, to_json
from nfd.labels import Naming, derive
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import RULE_ORIGIN, Desired
from nfd.master.node.outcome import NO_RULES, DesiredCache, Evaluated, Outcome, evaluate_node, evaluate_report
from nfd.master.rules.evaluation import Evaluation, Limits
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import FeatureObject, Joining, join_objects
from nfd.master.rules.ruleset import RuleSet, bind, compile_object, compile_objects
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.compile import compile_rule
from nfd.rules.parse import API_VERSION, parse_custom, parse_object
from nfd.rules.policy import Policy
from nfd.sources import custom
from nfd.store.base import Kind, Node
from tests.rules.clocks import FROZEN

Json = dict[str, Any]
F = "feature.node.kubernetes.io/"
POLICY = Policy(enable_taints=True)
OWN = "own"
NFD = Path(__file__).parents[2] / "nfd"
JOINING = Joining(POLICY, OWN)
thorough = settings(max_examples=300, deadline=None)

TERMS = [
    {"feature": "f.flag", "matchExpressions": {"a": {"op": "Exists"}}},
    {"feature": "F.Flag", "matchName": {"op": "InRegexp", "value": ["^[ab]$"]}},
    {"feature": "f.attr", "matchExpressions": {"n": {"op": "Gt", "value": ["1"]}}},
    {
        "feature": "f.attr",
        "matchExpressions": {"text": {"op": "In", "value": ["x"]}, "gone": {"op": "DoesNotExist"}},
    },
    {"feature": "f.inst", "matchExpressions": {"vendor": {"op": "In", "value": ["10de", "8086"]}}},
    {"feature": "rule.matched", "matchExpressions": {"x": {"op": "In", "value": ["1", "src"]}}},
    {"feature": "rule.matched", "matchExpressions": {"v": {"op": "Exists"}}},
    {"feature": "no.such"},
]
TEMPLATES = [
    "x={{ len .f.flag }}",
    "{{ range .f.inst }}v.io/{{ .vendor }}=1\n{{ end }}",
    "y={{ (index .f.attr 0).Value }}\nx=1",
    "{{ fail `no` }}",
    "{{ range .rule.matched }}z={{ .Value }}\n{{ end }}",
    "no key",
    "{{ broken",
]
REFERENCES = ["@f.attr.text", "@f.attr.n", "@f.attr.gone", "@rule.matched.x", "@rule.matched.v", "@f.attr"]
LABELS, VALUES = ["x", f"{F}x", "y", "v.io/x", "kubernetes.io/no", "a/b/c"], ["1", "2", "no value!", ""]


def pairs(keys: Sequence[str], values: Sequence[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(values), max_size=2)


terms = st.lists(st.sampled_from(TERMS), min_size=1, max_size=2)
taints = st.builds(
    lambda key, effect, value: {"key": key, "effect": effect, **({"value": value} if value else {})},
    st.sampled_from(["v.io/t", f"{F}t", "bare"]),
    st.sampled_from(["NoSchedule", "NoExecute", "Never"]),
    st.sampled_from(["", "1", "2"]),
)
common = {
    "labels": pairs(["x", "y", "v.io/x"], ["1", "2"]),
    "labelsTemplate": st.sampled_from(TEMPLATES),
    "vars": pairs(["v", "x"], ["1", "any text"]),
    "varsTemplate": st.sampled_from(TEMPLATES),
    "matchFeatures": terms,
    "matchAny": st.lists(st.fixed_dictionaries({"matchFeatures": terms}), min_size=1, max_size=2),
}
more = {
    "labels": pairs(LABELS, [*VALUES, *REFERENCES]),
    "annotations": pairs([*LABELS, "note"], [*VALUES, *REFERENCES, "@team"]),
    "extendedResources": pairs(["v.io/r", "x", "kubernetes.io/no"], ["1", "many", *REFERENCES]),
    "taints": st.lists(taints, max_size=2),
}
member = {name: common[name] for name in ("vars", "varsTemplate", "matchFeatures", "matchAny")}


def rules_of(parts: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Json]:
    """A rule with labels, and any of the other parts."""
    others = {name: part for name, part in parts.items() if name != "labels"}
    return st.fixed_dictionaries({"labels": parts["labels"]}, optional=others)


rule = rules_of({**common, **more})
custom_rule = rules_of(common)


def features_of(parts: tuple[list[str], dict[str, str], list[dict[str, str]]]) -> Features:
    flags, attributes, instances = parts
    return Features({"f.flag": frozenset(flags)}, {"f.attr": attributes}, {"f.inst": tuple(instances)})


features = st.tuples(
    st.lists(st.sampled_from("abc"), max_size=2),
    pairs(["n", "text", "gone"], ["2", "many", "x", "@f.attr.n"]),
    st.lists(st.fixed_dictionaries({}, optional={"vendor": st.sampled_from(["10de", "8086"])}), max_size=2),
).map(features_of)


def object_of(item: tuple[str, str, Mapping[str, str], Features]) -> FeatureObject:
    namespace, name, labels, found = item
    return FeatureObject(namespace, name, "n", labels, found)


objects = st.lists(
    st.tuples(st.sampled_from([OWN, "a", "z"]), st.sampled_from(["a", "n", "z"]), pairs(LABELS, VALUES), features).map(
        object_of
    ),
    max_size=3,
    unique_by=lambda one: (one.namespace, one.name),
)


@dataclass(frozen=True)
class Given:
    """What a node gets, and the rules that failed."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    resources: Mapping[str, str]
    taints: frozenset[tuple[str, str]]
    failed: tuple[str, ...]


def given_of(desired: Desired, failed: Sequence[str]) -> Given:
    taints = frozenset(desired.of(Kind.TAINTS).items())
    parts = (dict(desired.of(kind)) for kind in (Kind.LABELS, Kind.ANNOTATIONS, Kind.RESOURCES))
    return Given(*parts, taints, tuple(sorted(failed)))


def written(rules: Sequence[Sequence[Json]]) -> list[Json]:
    """Objects `a`, `b`, … with rules that are named after their places."""
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "NodeFeatureRule",
            "metadata": {"name": chr(ord("a") + index)},
            "spec": {"rules": [{"name": f"{index}.{place}", **one} for place, one in enumerate(listed)]},
        }
        for index, listed in enumerate(rules)
    ]


def by_eval(items: Sequence[Json], joined: Report) -> Given:
    spec = {"features": to_json(joined.features), "labels": dict(joined.labels)}
    found = eval_files([yaml.safe_dump_all(items)], yaml.safe_dump(spec))
    taints = frozenset((f"{one['key']}:{one['effect']}", one.get("value", "")) for one in found["taints"])
    failed = tuple(sorted(one["rule"] for one in found["errors"]))
    return Given(found["labels"], found["annotations"], found["extendedResources"], taints, failed)


def rules_of_objects(items: Sequence[Json]) -> RuleSet:
    """Whatever order they come in."""
    return bind((compile_object(item, POLICY) for item in reversed(items)), ())


def of(outcome: Outcome, rules: RuleSet, desired: Desired | None = None) -> Given:
    failed = [rule.name for rule, _ in outcome.failed(rules)]
    return given_of(outcome.derive_desired() if desired is None else desired, failed)


def cached(items: Sequence[Json], report: Report, found: Sequence[FeatureObject], before: Features) -> Given:
    """By the master, which remembers outcomes: another node has been evaluated `before`."""
    evaluator = Evaluator(JOINING, Metrics("test", 0.0), lambda: None, lambda: None, Slices(FROZEN), Limits(FROZEN))
    evaluator.bind([compile_object(item, POLICY) for item in items], ())
    derivations, outcomes = DesiredCache(), []
    for one, objects in ((replace(report, node="other", features=before), ()), (report, found)):
        node = Node.bare(one.node)
        outcomes.append(evaluate_node(node, one, evaluator.rule_set, objects, JOINING, evaluate=evaluator.evaluate))
        desired = derivations.derive(outcomes[-1])
    return of(outcomes[-1], evaluator.rule_set, desired)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("current", [True, False])
def test_absence_proves_nothing_before_all_rules_are_evaluated(*, complete: bool, current: bool) -> None:
    """Neither of a key of an existing rule, nor of one whose origin is unknown; a key of a deleted rule goes."""
    rules = rules_of_objects(written([[{"labels": {"v.io/a": "1"}, "matchFeatures": [{"feature": "no.such"}]}]]))
    report = Report("n")

    def evaluate(one: Report, _objects: Sequence[FeatureObject], _tentative: bool) -> Evaluated:
        return Evaluated(one, Evaluation(complete=complete), current)

    fresh = evaluate_node(Node.bare("n"), report, rules, (), JOINING, evaluate=evaluate).fresh
    (origin,) = rules.origins
    assert fresh.proves_absent(origin) is fresh.proves_absent(None) is (complete and current)
    assert fresh.proves_absent(f"{RULE_ORIGIN}gone/r")


def sections(trial: Trial) -> dict[str, tuple[list[str], set[str]]]:
    """By title the lines, and the keys that are refused."""
    found: dict[str, tuple[list[str], set[str]]] = {}
    for line in trial.lines:
        if line.startswith("***\t"):
            lines, refused = found.setdefault(line.strip("*\t"), ([], set()))
        elif "Validation errors" not in line and found:
            kind, quote, rest = line.partition(" '")
            if quote and kind in ("label", "annotation", "extendedResource", "taint"):
                refused.add(rest.partition("'")[0])
            else:
                lines.append(line)
    return found


@given(
    st.lists(st.lists(rule, max_size=3), min_size=1, max_size=3),
    features,
    pairs(LABELS, VALUES),
    objects,
    features,
)
@thorough
def test_caches_change_nothing(
    rules: list[list[Json]],
    reported: Features,
    labels: dict[str, str],
    found: list[FeatureObject],
    before: Features,
) -> None:
    items, report = written(rules), Report("n", labels=labels, features=reported)
    compiled = rules_of_objects(items)
    expected = of(evaluate_node(Node.bare("n"), report, compiled, found, JOINING), compiled)
    assert cached(items, report, found, before) == expected
    joined = join_objects(report, [one for one in found if not JOINING.is_workers(one)], JOINING)
    assert by_eval(items, joined) == expected


@given(st.lists(st.lists(rule, max_size=3), min_size=1, max_size=2), features)
@thorough
def test_a_trial_shows_what_a_node_gets(rules: list[list[Json]], reported: Features) -> None:
    items = written(rules)
    compiled = rules_of_objects(items)
    expected = of(evaluate_report(Report("n", features=reported), compiled, POLICY), compiled)
    shown = sections(try_rules(map(parse_object, items), reported, POLICY))
    for title, values in (
        ("Labels", expected.labels),
        ("Extended Resources", expected.resources),
        ("Annotations", expected.annotations),
    ):
        lines, refused = shown.get(title, ([], set()))
        pairs = (line.partition("=") for line in lines)
        assert {key: value for key, _, value in pairs if key not in refused} == dict(values), title


@given(st.lists(st.lists(st.fixed_dictionaries({}, optional=member), max_size=3), min_size=1, max_size=3), features)
@thorough
def test_groups_have_the_same_members(rules: list[list[Json]], reported: Features) -> None:
    items = [
        {**one, "kind": "NodeFeatureGroup", "spec": {"featureGroupRules": one["spec"]["rules"]}}
        for one in written(rules)
    ]
    groups = compile_objects(map(parse_object, items), POLICY).groups
    evaluator = Evaluator(JOINING, Metrics("test", 0.0), lambda: None, lambda: None, Slices(FROZEN), Limits(FROZEN))
    evaluator.bind((), groups)
    outcome = evaluator.evaluation_of("n", Report("n", features=reported), ()).evaluation
    found = eval_files([yaml.safe_dump_all(items)], yaml.safe_dump({"features": to_json(reported)}))
    assert found["groups"] == [name for _, name in outcome.groups]
    assert bool(found["errors"]) == bool(outcome.group_problems)


@given(st.lists(custom_rule, max_size=4), features)
@thorough
def test_the_workers_rules_give_what_a_masters_do(rules: list[Json], reported: Features) -> None:
    """Of what both may have: no references, no name spelled in two ways."""
    listed = [{"name": f"0.{place}", **one} for place, one in enumerate(rules)]
    compiled = tuple(map(compile_rule, parse_custom(listed)))
    made = custom.labels(reported, custom.Rules(compiled, lambda: datetime.fromtimestamp(0, UTC)))
    naming = Naming("custom", verbatim=True, namespaced=True, cleaned=False)
    labels = derive(naming, made.labels).labels
    given = of(evaluate_report(Report("n", labels=labels, features=reported), NO_RULES, POLICY), NO_RULES)
    as_objects = rules_of_objects(written([rules]))
    expected = of(evaluate_report(Report("n", features=reported), as_objects, POLICY), as_objects)
    assert given.labels == expected.labels
    assert bool(made.error) == bool(expected.failed)
    assert RULE_ORIGIN not in "".join(labels)


SEEN = Features(
    {"f.flag": frozenset("a")},
    {"f.attr": {"n": "2", "text": "x"}},
    {"f.inst": ({"vendor": "10de"}, {"vendor": "8086"})},
)
HOLDS: Json = {"matchFeatures": [TERMS[0]]}
TABLE: dict[str, tuple[list[Json], dict[str, str], Json]] = {
    # rules of one object, labels of the report, and what the node gets: labels, resources, taints, failed, refused
    "a name without a namespace": ([{"labels": {"x": "1"}, **HOLDS}], {}, {"labels": {F + "x": "1"}}),
    "a rule that does not hold": (
        [{"labels": {"x": "1"}, "matchFeatures": [TERMS[7]]}],
        {"y": "1"},
        {"labels": {F + "y": "1"}},
    ),
    "a later rule wins over an earlier one and the report": (
        [{"labels": {"x": "1"}}, {"labels": {F + "x": "2"}}],
        {"x": "src"},
        {"labels": {F + "x": "2"}},
    ),
    "a later rule sees what an earlier one gave": (
        [{"vars": {"x": "1"}}, {"labels": {"y": "1"}, "matchFeatures": [TERMS[5]]}],
        {},
        {"labels": {F + "y": "1"}},
    ),
    "and not what the report has": (
        [{"labels": {"y": "1"}, "matchFeatures": [TERMS[5]]}],
        {"x": "src"},
        {"labels": {F + "x": "src"}},
    ),
    "a template": (
        [{"labelsTemplate": TEMPLATES[1], "matchFeatures": [TERMS[4]]}],
        {},
        {"labels": {"v.io/10de": "1", "v.io/8086": "1"}},
    ),
    "a template that fails spoils its rule alone": (
        [{"labels": {"x": "1"}, "labelsTemplate": TEMPLATES[3], **HOLDS}, {"labels": {"y": "1"}}],
        {},
        {"labels": {F + "y": "1"}, "failed": ["0"]},
    ),
    "so does one that cannot be read": (
        [{"labels": {"x": "1"}, "labelsTemplate": TEMPLATES[6], **HOLDS}, {"labels": {"y": "1"}}],
        {},
        {"labels": {F + "y": "1"}, "failed": ["0"]},
    ),
    "references": (
        [{"labels": {"x": "@f.attr.n", "y": "@f.attr.gone"}, "extendedResources": {"v.io/r": "@f.attr.n"}}],
        {},
        {"labels": {F + "x": "2"}, "resources": {"v.io/r": "2"}, "refused": [("label", F + "y")]},
    ),
    "a namespace that is not ours": (
        [{"labels": {"kubernetes.io/no": "1"}, "extendedResources": {"v.io/r": "many"}}],
        {"a/b/c": "1"},
        {"refused": [("extendedResource", "v.io/r"), ("label", "a/b/c"), ("label", "kubernetes.io/no")]},
    ),
    "a taint": (
        [{"taints": [{"key": "v.io/t", "effect": "NoSchedule", "value": "1"}, {"key": "bare", "effect": "Never"}]}],
        {},
        {"taints": {"v.io/t:NoSchedule": "1"}, "refused": [("taint", "bare")]},
    ),
}


@pytest.mark.parametrize(("rules", "labels", "expected"), TABLE.values(), ids=TABLE)
def test_table(rules: list[Json], labels: dict[str, str], expected: Json) -> None:
    item = {"metadata": {"name": "o"}, "spec": {"rules": [{"name": str(at), **one} for at, one in enumerate(rules)]}}
    report, rule_set = Report("n", labels=labels, features=SEEN), bind([compile_object(item, POLICY)], ())
    outcome = evaluate_report(report, rule_set, POLICY)
    desired = outcome.derive_desired()
    assert {
        "labels": desired.of(Kind.LABELS),
        "resources": desired.of(Kind.RESOURCES),
        "taints": desired.of(Kind.TAINTS),
        "failed": [rule.name for rule, _ in outcome.failed(rule_set)],
        "refused": sorted((one.kind, one.key) for one in desired.dropped),
    } == {"labels": {}, "resources": {}, "taints": {}, "failed": [], "refused": [], **expected}


CALLERS = {
    "derive_desired": {"master/node/outcome.py"},
    "evaluation_steps": {"master/node/outcome.py", "master/rules/evaluator.py"},
    "run_rule": {"rules/evaluate.py", "master/rules/evaluation.py"},
    "run_custom": {"sources/custom.py", "cli/compat.py"},
    "join_objects": {"master/node/outcome.py", "master/rules/evaluator.py"},
    "speak_alone": {"master/node/outcome.py"},
    "report_of": {"master/node/outcome.py"},
    "allow_sources": {"master/node/desired.py"},
    "split_resource_labels": {"master/node/desired.py"},
}
"""What an outcome is made of, and the only files that call it; a method of the name is no such call."""


def test_whoever_says_what_a_node_gets_calls_the_one_function() -> None:
    calls: dict[str, set[str]] = {name: set() for name in CALLERS}
    for path in sorted(NFD.rglob("*.py")):
        for one in ast.walk(ast.parse(path.read_text())):
            if not isinstance(one, ast.Call):
                continue
            name = one.func.id if isinstance(one.func, ast.Name) else None
            if isinstance(one.func, ast.Attribute) and ast.unparse(one.func.value) == "policies":
                name = one.func.attr
            if name in calls:
                calls[name].add(str(path.relative_to(NFD)))
    assert calls == CALLERS
