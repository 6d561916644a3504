"""Whoever runs rules gets the same of them: the master, its memory, the forecast, the commands, the worker's source.

Each of them has code of its own, since it tells something else; what a node gets must not differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.cli.rulecheck import ask_rules
from nfd.cli.trial import Trial, try_rules
from nfd.features import Features, to_json
from nfd.labels import Naming, derive
from nfd.master.alike import Derivations
from nfd.master.desired import RULE, Desired, derive_desired
from nfd.master.evaluation import Limits
from nfd.master.forecast import Situation, forecast
from nfd.master.metrics import Metrics
from nfd.master.objects import FeatureObject, Joining, join_objects
from nfd.master.reveal import Standing
from nfd.master.rulebook import compile_sheet
from nfd.master.turns import Turns
from nfd.master.verdicts import Verdicts, bind
from nfd.report import Report
from nfd.rules.compiled import compile_rule, compile_rules
from nfd.rules.parse import API_VERSION, parse_custom, parse_object
from nfd.rules.policy import Policy
from nfd.rules.report import eval_files
from nfd.sources import custom
from nfd.store.base import Kind, Node
from tests.rules.clocks import FROZEN

Json = dict[str, Any]
F = "feature.node.kubernetes.io/"
POLICY = Policy(enable_taints=True)
OWN = "own"
STANDING = Standing(POLICY, namespace=OWN)
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


def by_forecast(items: Sequence[Json], report: Report, found: Sequence[FeatureObject]) -> Given:
    book = bind((compile_sheet(item, POLICY) for item in reversed(items)), ())
    foreseen = forecast(Situation(Node("n", "", "", "", {}, {}, {}, ()), report, found), book, STANDING, Limits(FROZEN))
    return given_of(foreseen.desired, [origin.rpartition("/")[2] for origin in foreseen.failed])


def by_the_master(
    items: Sequence[Json], report: Report, found: Sequence[FeatureObject], before: Features | None = None
) -> Given:
    """Its memory of nodes, and of nodes alike, included: another node has been judged `before`."""
    verdicts = Verdicts(
        Joining(POLICY, OWN), Metrics("test", 0.0), lambda: None, lambda: None, Turns(FROZEN), Limits(FROZEN)
    )
    verdicts.bind([compile_sheet(item, POLICY) for item in items], ())
    joining = Joining(POLICY, OWN)
    others = tuple(one for one in found if not joining.is_workers(one))
    derivations = Derivations(POLICY)
    if before is not None:
        other = verdicts.judge("other", replace(report, node="other", features=before), ())
        derivations.derive(other.joined, other.evaluation.contributions, other.evaluation.matched)
    verdict = verdicts.judge("n", report, others)
    outcome = verdict.evaluation
    failed = [verdicts.book.rules[at].name for at in outcome.problems.keys() - {*outcome.held}]
    return given_of(derivations.derive(verdict.joined, outcome.contributions, outcome.matched), failed)


def by_eval(items: Sequence[Json], joined: Report) -> Given:
    spec = {"features": to_json(joined.features), "labels": dict(joined.labels)}
    found = eval_files([yaml.safe_dump_all(items)], yaml.safe_dump(spec))
    taints = frozenset((f"{one['key']}:{one['effect']}", one.get("value", "")) for one in found["taints"])
    failed = tuple(sorted(one["rule"] for one in found["errors"]))
    return Given(found["labels"], found["annotations"], found["extendedResources"], taints, failed)


def by_explain(items: Sequence[Json], joined: Report) -> Given:
    rules = compile_rules(map(parse_object, items))
    asked = ask_rules(rules, joined.features, POLICY)
    return given_of(derive_desired(joined, POLICY, asked.contributions, asked.matched), ())


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
def test_all_give_the_same(
    rules: list[list[Json]],
    reported: Features,
    labels: dict[str, str],
    found: list[FeatureObject],
    before: Features,
) -> None:
    items, report = written(rules), Report("n", labels=labels, features=reported)
    joining = Joining(POLICY, OWN)
    joined = join_objects(report, [one for one in found if not joining.is_workers(one)], joining)
    expected = by_the_master(items, report, found, before)
    assert by_forecast(items, report, found) == expected
    assert by_eval(items, joined) == expected
    explained = by_explain(items, joined)
    assert explained == Given(expected.labels, expected.annotations, expected.resources, expected.taints, ())


@given(st.lists(st.lists(rule, max_size=3), min_size=1, max_size=2), features)
@thorough
def test_what_is_tried_is_what_the_master_gives(rules: list[list[Json]], reported: Features) -> None:
    items = written(rules)
    expected = by_the_master(items, Report("n", features=reported), ())
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
    groups = compile_rules(map(parse_object, items)).groups
    verdicts = Verdicts(
        Joining(POLICY, OWN), Metrics("test", 0.0), lambda: None, lambda: None, Turns(FROZEN), Limits(FROZEN)
    )
    verdicts.bind((), groups)
    outcome = verdicts.judge("n", Report("n", features=reported), ()).evaluation
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
    given = given_of(derive_desired(Report("n", labels=labels, features=reported), POLICY), ())
    expected = by_the_master(written([rules]), Report("n", features=reported), ())
    assert given.labels == expected.labels
    assert bool(made.error) == bool(expected.failed)
    assert RULE not in "".join(labels)
