"""The status of NodeFeatureRules and NodeFeatureGroups: the problems of rules and what they did (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.master.node.desired import find_overwrites, name_origin
from nfd.master.rules.evaluation import DEFAULT, Evaluation
from nfd.master.rules.ruleset import CompiledObject, GroupKey, PlacedRule, Steps
from nfd.message_text import did_you_mean
from nfd.report import Report
from nfd.rules.known_features import KNOWN
from nfd.rules.match_features import MATCHED
from nfd.rules.output_keys import Overwrite
from nfd.rules.policy import Policy

SAMPLE = 10
"""The most node names that are listed as examples."""
MOST_RULES = 500
MOST_PROBLEMS = 10
MOST_ADVICES = 50
"""The most unknown features, in all objects together, for which the nearest known name is looked up."""
LONGEST_FEATURE = 64
LONGEST_MESSAGE = 500
MOST_MEMBERS = 1000
"""The most nodes in the status of a group."""

STATUS: Mapping[str, Any] = {"rules": {"[]": {"name": {}, "problems": {"[]": {"message": {}}}}}}
"""The fields of a NodeFeatureRule's status that report problems, as a Shape of `definitions`."""


@dataclass(slots=True)
class _Count:
    """The number of nodes, and some of their names."""

    nodes: int = 0
    sample: list[str] = field(default_factory=list)

    def add(self, node: str) -> None:
        self.nodes += 1
        if len(self.sample) < SAMPLE:
            self.sample.append(node)


@dataclass(slots=True)
class Membership:
    """The nodes of one NodeFeatureGroup, those whose membership is unknown, and why."""

    nodes: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    problems: dict[str, _Count] = field(default_factory=dict)


class Tally:
    """The results of rules and groups on all nodes; nodes are added in the order of their names."""

    def __init__(self, rules: Sequence[PlacedRule], policy: Policy) -> None:
        self.nodes = 0
        self.unevaluated = 0
        """Nodes without a report that applies."""
        self.known: set[str] = set()
        self._names: dict[str, str] | None = None
        self._reported: set[str] = set()
        self._advices: dict[str, str] = {}
        self._policy = policy
        self._places = {rule.origin: index for index, rule in enumerate(rules)}
        self._held = [_Count() for _ in rules]
        self._problems: list[dict[str, _Count]] = [{} for _ in rules]
        self._lost: list[dict[str, _Count]] = [{} for _ in rules]
        """Overwrites of each rule, in both directions; other problems come first."""
        self._overwrites: dict[tuple[int, ...], tuple[tuple[object, ...], list[Overwrite]]] = {}
        self._groups: dict[GroupKey, Membership] = {}

    def add(self, node: str, evaluation: Evaluation, joined: Report) -> None:
        """`joined` is the report that was evaluated."""
        self.nodes += 1
        self.known |= joined.features.names()
        for index in evaluation.matching:
            self._held[index].add(node)
        for index, texts in evaluation.problems.items():
            _note(self._problems[index], texts, node)
        for group in evaluation.groups:
            self.group(group).nodes.add(node)
        for group, texts in evaluation.group_problems.items():
            self.group(group).unsure.add(node)
            _note(self.group(group).problems, texts, node)
        for one in self._find_overwrites(evaluation, joined):
            key = f"{one.kind} {one.key.removeprefix(DEFAULT)!r}"
            self._record_overwrite(
                one.earlier, f"{key}: {name_origin(one.later)} overwrites the value of this rule", node
            )
            self._record_overwrite(one.later, f"{key}: overwrites the value of {name_origin(one.earlier)}", node)

    def _record_overwrite(self, origin: str, text: str, node: str) -> None:
        """Record it for that rule, if the origin is one."""
        index = self._places.get(origin)
        if index is not None:
            _note(self._lost[index], (text,), node)

    def _find_overwrites(self, evaluation: Evaluation, joined: Report) -> list[Overwrite]:
        """The overwrites, cached for nodes with the same labels and contributions: their identity is the key while they
        are alive."""
        made_of = (evaluation.contributions, joined.labels, joined.origins)
        key = tuple(map(id, made_of))
        if key not in self._overwrites:
            self._overwrites[key] = made_of, find_overwrites(joined, self._policy, evaluation.contributions)
        return self._overwrites[key][1]

    def group(self, key: GroupKey) -> Membership:
        return self._groups.setdefault(key, Membership())

    def unknown(self, rule: PlacedRule) -> list[str]:
        """Features that no node reports, each with the nearest known name."""
        if self._names is None:
            self._names = {name.lower(): name for name in (*KNOWN, *self.known)}
            self._reported = {name.lower() for name in self.known} | {MATCHED}
        return [
            f"feature {feature[:LONGEST_FEATURE]}: no node reports it{self._advice(feature, self._names)}"
            for feature in rule.features[:MOST_PROBLEMS]
            if feature not in self._reported and (self.nodes or feature not in self._names)
        ]

    def _advice(self, feature: str, names: Mapping[str, str]) -> str:
        """Advice for the first few only: each takes milliseconds."""
        if feature in names or len(feature) > LONGEST_FEATURE:
            return ""
        if feature not in self._advices:
            if len(self._advices) == MOST_ADVICES:
                return ""
            near = (name for name in names.values() if len(name) <= LONGEST_FEATURE)
            self._advices[feature] = did_you_mean(feature, near)
        return self._advices[feature]

    def matching(self, index: int) -> _Count:
        return self._held[index]

    def problems(self, index: int) -> Mapping[str, _Count]:
        return {**self._problems[index], **self._lost[index]}


