"""All rules and groups over the features of one node, a rule at a time, and what that may cost (pure).

A rule that takes too long fails on the node. So do the rules of an object that together take too long, and all that
are left once the whole pass does. Whoever evaluates many nodes counts on how many that was so, and suspends the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nfd.errors import RuleError, reason_of
from nfd.features import Features
from nfd.master.node.desired import Contribution
from nfd.master.rules.ruleset import GroupKey, PlacedRule, Problems, Steps, size_of
from nfd.names import FEATURE_NS
from nfd.rule_clock import CLOCKS, metered
from nfd.rules import policy as policies
from nfd.rules.compile import Group
from nfd.rules.evaluate import Given, Watch, run_rule
from nfd.rules.policy import Lookup, Policy
from nfd.rules.terms import View
from nfd.rules.time_limit import RULE_SECONDS, Clocks, Exhausted

OBJECT_SECONDS = 0.25
"""CPU time that the rules of one object may take on a node."""
NODE_SECONDS = 1.0
"""CPU time that all rules and groups may take on a node."""
NOTICED = 0.001
"""Seconds that rules may take together before their CPU time is read: most take some microseconds."""
SUSPENDED = "suspended: it takes too long; it is tried again later, and once it is changed"
SUSPENDED_HERE = "suspended on this node: it takes too long there; it is tried again later, and once it is changed"
CROWDED = f"left out: the rules of its object take more than {OBJECT_SECONDS} s on this node"
CUT_OFF = f"left out: all rules together take more than {NODE_SECONDS} s on this node"

ROOM = 128 * 1024
"""Letters of keys and values that all rules may ask of a node; the annotations of a Node may have 256 KiB."""

DEFAULT = f"{FEATURE_NS}/"


@dataclass(frozen=True, slots=True)
class Limits:
    """CPU time that a rule, an object and all rules may take on a node, in seconds, and the clocks that tell it."""

    clocks: Clocks = CLOCKS
    rule: float = RULE_SECONDS
    sheet: float = OBJECT_SECONDS
    node: float = NODE_SECONDS


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the rules make of one node.

    `contributions` are the rules that hold, in order, and `held` their places; `problems` come up on this node alone.
    `slow` are rules that took too long, `heavy` objects (`rule:OBJECT`) and groups (`group:NAMESPACE/NAME`) that did.
    If all together did, the rest is left out, and it is not `complete`; then `heavy` are those that took most of it.
    """

    contributions: tuple[Contribution, ...] = ()
    held: tuple[int, ...] = ()
    problems: Mapping[int, Problems] = field(default_factory=dict)
    errors: int = 0
    matched: Mapping[str, str] = field(default_factory=dict)
    """What `rule.matched` holds in the end, for references to it."""
    refers: bool = False
    """Whether a value may stand for one of the node's own features, so that nodes alike may get another."""
    unsure: frozenset[str] = frozenset()
    """Origins of rules that failed, and of those that depend on what one of them gives: what they gave before stays."""
    unresolved: frozenset[tuple[str, str]] = frozenset()
    """Origins of rules that hold and refer to an attribute that is not there, each with the feature it would be in."""
    groups: tuple[GroupKey, ...] = ()
    """The NodeFeatureGroups that it belongs to."""
    group_problems: Mapping[GroupKey, Problems] = field(default_factory=dict)
    """Why it cannot be told whether it belongs to others."""
    slow: tuple[int, ...] = ()
    heavy: tuple[str, ...] = ()
    complete: bool = True
    seconds: float = field(default=0.0, compare=False)
    """CPU time that it took."""

    def same_outcome(self, other: Evaluation) -> bool:
        """Whether both ask the same of the node."""
        mine, others = (
            (one.contributions, one.matched, one.complete, one.unsure, one.unresolved) for one in (self, other)
        )
        return mine == others

    def missing(self, sources: AbstractSet[str]) -> frozenset[str]:
        """Origins of the rules that refer to what is not there of the features of one of these sources."""
        return frozenset(origin for origin, name in self.unresolved if name.partition(".")[0] in sources)

    def took_too_long(self) -> bool:
        """Whether rules, objects or groups did, or all together."""
        return bool(self.slow or self.heavy or not self.complete)

    def failed(self) -> Mapping[int, Problems]:
        """Rules that could not be evaluated, by their places, and why."""
        held = frozenset(self.held) if self.problems else ()
        return {index: texts for index, texts in sorted(self.problems.items()) if index not in held}


