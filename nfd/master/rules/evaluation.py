"""Evaluates all rules and groups on the features of one node, one rule at a time, within time limits (pure).

A rule that takes too long fails on the node. So do the rules of an object that together take too long, and all
remaining rules once the whole evaluation does. The evaluator counts on how many nodes that happened, and suspends the
cause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nfd.errors import Endless, RuleError, reason_of
from nfd.features import Features
from nfd.master.node.desired import Contribution
from nfd.master.rules.ruleset import GroupKey, PlacedRule, Problems, Steps, size_of
from nfd.names import FEATURE_NS
from nfd.rule_clock import CLOCKS, metered
from nfd.rules import policy as policies
from nfd.rules.compile import Group
from nfd.rules.evaluate import Given, Watch, run_rule
from nfd.rules.match_features import View
from nfd.rules.policy import Lookup, Policy
from nfd.rules.time_limit import RULE_SECONDS, Clocks, Exhausted

OBJECT_SECONDS = 0.25
"""Seconds of CPU time for the rules of one object on a node."""
NODE_SECONDS = 1.0
"""Seconds of CPU time for all rules and groups on a node."""
NOTICED = 0.001
"""Seconds of evaluation before the CPU time is read: most rules take microseconds."""
SUSPENDED = "suspended: it takes too long. It is tried again later, and when it is changed"
SUSPENDED_HERE = "suspended on this node: it takes too long there. It is tried again later, and when it is changed"
CROWDED = f"skipped: the rules of its object take more than {OBJECT_SECONDS} s on this node"
CUT_OFF = f"skipped: all rules together take more than {NODE_SECONDS} s on this node"

MAX_LETTERS = 128 * 1024
"""The most letters of keys and values that all rules may set on a node; its annotations may have 256 KiB."""

DEFAULT = f"{FEATURE_NS}/"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of CPU time for a rule, an object and all rules on a node, in seconds, and the clocks that measure it."""

    clocks: Clocks = CLOCKS
    rule: float = RULE_SECONDS
    per_object: float = OBJECT_SECONDS
    node: float = NODE_SECONDS


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of all rules on one node.

    `contributions` are the matching rules in order, and `matching` their indexes. `problems` occur on this node alone.
    `slow` are rules that took too long, `heavy` objects (`rule:OBJECT`) and groups (`group:NAMESPACE/NAME`) that did.
    If all together took too long, the rest is skipped and `complete` is False; then `heavy` are those that took most of
    the time.
    """

    contributions: tuple[Contribution, ...] = ()
    matching: tuple[int, ...] = ()
    problems: Mapping[int, Problems] = field(default_factory=dict)
    errors: int = 0
    matched: Mapping[str, str] = field(default_factory=dict)
    """The final content of `rule.matched`, for references to it."""
    refers: bool = False
    """Whether a value may refer to a feature, so that nodes with the same contributions may get different values."""
    unsure: frozenset[str] = frozenset()
    """Origins of rules that failed, and of rules that depend on them: what they set before stays."""
    groups: tuple[GroupKey, ...] = ()
    """The NodeFeatureGroups that it belongs to."""
    group_problems: Mapping[GroupKey, Problems] = field(default_factory=dict)
    """Why the membership of other groups is unknown."""
    slow: tuple[int, ...] = ()
    heavy: tuple[str, ...] = ()
    complete: bool = True
    seconds: float = field(default=0.0, compare=False)
    """CPU time of the evaluation."""

    def same_outcome(self, other: Evaluation) -> bool:
        """Whether both set the same on the node."""
        mine, others = ((one.contributions, one.matched, one.complete, one.unsure) for one in (self, other))
        return mine == others

    def took_too_long(self) -> bool:
        """Whether rules, objects, groups, or all together took too long."""
        return bool(self.slow or self.heavy or not self.complete)

    def failed(self) -> Mapping[int, Problems]:
        """Rules that could not be evaluated, by index, with the reasons."""
        matching = frozenset(self.matching) if self.problems else ()
        return {index: texts for index, texts in sorted(self.problems.items()) if index not in matching}


def group_origin(key: GroupKey) -> str:
    return f"group:{'/'.join(key)}"


class Spending:
    """CPU time by object. Between two steps the thread may do other work, which is not counted: `resume` is called
    after it."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._clocks = limits, limits.clocks
        self.by_object: dict[str, float] = {}
        self.over: set[str] = set()
        """Objects that have used up their time."""
        self.total = 0.0
        self.due = self._cpu = 0.0
        """The time at which CPU time is read next, and the CPU time at the last reading."""
        self.resume()

    def resume(self) -> None:
        self.due, self._cpu = self._clocks.wall() + NOTICED, self._clocks.cpu()

    def is_due(self) -> bool:
        return self._clocks.wall() >= self.due

    def is_over(self) -> bool:
        """Whether all together have used up their time."""
        return self.total > self._limits.node

    def charge(self, origin: str) -> bool:
        """Count the CPU time since the last call, if enough wall time has passed. Returns whether it did: then other
        work may run."""
        if not self.is_due():
            return False
        now = self._clocks.cpu()
        self.by_object[origin] = self.by_object.get(origin, 0.0) + now - self._cpu
        if self.by_object[origin] > self._limits.per_object:
            self.over.add(origin)
        self.total += now - self._cpu
        self.due, self._cpu = self._clocks.wall() + NOTICED, now
        return True

    def close(self) -> None:
        """Count the remaining time."""
        self.total += self._clocks.cpu() - self._cpu

    def heavy(self) -> tuple[str, ...]:
        """Objects over their limit. If the total is over its limit, the most expensive ones as well, until the rest is
        half of it."""
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
    """Evaluate the rules in order, then the groups. A rule that fails sets nothing, and the others are still evaluated.

    A step takes some milliseconds, or one rule. `suspended` are identities (`id`) of rules, and origins of groups, that
    are not evaluated; it may change meanwhile. `suspended_here` are those of this node only. `watch` is called with the
    result of each evaluated rule.
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
        elif spending.over and placed.object_origin in spending.over:
            run.fail(index, placed, RuleError(CROWDED))
        else:
            run.take(index, placed)
        if wall() >= spending.due and spending.charge(placed.object_origin):
            yield
            spending.resume()
    for index, asked in zip(run.matching, run.contributions, strict=True):
        run.check(index, rules[index], asked)
        if wall() >= spending.due and spending.charge(rules[index].object_origin):
            yield
            spending.resume()
    for group in groups:
        origin = group_origin(group.key)
        reason = SUSPENDED if origin in suspended else SUSPENDED_HERE if origin in suspended_here else ""
        yield from run.join(group, features, reason, spending)
    return run.outcome(spending)


@dataclass(slots=True)
class _Run:
    """The state of an evaluation on one node."""

    view: View
    policy: Policy
    left: int = MAX_LETTERS
    matching: list[int] = field(default_factory=list)
    contributions: list[Contribution] = field(default_factory=list)
    problems: dict[int, Problems] = field(default_factory=dict)
    errors: int = 0
    refers: bool = False
    slow: list[int] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    groups: list[GroupKey] = field(default_factory=list)
    group_problems: dict[GroupKey, Problems] = field(default_factory=dict)

    def take(self, index: int, placed: PlacedRule) -> None:
        """Evaluate the next rule; any error is recorded for this rule."""
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
        if isinstance(error, Exhausted | Endless):
            self.slow.append(index)

    def cut_off(self, start: int, rules: Sequence[PlacedRule]) -> None:
        """Skip the remaining rules."""
        for index in range(start, len(rules)):
            self.fail(index, rules[index], RuleError(CUT_OFF))

    def _give(self, index: int, placed: PlacedRule, given: Given) -> None:
        asked, size = placed.asked, placed.size
        if given.labels is not placed.rule.labels or given.vars is not placed.rule.vars:
            asked = replace(asked, labels=policies.prefix_keys(given.labels, self.policy), vars=given.vars)
            size = size_of(asked)
        if size > self.left:
            raise RuleError(f"sets {size} letters of keys and values; at most {self.left} more are allowed")
        self.left -= size
        self.refers = self.refers or (not placed.fixed and asked.refers)
        self.matching.append(index)
        self.contributions.append(asked)

    def check(self, index: int, placed: PlacedRule, asked: Contribution) -> None:
        """Record what the policy denies of a matching rule, after all rules have run."""
        try:
            refused = () if placed.fixed else tuple(_refused(asked, self.view.attribute, self.policy))
        except Exception as error:
            refused = (reason_of(error),)
            self.unsure.add(placed.origin)
        if refused:
            self.problems[index] = refused

    def join(self, group: Group, features: Features, suspended: str, spending: Spending) -> Steps[None]:
        """Evaluate a group, with data of its own. If a rule fails and none matches, the membership is unknown.

        `suspended` is the reason why the group is not evaluated, "" if it is.
        """
        if suspended:
            problems: list[str] = [suspended]
        elif spending.is_over():
            problems = [CUT_OFF]
        else:
            view = View(features, self.view.meter, self.view.watch)
            is_member, problems = yield from _evaluate_group(group, view, spending)
            if is_member:
                self.groups.append(group.key)
        if problems:
            self.group_problems[group.key] = tuple(problems)
            self.errors += len(problems)

    def outcome(self, spending: Spending) -> Evaluation:
        spending.close()
        return Evaluation(
            tuple(self.contributions),
            tuple(self.matching),
            self.problems,
            self.errors,
            self.view.matched or {},
            self.refers,
            frozenset(self.unsure),
            tuple(self.groups),
            self.group_problems,
            slow=tuple(self.slow),
            heavy=spending.heavy() if spending.by_object else (),
            complete=not spending.is_over(),
            seconds=spending.total,
        )


def _evaluate_group(group: Group, view: View, spending: Spending) -> Steps[tuple[bool, list[str]]]:
    """Whether one of its rules matches, and which rules failed. A group that takes too long is not evaluated
    further."""
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
    """What the policy denies of a contribution, as text."""
    dropped = [
        *policies.allow(policies.LABEL, asked.labels, lookup, policy).dropped,
        *policies.allow(policies.ANNOTATION, asked.annotations, lookup, policy).dropped,
        *policies.allow(policies.EXTENDED_RESOURCE, asked.extended_resources, lookup, policy).dropped,
        *policies.allow_taints(asked.taints, policy)[1],
    ]
    return [f"{one.kind} {one.key.removeprefix(DEFAULT)!r}: {one.reason}" for one in dropped]
