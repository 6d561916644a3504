"""Rules of a cluster made ready: NodeFeatureRules compiled once, evaluated over the features of one node (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nfd.errors import RuleError, reason_of
from nfd.features import Features
from nfd.master.desired import RULE, Contribution
from nfd.names import API_VERSION, FEATURE_NS
from nfd.rules import policy as policies
from nfd.rules.check import check_rule
from nfd.rules.compiled import CompiledRule, compile_rule
from nfd.rules.engine import Given, run_rule
from nfd.rules.model import ParsedRule, Rule, RuleObject
from nfd.rules.parse import RULE as RULE_KIND
from nfd.rules.parse import parse_object
from nfd.rules.policy import Policy
from nfd.rules.template import Template, TemplateError
from nfd.rules.template.budget import TOO_LONG
from nfd.rules.terms import MATCHED, View

NO_TAINTS = "taints are switched off in the master: start it with -enable-taints, or set enableTaints"
MOST_SLOW = 4
"""Templates that may run out of their budget on one node before the rest of the rules is left out."""

ROOM = 128 * 1024
"""Letters of labels and annotations that all rules may ask of a node; the annotations of a Node may have 256 KiB."""
LONGEST_NAME = 100
"""Letters of a rule's name that are noted on nodes."""

Problems = tuple[str, ...]
GroupKey = tuple[str, str]
"""Namespace and name of a NodeFeatureGroup."""
DEFAULT = f"{FEATURE_NS}/"


@dataclass(frozen=True, slots=True)
class PlacedRule:
    """One rule and where it stands. `asked` is what it asks for, apart from what its template makes.

    `fixed` tells that all of it is known in advance; then `mistakes` covers it, and nodes need no checks of their own.
    """

    name: str
    rule: CompiledRule
    asked: Contribution
    fixed: bool
    mistakes: Problems = ()
    features: tuple[str, ...] = ()
    """Names of the features that its terms look at, as they are looked up."""
    timed: bool = False
    """Whether its templates may ask for the present moment."""
    dependent: bool = False
    """Whether what it gives depends on what earlier rules gave."""

    @property
    def origin(self) -> str:
        return self.asked.origin