def group_origin(key: GroupKey) -> str:
    return f"group:{'/'.join(key)}"


class Spending:
    """CPU time by object. The thread does other things between two steps, which are nobody's; `resume` says so."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._clocks = limits, limits.clocks
        self.by_object: dict[str, float] = {}
        self.over: set[str] = set()
        """Objects that have had their time."""
        self.total = 0.0
        self.due = self._cpu = 0.0
        """`due` is the time from which on it is worth it."""
        self.resume()

    def resume(self) -> None:
        self.due, self._cpu = self._clocks.wall() + NOTICED, self._clocks.cpu()

    def is_due(self) -> bool:
        return self._clocks.wall() >= self.due

    def is_over(self) -> bool:
        """Whether all together have had their time."""
        return self.total > self._limits.node

    def charge(self, origin: str) -> bool:
        """Note what was spent since last time, if it is worth it; then others may want their turn."""
        if not self.is_due():
            return False
        now = self._clocks.cpu()
        self.by_object[origin] = self.by_object.get(origin, 0.0) + now - self._cpu
        if self.by_object[origin] > self._limits.sheet:
            self.over.add(origin)
        self.total += now - self._cpu
        self.due, self._cpu = self._clocks.wall() + NOTICED, now
        return True

    def close(self) -> None:
        """Count what was too little to be noticed."""
        self.total += self._clocks.cpu() - self._cpu

    def heavy(self) -> tuple[str, ...]:
        """Those that are over their time; if all are together, the largest, until the rest is half of it."""
        found = set(self.over)
        left = self.total
        for origin, seconds in sorted(self.by_object.items(), key=lambda one: -one[1]):
            if not self.is_over() or left <= self._limits.node / 2:
                break
            left -= seconds
            found.add(origin)
        return tuple(sorted(found))


def evaluation_steps(
    rules: Sequence[PlacedRule],
    groups: Sequence[Group],
    features: Features,
    policy: Policy,
    suspended: Collection[int | str] = (),
    limits: Limits = LIMITS,
    watch: Watch | None = None,
    suspended_here: Collection[int | str] = (),
) -> Steps[Evaluation]:
    """Run the rules in order, then the groups; one that fails gives nothing, and the others go on.

    A step is some milliseconds, or one rule. `suspended` are identities (`id`) of rules, and origins of groups, which
    are not run; it may change meanwhile. `suspended_here` are those of this node alone. `watch` sees the result of each
    rule that is run.
    """
    spending, wall = Spending(limits), limits.clocks.wall
    run = _Run(View(features, metered(limits.clocks, limits.rule), watch), policy)
    for index, placed in enumerate(rules):
        if spending.is_over():
            run.cut_off(index, rules)
            break
        if id(placed) in suspended:
            run.fail(index, placed, RuleError(SUSPENDED))
        elif suspended_here and id(placed) in suspended_here:
            run.fail(index, placed, RuleError(SUSPENDED_HERE))
        elif spending.over and placed.sheet in spending.over:
            run.fail(index, placed, RuleError(CROWDED))
        else:
            run.take(index, placed)
        if wall() >= spending.due and spending.charge(placed.sheet):
            yield
            spending.resume()
    for index, asked in zip(run.held, run.contributions, strict=True):
        run.check(index, rules[index], asked)
        if wall() >= spending.due and spending.charge(rules[index].sheet):
            yield
            spending.resume()
    for group in groups:
        origin = group_origin(group.key)
        reason = SUSPENDED if origin in suspended else SUSPENDED_HERE if origin in suspended_here else ""
        yield from run.join(group, features, reason, spending)
    return run.outcome(spending)


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
    refers: bool = False
    slow: list[int] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    unresolved: set[tuple[str, str]] = field(default_factory=set)
    groups: list[GroupKey] = field(default_factory=list)
    group_problems: dict[GroupKey, Problems] = field(default_factory=dict)

    def take(self, index: int, placed: PlacedRule) -> None:
        """Run the next rule; whatever goes wrong is its own problem."""
        if placed.dependent and self.unsure:
            self.unsure.add(placed.origin)
        try:
            given = run_rule(placed.rule, self.view)
            if given is not None:
                self._give(index, placed, given)
        except Exception as error:
            self.fail(index, placed, error)

    def fail(self, index: int, placed: PlacedRule, error: Exception) -> None:
        self.problems[index] = (reason_of(error),)
        self.errors += 1
        self.unsure.add(placed.origin)
        if isinstance(error, Exhausted):
            self.slow.append(index)

    def cut_off(self, start: int, rules: Sequence[PlacedRule]) -> None:
        """Leave out the rest."""
        for index in range(start, len(rules)):
            self.fail(index, rules[index], RuleError(CUT_OFF))

    def _give(self, index: int, placed: PlacedRule, given: Given) -> None:
        asked, size = placed.asked, placed.size
        if given.labels is not placed.rule.labels or given.vars is not placed.rule.vars:
            asked = replace(asked, labels=policies.prefix_keys(given.labels, self.policy), vars=given.vars)
            size = size_of(asked)
        if size > self.room:
            raise RuleError(f"asks for {size} letters of keys and values; there is room for {self.room}")
        self.room -= size
        self.refers = self.refers or (not placed.fixed and asked.refers)
        self.held.append(index)
        self.contributions.append(asked)

    def check(self, index: int, placed: PlacedRule, asked: Contribution) -> None:
        """What of a rule that holds the node does not get, now that all rules have run."""

        def lookup(feature: str, element: str) -> str | None:
            value = self.view.attribute(feature, element)
            if not value:
                self.unresolved.add((placed.origin, feature))
            return value

        try:
            refused = () if placed.fixed else tuple(_refused(asked, lookup, self.policy))
        except Exception as error:
            refused = (reason_of(error),)
            self.unsure.add(placed.origin)
        if refused:
            self.problems[index] = refused

    def join(self, group: Group, features: Features, suspended: str, spending: Spending) -> Steps[None]:
        """Whether the node belongs to a group, which starts afresh. A rule that fails leaves it open.

        `suspended` is why the group is not looked at, "" if it is.
        """
        if suspended:
            problems: list[str] = [suspended]
        elif spending.is_over():
            problems = [CUT_OFF]
        else:
            view = View(features, self.view.meter, self.view.watch)
            is_member, problems = yield from _judge_group(group, view, spending)
            if is_member:
                self.groups.append(group.key)
        if problems:
            self.group_problems[group.key] = tuple(problems)
            self.errors += len(problems)

    def outcome(self, spending: Spending) -> Evaluation:
        spending.close()
        return Evaluation(
            tuple(self.contributions),
            tuple(self.held),
            self.problems,
            self.errors,
            self.view.matched or {},
            self.refers,
            frozenset(self.unsure),
            frozenset(self.unresolved),
            tuple(self.groups),
            self.group_problems,
            slow=tuple(self.slow),
            heavy=spending.heavy() if spending.by_object else (),
            complete=not spending.is_over(),
            seconds=spending.total,
        )


def _judge_group(group: Group, view: View, spending: Spending) -> Steps[tuple[bool, list[str]]]:
    """Whether one of its rules holds, and which failed. A group that takes too long is looked at no further."""
    problems, is_member = list[str](), False
    origin = group_origin(group.key)
    for rule in group.rules:
        if origin in spending.over:
            problems.append(CROWDED)
            break
        try:
            given = run_rule(rule, view)
        except RuleError as error:
            problems.append(f"rule {rule.name!r}: {error}")
        else:
            is_member = is_member or given is not None
        if spending.charge(origin):
            yield
            spending.resume()
    return is_member, problems


def _refused(asked: Contribution, lookup: Lookup, policy: Policy) -> list[str]:
    """What of it the policy does not let a node have, as text."""
    dropped = [
        *policies.allow_labels(asked.labels, lookup, policy).dropped,
        *policies.allow_annotations(asked.annotations, lookup, policy).dropped,
        *policies.allow_extended_resources(asked.extended_resources, lookup, policy).dropped,
        *policies.allow_taints(asked.taints, policy)[1],
    ]
    return [f"{one.kind} {one.key.removeprefix(DEFAULT)!r}: {one.reason}" for one in dropped]
