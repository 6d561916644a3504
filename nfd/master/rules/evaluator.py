"""Evaluations of all nodes, cached: a node is evaluated again only when its features or the rules change.

Short evaluations run when they are asked for. Longer ones are left to `evaluate_due`, which yields to other tasks.
Until then the last result is used and is known not to be current, so nothing is removed from a node for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from nfd.features import Features
from nfd.master.http.metrics import RULE_EVALUATION, Metrics
from nfd.master.node.outcome import Evaluated
from nfd.master.rules.evaluation import (
    LIMITS,
    SUSPENDED,
    SUSPENDED_HERE,
    Evaluation,
    Limits,
    evaluation_steps,
    group_origin,
)
from nfd.master.rules.nodefeatures import FeatureObject, Joining, join_objects
from nfd.master.rules.ruleset import CompiledObject, RuleSet, Steps, bind
from nfd.master.rules.suspensions import Suspensions
from nfd.master.rules.time_slices import SLICE, Slices
from nfd.report import Report
from nfd.rules.compile import Group
from nfd.rules.match_features import Feature, View
from nfd.rules.policy import Policy
from nfd.runtime import log
from nfd.runtime.cache import LruCache
from nfd.runtime.failures import failed

EVALUATION = "rule evaluation"
"""The name in the log of a failure outside every rule."""
MAX_LOGGED = 1000
"""The most failures that are logged until the rules change; the status of each rule has all of them."""
NAMED = 3
"""The most rules that one log line names."""

_log = log.get("master")


@dataclass(slots=True)
class NodeEvaluation:
    """One node: the input of its next evaluation, and the last result with the rules and features it was made from."""

    report: Report
    objects: Sequence[FeatureObject]
    joined: Report
    evaluation: Evaluation = field(default_factory=Evaluation)
    rule_set: RuleSet | None = None
    evaluated: Features | None = None
    asked: bool = False
    """Whether a result that was not current was returned."""

    def is_current(self, rule_set: RuleSet) -> bool:
        return self.rule_set is rule_set and self.evaluated is self.joined.features


Key = tuple[str, bool]
"""A node, and whether it is only a preview."""


class Evaluator:
    """`notify` is called when the result of any node changes, `rebind` when a rule is to be suspended."""

    def __init__(
        self,
        joining: Joining,
        metrics: Metrics,
        notify: Callable[[], None],
        rebind: Callable[[], None],
        slices: Slices | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.rule_set = RuleSet()
        self.slices = slices or Slices()
        self.waiting = asyncio.Event()
        """Set while `evaluate_due` has nodes to evaluate."""
        self.suspensions = Suspensions(limits.clocks.wall)
        self._limits = limits
        self._rebind = rebind
        self._logged: set[tuple[str, tuple[str, ...]]] = set()
        self._joining = joining
        self._metrics = metrics
        self._notify = notify
        self._evaluations: dict[str, NodeEvaluation] = {}
        self._previews: dict[str, NodeEvaluation] = {}
        self._due: dict[Key, Steps[Evaluation] | None] = {}
        self._wrong: frozenset[int] = frozenset()
        self._failing: Counter[int] = Counter()
        self._cache: EvaluationCache[Evaluation] = EvaluationCache()

    def __len__(self) -> int:
        return len(self._evaluations)

    def bind(self, compiled_objects: Iterable[CompiledObject], groups: Iterable[Group]) -> None:
        """Put rules into force. Nodes are evaluated with them when they are asked for, or by `evaluate_due`."""
        rule_set = bind(compiled_objects, groups)
        present: dict[int | str, object] = {id(rule): rule for rule in rule_set.rules}
        present |= {group_origin(group.key): group for group in rule_set.groups}
        self.suspensions.bind(present)
        self.rule_set = rule_set
        self._logged.clear()
        self._failing.clear()
        self._wrong = frozenset(index for index, rule in enumerate(rule_set.rules) if rule.mistakes)
        self._cache = EvaluationCache()
        for node in self._evaluations:
            self._leave((node, False), None)

    @property
    def policy(self) -> Policy:
        return self._joining.policy

    def get(self, node: str) -> NodeEvaluation | None:
        return self._evaluations.get(node)

    def names(self) -> list[str]:
        return sorted(self._evaluations)

    def is_current(self, state: NodeEvaluation) -> bool:
        """Whether the result is from the rules in force and all that is known of the node."""
        return state.is_current(self.rule_set)

    def evaluation_of(self, node: str, report: Report, objects: Sequence[FeatureObject]) -> NodeEvaluation:
        """The evaluation of a node, from the cache if nothing changed; it may not be current yet."""
        return self._evaluation_of((node, False), self._evaluations, report, objects)

    def preview(self, node: str, report: Report, objects: Sequence[FeatureObject]) -> NodeEvaluation:
        """The evaluation that the node would have with these inputs."""
        return self._evaluation_of((node, True), self._previews, report, objects)

    def evaluate(self, report: Report, objects: Sequence[FeatureObject], tentative: bool) -> Evaluated:
        """The evaluation for a pass over the node."""
        found = (self.preview if tentative else self.evaluation_of)(report.node, report, objects)
        return Evaluated(found.joined, found.evaluation, self.is_current(found))

    def _evaluation_of(
        self, key: Key, evaluations: dict[str, NodeEvaluation], report: Report, objects: Sequence[FeatureObject]
    ) -> NodeEvaluation:
        known = evaluations.get(key[0])
        if known is not None and known.report is not report and known.report == report:
            report = known.report
        if known is None or known.report is not report or known.objects != objects:
            known = evaluations[key[0]] = self._joined(report, objects, known)
        if not known.is_current(self.rule_set):
            self._begin(key, known)
        return known

    def _joined(self, report: Report, objects: Sequence[FeatureObject], known: NodeEvaluation | None) -> NodeEvaluation:
        """The new input with the last result; that is current if the features are equal."""
        state = NodeEvaluation(report, objects, join_objects(report, objects, self._joining))
        if known is not None:
            same = known.is_current(self.rule_set) and known.joined.features == state.joined.features
            state.evaluation, state.rule_set, state.asked = known.evaluation, known.rule_set, known.asked
            state.evaluated = state.joined.features if same else known.evaluated
        return state

    def _begin(self, key: Key, state: NodeEvaluation) -> None:
        """Evaluate now if that is short; else `evaluate_due` continues."""
        if self._due.get(key) is None:
            steps = self._evaluation(key, state.joined.features)
            try:
                done = self.slices.advance(steps, keep=SLICE if self._due else 0.0)
                if done and state.is_current(self.rule_set):
                    self._due.pop(key, None)
                    return
                self._leave(key, None if done else steps)
            except Exception as error:
                self._log_defect(key, error)
        state.asked = True

    def _leave(self, key: Key, steps: Steps[Evaluation] | None) -> None:
        """Leave the node to `evaluate_due`; a node that waits already keeps its place."""
        self._due[key] = steps
        self.waiting.set()

    def forget(self, node: str) -> None:
        self._previews.pop(node, None)
        for preview in (False, True):
            self._due.pop((node, preview), None)
        self.suspensions.forget(node)
        if (state := self._evaluations.pop(node, None)) is not None:
            self._count_failing((node, False), state, -1)
            self._notify()

    def failing(self) -> int:
        """The number of rules that are invalid, or failed on some node."""
        return len(self._wrong | self._failing.keys())

    def release(self) -> None:
        """Evaluate nodes again whose suspensions have ended."""
        for node in self.suspensions.release():
            self._again(node)

    def _again(self, node: str) -> None:
        """Evaluate the node again; until then the last result stays and is not current."""
        if (state := self._evaluations.get(node)) is not None:
            state.evaluated = None
            self._leave((node, False), None)

    async def evaluate_due(self, changed: Callable[[str], None]) -> None:
        """Evaluate the waiting nodes. `changed` is called for nodes whose result changed, or for which a pass waits."""
        await self.slices.run(self._due_steps(changed))

    def _due_steps(self, changed: Callable[[str], None]) -> Steps[None]:
        while self._due:
            key = next(iter(self._due))
            try:
                yield from self._due_step(key, changed)
            except Exception as error:
                self._log_defect(key, error)
            yield
        self.waiting.clear()

    def _due_step(self, key: Key, changed: Callable[[str], None]) -> Steps[None]:
        steps, state = self._due[key], self._find(key)
        if state is not None and not state.is_current(self.rule_set):
            before = state.evaluation
            yield from steps or self._evaluation(key, state.joined.features)
            state = self._find(key)
            if state is not None and (state.asked or not before.same_outcome(state.evaluation)):
                state.asked = False
                changed(key[0])
        self._due.pop(key, None)
        if state is not None and not state.is_current(self.rule_set):
            self._leave(key, None)  # the input changed meanwhile: other nodes first

    def _log_defect(self, key: Key, error: Exception) -> None:
        """Log a defect. The node keeps its last result, which is not current, until it is asked for again."""
        self._due.pop(key, None)
        failed(EVALUATION, error, node=key[0])

    def _find(self, key: Key) -> NodeEvaluation | None:
        return (self._previews if key[1] else self._evaluations).get(key[0])

    def _evaluation(self, key: Key, features: Features) -> Steps[Evaluation]:
        """Evaluate, and store the result for the node's input at the end; a newer result stays."""
        rule_set, begun = self.rule_set, self._find(key)
        last = begun.rule_set if begun is not None else None
        found = yield from self._cached_evaluation(key[0], rule_set, features)
        now = self._find(key)
        if now is None or now.is_current(self.rule_set) or (now.rule_set is not last and now.rule_set is not rule_set):
            return found
        self._count_failing(key, now, -1)
        if now.evaluation.same_outcome(found):
            before = now.evaluation
            found = replace(found, contributions=before.contributions, matched=before.matched)
            found = before if before == found else found
        now.evaluation, now.rule_set, now.evaluated = found, rule_set, features  # only once there is a result
        self._count_failing(key, now, 1)
        if not key[1]:
            self._note(key[0], rule_set, found)
        return found

    def _cached_evaluation(self, node: str, rule_set: RuleSet, features: Features) -> Steps[Evaluation]:
        """The evaluation of these features, from the cache if they were evaluated before."""
        seen = selected_features(features, rule_set.features) if rule_set.repeatable else ()
        found = self._cache.get(seen) if rule_set.repeatable else None
        if found is None:
            cache, here = self._cache, self.suspensions.active_on(node)
            found = yield from self._computed(rule_set, features, here)
            if self._surprises(rule_set, found):
                found = yield from self._computed(rule_set, features, here)  # again: the machine may have been slow
            if not (found.took_too_long() or here) and rule_set.repeatable and not found.refers:
                cache.put(seen, found)
        return found

    def _surprises(self, rule_set: RuleSet, found: Evaluation) -> bool:
        """Whether something took too long for the first time."""
        keys: tuple[int | str, ...] = (*(id(rule_set.rules[index]) for index in found.slow), *found.heavy)
        return not all(map(self.suspensions.is_expected, keys)) or (not found.complete and not keys)

    def _computed(self, rule_set: RuleSet, features: Features, here: Collection[int | str]) -> Steps[Evaluation]:
        """Evaluate; `here` is what is suspended on this node only."""
        found = yield from evaluation_steps(
            rule_set.rules,
            rule_set.groups,
            features,
            self.policy,
            self.suspensions.active,
            self._limits,
            suspended_here=here,
        )
        if rule_set.rules:
            self._metrics.observe(RULE_EVALUATION, found.seconds)
        return found

    def _note(self, node: str, rule_set: RuleSet, found: Evaluation) -> None:
        self._notify()
        if found.errors:
            self._metrics.add("nodefeaturerule_processing_errors", found.errors)
            self._log_failures(node, rule_set, found)
        self._count_strikes(node, rule_set, found)

    def _log_failures(self, node: str, rule_set: RuleSet, found: Evaluation) -> None:
        """Log each failed rule with the first node on which it failed for that reason; suspensions are logged
        elsewhere."""
        rules = ((rule_set.rules[index].origin, texts) for index, texts in found.failed().items())
        groups = ((group_origin(key), texts) for key, texts in found.group_problems.items())
        for rule, texts in (*rules, *groups):
            if (
                not {SUSPENDED, SUSPENDED_HERE}.issuperset(texts)
                and (rule, texts) not in self._logged
                and len(self._logged) < MAX_LOGGED
            ):
                self._logged.add((rule, texts))
                _log.warning("rule failed; its earlier result stays", rule=rule, node=node, error="; ".join(texts))

    def _count_failing(self, key: Key, state: NodeEvaluation, by: int) -> None:
        if state.rule_set is self.rule_set and not key[1]:
            for index in state.evaluation.problems:
                self._failing[index] += by
                if not self._failing[index]:
                    del self._failing[index]

    def _count_strikes(self, node: str, rule_set: RuleSet, found: Evaluation) -> None:
        """Suspend what takes too long: on this node, or on all once it did on several. A pass over all must not take
        hours.

        Until then it is suspended on single nodes only: the report of one node affects no other.
        """
        here = []
        for key, origin, members in _too_long(rule_set, found):
            if self.suspensions.strike(node, key, members):
                _log.warning("suspended, since it takes too long", rule=origin, node=node)
                self._rebind()
            elif self.suspensions.suspend_on(node, members):
                here.append(origin)
        if here:
            _log.warning(
                "suspended on this node, since it takes too long there",
                rule=", ".join(here[:NAMED]),
                rules=len(here),
                node=node,
            )
            if not found.complete:
                self._again(node)  # for the rules that were skipped
            self.waiting.set()