def _note(found: dict[str, _Count], texts: Iterable[str], node: str) -> None:
    for text in texts:
        if text in found or len(found) < MOST_PROBLEMS:
            found.setdefault(text, _Count()).add(node)


def render_steps(compiled: CompiledObject, first: int, tally: Tally, now: str) -> Steps[dict[str, Any]]:
    """The status of one object; `first` is the index of its first rule among all, `now` a time as in RFC 3339.

    It is made a rule at a time, since the search for similar names takes long.
    """
    rules: list[dict[str, Any]] = []
    problems = len(compiled.mistakes)
    if compiled.mistakes:
        rules.append({"name": "", "matched": 0, "problems": _texts(compiled.mistakes)})
    for index, rule in enumerate(compiled.rules, first):
        rendered = _render_rule(rule, index, tally, tally.unknown(rule))
        problems += len(rendered.get("problems", ()))
        if len(rules) < MOST_RULES:
            rules.append(rendered)
        yield
    return {
        "observedGeneration": compiled.generation,
        "evaluated": now,
        "nodes": tally.nodes,
        "unknown": tally.unevaluated,
        "problems": problems,
        "rules": rules,
    }


def same_status(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether they are equal apart from the time. Without `unknown`, as of an earlier release, it is 0."""
    return {"unknown": 0, **one, "evaluated": ""} == {"unknown": 0, **other, "evaluated": ""}


def _render_rule(rule: PlacedRule, place: int, tally: Tally, unknown: Iterable[str]) -> dict[str, Any]:
    matching = tally.matching(place)
    rendered: dict[str, Any] = {"name": rule.name, "matched": matching.nodes}
    if matching.sample:
        rendered["sample"] = matching.sample
    problems = _texts((*rule.mistakes, *unknown))
    problems += _counted({text: one for text, one in tally.problems(place).items() if text not in rule.mistakes})
    return rendered | ({"problems": problems[:MOST_PROBLEMS]} if problems else {})


def _counted(problems: Mapping[str, _Count]) -> list[dict[str, Any]]:
    """Problems that occur on some nodes only."""
    return [
        {"message": text[:LONGEST_MESSAGE], "nodes": count.nodes, "sample": count.sample}
        for text, count in problems.items()
    ]


def _texts(messages: Iterable[str]) -> list[dict[str, Any]]:
    return [{"message": text[:LONGEST_MESSAGE]} for text in messages]


def render_group(members: Collection[str], group: Membership | None = None) -> dict[str, Any]:
    """The status of a NodeFeatureGroup; of `group` only the problems are shown."""
    listed = sorted(members)[:MOST_MEMBERS]
    problems = _counted(group.problems) if group is not None else []
    return ({"problems": problems} if problems else {}) | {
        "nodes": [{"name": name} for name in listed],
        "count": len(members),
        "truncated": len(listed) < len(members),
    }


def listed_nodes(status: Mapping[str, Any]) -> frozenset[str]:
    """The nodes that are listed in the status of a group."""
    return frozenset(one.get("name", "") for one in status.get("nodes") or ())
