"""What the rules make of each node, remembered: evaluated again only when features or rules are others.

What is short is evaluated when somebody asks. The rest is left to `judge_due`, which gives others their turn. Until
then the last outcome stands, and is known not to be current, so that nothing is taken off a node for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from nfd.features import Features
from nfd.master.http.metrics import RULES, Metrics
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
from nfd.master.rules.slices import SLICE, Slices
from nfd.master.rules.suspensions import Suspensions
from nfd.report import Report
from nfd.rules.compile import Group
from nfd.rules.policy import Policy
from nfd.rules.terms import Feature, View
from nfd.runtime import log
from nfd.runtime.cache import LruCache
from nfd.runtime.failures import failed

EVALUATION = "rule evaluation"
"""What failed, where something outside of every rule did."""
MOST_SAID = 1000
"""Rules and reasons of failures that are logged until there are other rules; the status of each says all of them."""
NAMED = 3
"""Rules that are named where several are suspended on a node."""

_log = log.get("master")


@dataclass(slots=True)
class NodeEvaluation:
    """One node: what it is to be judged on, and the last outcome, with the rules and features that this was made of."""

    report: Report
    objects: Sequence[FeatureObject]
    joined: Report
    evaluation: Evaluation = field(default_factory=Evaluation)
    book: RuleSet | None = None
    judged: Features | None = None
    asked: bool = False
    """Whether somebody was given an outcome that was not current."""

    def is_current(self, book: RuleSet) -> bool:
        return self.book is book and self.judged is self.joined.features


Key = tuple[str, bool]
"""A node, and whether it is only considered."""


class Evaluator:
    """`told` is called whenever the outcome of any node is another one, `rebind` when a rule is to be suspended."""

    def __init__(
        self,
        joining: Joining,
        metrics: Metrics,
        told: Callable[[], None],
        rebind: Callable[[], None],
        turns: Slices | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self.book = RuleSet()
        self.turns = turns or Slices()
        self.waiting = asyncio.Event()
        """Set while there are nodes to be judged by `judge_due`."""
        self.suspensions = Suspensions(limits.clocks.wall)
        self._limits = limits
        self._rebind = rebind
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._joining = joining
        self._metrics = metrics
        self._told = told
        self._verdicts: dict[str, NodeEvaluation] = {}
        self._considered: dict[str, NodeEvaluation] = {}
        self._due: dict[Key, Steps[Evaluation] | None] = {}
        self._wrong: frozenset[int] = frozenset()
        self._failing: Counter[int] = Counter()
        self._alike: Latest[Evaluation] = Latest()

    def __len__(self) -> int:
        return len(self._verdicts)

    def bind(self, sheets: Iterable[CompiledObject], groups: Iterable[Group]) -> None:
        """Put rules in force; nodes are judged by them when they are asked for, or by `judge_due`."""
        book = bind(sheets, groups)
        present: dict[int | str, object] = {id(rule): rule for rule in book.rules}
        present |= {group_origin(group.key): group for group in book.groups}
        self.suspensions.bind(present)
        self.book = book
        self._said.clear()
        self._failing.clear()
        self._wrong = frozenset(index for index, rule in enumerate(book.rules) if rule.mistakes)
        self._alike = Latest()
        for node in self._verdicts:
            self._leave((node, False), None)

    @property
    def policy(self) -> Policy:
        return self._joining.policy

    def get(self, node: str) -> NodeEvaluation | None:
        return self._verdicts.get(node)

    def names(self) -> list[str]:
        return sorted(self._verdicts)

    def is_current(self, verdict: NodeEvaluation) -> bool:
        """Whether its outcome is that of the rules in force, on all that is known of the node."""
        return verdict.is_current(self.book)

    def judge(self, node: str, report: Report, objects: Sequence[FeatureObject]) -> NodeEvaluation:
        """The verdict on a node, from memory if nothing has changed; its outcome may not be current yet."""
        return self._judge((node, False), self._verdicts, report, objects)

    def consider(self, node: str, report: Report, objects: Sequence[FeatureObject]) -> NodeEvaluation:
        """What would be the verdict if the node were judged on these."""
        return self._judge((node, True), self._considered, report, objects)

    def evaluate(self, report: Report, objects: Sequence[FeatureObject], tentative: bool) -> Evaluated:
        """The same for a pass over the node."""
        found = (self.consider if tentative else self.judge)(report.node, report, objects)
        return Evaluated(found.joined, found.evaluation, self.is_current(found))

    def _judge(
        self, key: Key, verdicts: dict[str, NodeEvaluation], report: Report, objects: Sequence[FeatureObject]
    ) -> NodeEvaluation:
        known = verdicts.get(key[0])
        if known is not None and known.report is not report and known.report == report:
            report = known.report
        if known is None or known.report is not report or known.objects != objects:
            known = verdicts[key[0]] = self._joined(report, objects, known)
        if not known.is_current(self.book):
            self._begin(key, known)
        return known

    def _joined(self, report: Report, objects: Sequence[FeatureObject], known: NodeEvaluation | None) -> NodeEvaluation:
        """What is to be judged now, with the last outcome; that is current if the features are equal."""
        verdict = NodeEvaluation(report, objects, join_objects(report, objects, self._joining))
        if known is not None:
            same = known.is_current(self.book) and known.joined.features == verdict.joined.features
            verdict.evaluation, verdict.book, verdict.asked = known.evaluation, known.book, known.asked
            verdict.judged = verdict.joined.features if same else known.judged
        return verdict

    def _begin(self, key: Key, verdict: NodeEvaluation) -> None:
        """Judge it now if that is short; else it is left for later, and goes on from there."""
        if self._due.get(key) is None:
            steps = self._evaluation(key, verdict.joined.features)
            try:
                done = self.turns.advance(steps, keep=SLICE if self._due else 0.0)
                if done and verdict.is_current(self.book):
                    self._due.pop(key, None)
                    return
                self._leave(key, None if done else steps)
            except Exception as error:
                self._tell_defect(key, error)
        verdict.asked = True

    def _leave(self, key: Key, steps: Steps[Evaluation] | None) -> None:
        """For `judge_due`; those that wait already keep their place."""
        self._due[key] = steps
        self.waiting.set()

    def forget(self, node: str) -> None:
        self._considered.pop(node, None)
        for considered in (False, True):
            self._due.pop((node, considered), None)
        self.suspensions.forget(node)
        if (verdict := self._verdicts.pop(node, None)) is not None:
            self._count_failing((node, False), verdict, -1)
            self._told()

    def failing(self) -> int:
        """How many rules are wrong, or could not be evaluated on some node."""
        return len(self._wrong | self._failing.keys())

    def release(self) -> None:
        """Judge nodes again on which something was suspended for a time that is over."""
        for node in self.suspensions.release():
            self._again(node)

    def _again(self, node: str) -> None:
        """The last outcome stands until there is another, and is not current."""
        if (verdict := self._verdicts.get(node)) is not None:
            verdict.judged = None
            self._leave((node, False), None)

    async def judge_due(self, changed: Callable[[str], None]) -> None:
        """Judge what is left; `changed` names nodes with another outcome, or for which somebody waits."""
        await self.turns.run(self._due_steps(changed))

    def _due_steps(self, changed: Callable[[str], None]) -> Steps[None]:
        while self._due:
            key = next(iter(self._due))
            try:
                yield from self._due_step(key, changed)
            except Exception as error:
                self._tell_defect(key, error)
            yield
        self.waiting.clear()

    def _due_step(self, key: Key, changed: Callable[[str], None]) -> Steps[None]:
        steps, verdict = self._due[key], self._find(key)
        if verdict is not None and not verdict.is_current(self.book):
            before = verdict.evaluation
            yield from steps or self._evaluation(key, verdict.joined.features)
            verdict = self._find(key)
            if verdict is not None and (verdict.asked or not before.same_outcome(verdict.evaluation)):
                verdict.asked = False
                changed(key[0])
        self._due.pop(key, None)
        if verdict is not None and not verdict.is_current(self.book):
            self._leave(key, None)  # there is news meanwhile: others first

    def _tell_defect(self, key: Key, error: Exception) -> None:
        """The node goes on with its last outcome, which is not current, until it is asked about again."""
        self._due.pop(key, None)
        failed(EVALUATION, error, node=key[0])

    def _find(self, key: Key) -> NodeEvaluation | None:
        return (self._considered if key[1] else self._verdicts).get(key[0])

    def _evaluation(self, key: Key, features: Features) -> Steps[Evaluation]:
        """Evaluate, and note the outcome for whatever the node is to be judged on by then; a newer one stays."""
        book, begun = self.book, self._find(key)
        last = begun.book if begun is not None else None
        found = yield from self._judgement(key[0], book, features)
        now = self._find(key)
        if now is None or now.is_current(self.book) or (now.book is not last and now.book is not book):
            return found
        self._count_failing(key, now, -1)
        if now.evaluation.same_outcome(found):
            before = now.evaluation
            found = replace(found, contributions=before.contributions, matched=before.matched)
            found = before if before == found else found
        now.evaluation, now.book, now.judged = found, book, features  # not before there is an outcome
        self._count_failing(key, now, 1)
        if not key[1]:
            self._note(key[0], book, found)
        return found

    def _judgement(self, node: str, book: RuleSet, features: Features) -> Steps[Evaluation]:
        """What rules and groups make of these features, from memory if they made it of the same before."""
        seen = look(features, book.features) if book.repeatable else ()
        found = self._alike.get(seen) if book.repeatable else None
        if found is None:
            alike, here = self._alike, self.suspensions.active_on(node)
            found = yield from self._computed(book, features, here)
            if self._surprises(book, found):
                found = yield from self._computed(book, features, here)  # once more: it may have been the machine
            if not (found.took_too_long() or here) and book.repeatable and not found.refers:
                alike.put(seen, found)
        return found

    def _surprises(self, book: RuleSet, found: Evaluation) -> bool:
        """Whether something took too long that has not done so before."""
        keys: tuple[int | str, ...] = (*(id(book.rules[index]) for index in found.slow), *found.heavy)
        return not all(map(self.suspensions.is_expected, keys)) or (not found.complete and not keys)

    def _computed(self, book: RuleSet, features: Features, here: Collection[int | str]) -> Steps[Evaluation]:
        """`here` is what is suspended on the node alone."""
        found = yield from evaluation_steps(
            book.rules,
            book.groups,
            features,
            self.policy,
            self.suspensions.active,
            self._limits,
            suspended_here=here,
        )
        if book.rules:
            self._metrics.observe(RULES, found.seconds)
        return found

    def _note(self, node: str, book: RuleSet, found: Evaluation) -> None:
        self._told()
        if found.errors:
            self._metrics.add("nodefeaturerule_processing_errors", found.errors)
            self._complain(node, book, found)
        self._count_strikes(node, book, found)

    def _complain(self, node: str, book: RuleSet, found: Evaluation) -> None:
        """Name each rule that failed, and the first node on which it did so for that reason; suspensions are named."""
        rules = ((book.rules[index].origin, texts) for index, texts in found.failed().items())
        groups = ((group_origin(key), texts) for key, texts in found.group_problems.items())
        for rule, texts in (*rules, *groups):
            if (
                not {SUSPENDED, SUSPENDED_HERE}.issuperset(texts)
                and (rule, texts) not in self._said
                and len(self._said) < MOST_SAID
            ):
                self._said.add((rule, texts))
                _log.warning("rule failed; what it gave before stays", rule=rule, node=node, error="; ".join(texts))

    def _count_failing(self, key: Key, verdict: NodeEvaluation, by: int) -> None:
        if verdict.book is self.book and not key[1]:
            for index in verdict.evaluation.problems:
                self._failing[index] += by
                if not self._failing[index]:
                    del self._failing[index]

    def _count_strikes(self, node: str, book: RuleSet, found: Evaluation) -> None:
        """What takes too long on several nodes may do so on thousands: a pass over them must not take hours.

        Until then it is suspended on those nodes alone: what one of them reports concerns no other.
        """
        here = []
        for key, origin, members in _too_long(book, found):
            if self.suspensions.strike(node, key, members):
                _log.warning("suspended for a while, since it takes too long", rule=origin, node=node)
                self._rebind()
            elif self.suspensions.suspend_on(node, members):
                here.append(origin)
        if here:
            _log.warning(
                "suspended on this node for a while, since it takes too long there",
                rule=", ".join(here[:NAMED]),
                rules=len(here),
                node=node,
            )
            if not found.complete:
                self._again(node)  # those that were left out have their turn
            self.waiting.set()


def _too_long(book: RuleSet, found: Evaluation) -> Iterator[tuple[int | str, str, dict[int | str, object]]]:
    """What took too long: its key and origin, and itself or its rules by their keys."""
    for index in found.slow:
        placed = book.rules[index]
        yield id(placed), placed.origin, {id(placed): placed}
    for origin in found.heavy:
        members: dict[int | str, object] = {id(rule): rule for rule in book.rules if rule.sheet == origin}
        yield origin, origin, members | {name: one for one in book.groups if (name := group_origin(one.key)) == origin}


KNOWN = 256
"""Outcomes that are remembered, the latest ones."""

Identity = tuple[int, int, int] | None
Seen = tuple[Feature | None, ...]
T = TypeVar("T")


@dataclass(slots=True)
class Latest(Generic[T]):
    """Outcomes by what they were made of."""

    _known: LruCache[tuple[Identity, ...], tuple[Seen, T]] = field(default_factory=lambda: LruCache(KNOWN))

    def get(self, seen: Seen) -> T | None:
        found = self._known.get(identity(seen))
        return None if found is None else found[1]

    def put(self, seen: Seen, outcome: T) -> None:
        self._known.put(identity(seen), (seen, outcome))


def look(features: Features, names: Sequence[str]) -> Seen:
    """Those of the features, by their lower-case names."""
    return tuple(map(View(features).get, names))


def identity(seen: Seen) -> tuple[Identity, ...]:
    """Equal for the very same contents, and for nothing else while those are alive."""
    return tuple(None if one is None else (id(one.flags), id(one.attributes), id(one.instances)) for one in seen)