def _too_long(rule_set: RuleSet, found: Evaluation) -> Iterator[tuple[int | str, str, dict[int | str, object]]]:
    """What took too long: its key and origin, and itself or its rules by their keys."""
    for index in found.slow:
        placed = rule_set.rules[index]
        yield id(placed), placed.origin, {id(placed): placed}
    for origin in found.heavy:
        members: dict[int | str, object] = {id(rule): rule for rule in rule_set.rules if rule.object_origin == origin}
        yield (
            origin,
            origin,
            members | {name: one for one in rule_set.groups if (name := group_origin(one.key)) == origin},
        )


KNOWN = 256
"""Entries of the cache; the least recently used is dropped."""

Identity = tuple[int, int, int] | None
Seen = tuple[Feature | None, ...]
T = TypeVar("T")


@dataclass(slots=True)
class EvaluationCache(Generic[T]):
    """Evaluations by the features they were made from."""

    _known: LruCache[tuple[Identity, ...], tuple[Seen, T]] = field(default_factory=lambda: LruCache(KNOWN))

    def get(self, seen: Seen) -> T | None:
        key = identity(seen)
        if (found := self._known.get(key)) is None:
            return None
        self._known.move_to_end(key)
        return found[1]

    def put(self, seen: Seen, outcome: T) -> None:
        self._known.put(identity(seen), (seen, outcome))


def selected_features(features: Features, names: Sequence[str]) -> Seen:
    """The features of these lower-case names."""
    return tuple(map(View(features).get, names))


def identity(seen: Seen) -> tuple[Identity, ...]:
    """A key that is equal only for the same content objects, which the cache keeps alive."""
    return tuple(None if one is None else (id(one.flags), id(one.attributes), id(one.instances)) for one in seen)
