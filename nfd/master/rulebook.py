"""Rules of a cluster made ready: NodeFeatureRules compiled once, evaluated over the features of one node (pure)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nfd.errors import RuleError
from nfd.features import Features
from nfd.master.desired import RULE, Contribution
from nfd.names import FEATURE_NS
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
from nfd.rules.terms import View

NO_TAINTS = "taints are switched off in the master: start it with -enable-taints, or set enableTaints"
MOST_SLOW = 4
"""Templates that may run out of their budget on one node before the rest of the rules is left out."""

ROOM = 128 * 1024
"""Letters of labels and annotations that all rules may ask of a node; the annotations of a Node may have 256 KiB."""
LONGEST_NAME = 100
"""Letters of a rule's name that are noted on nodes."""

Problems = tuple[str, ...]
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
    groups: tuple[tuple[str, str], ...] = ()
    """Namespace and name of each NodeFeatureGroup that it belongs to."""
    slow: tuple[int, ...] = ()
    complete: bool = True

    def same_outcome(self, other: Evaluation) -> bool:
        """Whether both ask the same of the node."""
        mine, others = ((one.contributions, one.matched, one.complete) for one in (self, other))
        return mine == others


def compile_sheet(item: Mapping[str, Any], policy: Policy) -> Sheet:
    """A NodeFeatureRule as JSON gives it; whatever is wrong with it is in the result."""
    metadata = item.get("metadata") or {}
    parsed = parse_object({"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": RULE_KIND, **item})
    return Sheet(
        parsed.name,
        str(metadata.get("uid", "")),
        int(metadata.get("generation") or 0),
        tuple(_place(parsed, one, policy) for one in parsed.rules),
        tuple(mistake.reason for mistake in parsed.mistakes),
    )


def _place(parsed: RuleObject, one: ParsedRule, policy: Policy) -> PlacedRule:
    compiled = compile_rule(one)
    origin = f"{RULE}{parsed.name}/{_noted_name(one.name)}"
    if not isinstance(one.rule, Rule):
        return PlacedRule(one.name, compiled, Contribution(origin), True, (compiled.defect or "not a rule",))
    asked = _asked(origin, compiled, compiled.labels, policy)
    fixed = compiled.labels_template is None and not asked.refers
    mistakes = [mistake.reason for mistake in one.mistakes]
    mistakes += [mistake.reason for mistake in check_rule(one.rule, policy=replace(policy, enable_taints=True))]
    if compiled.taints and not policy.enable_taints:
        mistakes.append(NO_TAINTS)
    timed = any(map(_wants_time, (compiled.labels_template, compiled.vars_template)))
    return PlacedRule(one.name, compiled, asked, fixed, tuple(dict.fromkeys(mistakes)), looked_at(compiled), timed)


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
    view = View(features)
    held: list[int] = []
    contributions: list[Contribution] = []
    problems: dict[int, Problems] = {}
    slow: list[int] = []
    room = ROOM
    for index, placed in enumerate(rules):
        if len(slow) == MOST_SLOW:
            break
        try:
            given = run_rule(placed.rule, view)
        except RuleError as error:
            problems[index] = (str(error),)
            if placed.rule.defect is None and TOO_LONG in str(error):
                slow.append(index)
            continue
        view.remember(() if given is None else (given.labels, given.vars))
        if given is not None:
            asked = _contribution(placed, given, policy)
            size = _size(asked)
            if size > room:
                problems[index] = (f"asks for {size} letters of labels and annotations; there is room for {room}",)
                continue
            room -= size
            held.append(index)
            contributions.append(asked)
    errors = len(problems)
    for index, one in zip(held, contributions, strict=True):
        if not rules[index].fixed and (refused := _refused(one, view, policy)):
            problems[index] = tuple(refused)
    return Evaluation(
        tuple(filter(_asks_something, contributions)),
        tuple(held),
        problems,
        errors,
        view.matched or {},
        slow=tuple(slow),
        complete=len(slow) < MOST_SLOW,
    )


def _size(asked: Contribution) -> int:
    return sum(len(key) + len(value) for pairs in (asked.labels, asked.annotations) for key, value in pairs.items())


def _asks_something(one: Contribution) -> bool:
    return bool(one.labels or one.annotations or one.extended_resources or one.taints)


def _contribution(placed: PlacedRule, given: Given, policy: Policy) -> Contribution:
    if placed.rule.labels_template is None:
        return placed.asked
    return replace(placed.asked, labels=policies.prefix_keys(given.labels, policy))