@dataclass(frozen=True, slots=True)
class Sheet:
    """One NodeFeatureRule object."""

    name: str
    uid: str
    generation: int
    rules: tuple[PlacedRule, ...] = ()
    mistakes: Problems = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rules make of one node.

    `contributions` are the rules that hold, in order, and `held` their places; `problems` come up on this node alone.
    `slow` are rules whose template ran out of its budget; after a few of them the rest is left out, and it is not
    `complete`.
    """

    contributions: tuple[Contribution, ...] = ()
    held: tuple[int, ...] = ()
    problems: Mapping[int, Problems] = field(default_factory=dict)
    errors: int = 0
    matched: Mapping[str, str] = field(default_factory=dict)
    """What `rule.matched` holds in the end, for references to it."""
    unsure: frozenset[str] = frozenset()
    """Origins of rules that failed, and of those that depend on what one of them gives: what they gave before stays."""
    groups: tuple[GroupKey, ...] = ()
    """The NodeFeatureGroups that it belongs to."""
    group_problems: Mapping[GroupKey, Problems] = field(default_factory=dict)
    """Why it cannot be told whether it belongs to others."""
    slow: tuple[int, ...] = ()
    complete: bool = True

    def same_outcome(self, other: Evaluation) -> bool:
        """Whether both ask the same of the node."""
        mine, others = ((one.contributions, one.matched, one.complete, one.unsure) for one in (self, other))
        return mine == others


def compile_sheet(item: Mapping[str, Any], policy: Policy) -> Sheet:
    """A NodeFeatureRule as JSON gives it; whatever is wrong with it is in the result."""
    metadata = item.get("metadata") or {}
    parsed = parse_object({"apiVersion": API_VERSION, "kind": RULE_KIND, **item})
    return Sheet(
        parsed.name,
        str(metadata.get("uid", "")),
        int(metadata.get("generation") or 0),
        tuple(place_rule(parsed, one, policy) for one in parsed.rules),
        tuple(mistake.reason for mistake in parsed.mistakes),
    )


def place_rule(parsed: RuleObject, one: ParsedRule, policy: Policy) -> PlacedRule:
    """The rule at its place; whatever goes wrong is a mistake of this rule."""
    origin = f"{RULE}{parsed.name}/{_noted_name(one.name)}"
    try:
        return _placed(origin, one, policy)
    except Exception as error:
        defect = f"cannot be compiled: {reason_of(error)}"
        return PlacedRule(one.name, CompiledRule(one.name, defect=defect), Contribution(origin), True, (defect,))


def _placed(origin: str, one: ParsedRule, policy: Policy) -> PlacedRule:
    compiled = compile_rule(one)
    if not isinstance(one.rule, Rule):
        return PlacedRule(one.name, compiled, Contribution(origin), True, (compiled.defect or "not a rule",))
    asked = _asked(origin, compiled, compiled.labels, policy)
    fixed = compiled.labels_template is None and not asked.refers
    mistakes = [mistake.reason for mistake in one.mistakes]
    mistakes += [mistake.reason for mistake in check_rule(one.rule, policy=replace(policy, enable_taints=True))]
    if compiled.taints and not policy.enable_taints:
        mistakes.append(NO_TAINTS)
    timed = any(map(_wants_time, (compiled.labels_template, compiled.vars_template)))
    features = looked_at(compiled)
    dependent = MATCHED in features or _refers_to_matched(asked)
    return PlacedRule(one.name, compiled, asked, fixed, tuple(dict.fromkeys(mistakes)), features, timed, dependent)


def _refers_to_matched(asked: Contribution) -> bool:
    texts = (asked.labels, asked.annotations, asked.extended_resources)
    return any(value.startswith(f"@{MATCHED}.") for values in texts for value in values.values())


def _noted_name(name: str) -> str:
    """A name that is very long is told apart by a digest."""
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.blake2b(name.encode(errors="replace"), digest_size=8).hexdigest()
    return f"{name[: LONGEST_NAME - 17]}~{digest}"


def _wants_time(template: Template | None) -> bool:
    """One that cannot be read counts as such."""
    try:
        return template is not None and template.wants_time() is not None
    except TemplateError:
        return True


def looked_at(rule: CompiledRule) -> tuple[str, ...]:
    """The features of its terms."""
    lists = (rule.match_features, *rule.match_any)
    return tuple(dict.fromkeys(term.key for terms in lists for term in terms))


def _asked(origin: str, rule: CompiledRule, labels: Mapping[str, str], policy: Policy) -> Contribution:
    return Contribution(
        origin,
        policies.prefix_keys(labels, policy),
        policies.prefix_keys(rule.annotations, policy),
        policies.prefix_keys(rule.extended_resources, policy),
        rule.taints,
    )


def _refused(asked: Contribution, view: View, policy: Policy) -> list[str]:
    """What of it the policy does not let a node have, as text."""
    dropped = [
        *policies.allow_labels(asked.labels, view.attribute, policy).dropped,
        *policies.allow_annotations(asked.annotations, view.attribute, policy).dropped,
        *policies.allow_extended_resources(asked.extended_resources, view.attribute, policy).dropped,
        *policies.allow_taints(asked.taints, policy)[1],
    ]
    return [f"{one.kind} {one.key.removeprefix(DEFAULT)!r}: {one.reason}" for one in dropped]


def evaluate_node(rules: Sequence[PlacedRule], features: Features, policy: Policy) -> Evaluation:
    """Run the rules in order; one that fails gives nothing, and the others go on."""
    run = _Run(View(features), policy)
    for index, placed in enumerate(rules):
        if len(run.slow) == MOST_SLOW:
            run.unsure.update(one.origin for one in rules[index:])
            break
        run.take(index, placed)
    for index, asked in zip(run.held, run.contributions, strict=True):
        run.check(index, rules[index], asked)
    return Evaluation(
        tuple(filter(_asks_something, run.contributions)),
        tuple(run.held),
        run.problems,
        run.errors,
        run.view.matched or {},
        frozenset(run.unsure),
        slow=tuple(run.slow),
        complete=len(run.slow) < MOST_SLOW,
    )


@dataclass(slots=True)
class _Run:
    """The rules over one node, as far as they have got."""

    view: View
    policy: Policy
    room: int = ROOM
    held: list[int] = field(default_factory=list)
    contributions: list[Contribution] = field(default_factory=list)
    problems: dict[int, Problems] = field(default_factory=dict)
    errors: int = 0
    slow: list[int] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)

    def take(self, index: int, placed: PlacedRule) -> None:
        """Run the next rule; whatever goes wrong is its own problem."""
        if placed.dependent and self.unsure:
            self.unsure.add(placed.origin)
        try:
            self._run(index, placed)
        except Exception as error:
            self.problems[index] = (reason_of(error),)
            self.errors += 1
            self.unsure.add(placed.origin)
            if placed.rule.defect is None and TOO_LONG in str(error):
                self.slow.append(index)

    def _run(self, index: int, placed: PlacedRule) -> None:
        given = run_rule(placed.rule, self.view)
        self.view.remember(() if given is None else (given.labels, given.vars))
        if given is None:
            return
        asked = _contribution(placed, given, self.policy)
        size = _size(asked)
        if size > self.room:
            raise RuleError(f"asks for {size} letters of labels and annotations; there is room for {self.room}")
        self.room -= size
        self.held.append(index)
        self.contributions.append(asked)

    def check(self, index: int, placed: PlacedRule, asked: Contribution) -> None:
        """What of a rule that holds the node does not get, now that all rules have run."""
        try:
            refused = () if placed.fixed else tuple(_refused(asked, self.view, self.policy))
        except Exception as error:
            refused = (reason_of(error),)
            self.unsure.add(placed.origin)
        if refused:
            self.problems[index] = refused


def _size(asked: Contribution) -> int:
    return sum(len(key) + len(value) for pairs in (asked.labels, asked.annotations) for key, value in pairs.items())


def _asks_something(one: Contribution) -> bool:
    return bool(one.labels or one.annotations or one.extended_resources or one.taints)


def _contribution(placed: PlacedRule, given: Given, policy: Policy) -> Contribution:
    if placed.rule.labels_template is None:
        return placed.asked
    return replace(placed.asked, labels=policies.prefix_keys(given.labels, policy))
