"""What the rules make of each node, remembered: evaluated again only when features or rules are others."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from nfd import log
from nfd.features import Features
from nfd.master.memberships import with_groups
from nfd.master.metrics import RULES, Metrics
from nfd.master.objects import FeatureObject, Joining, join_objects
from nfd.master.recall import Latest, look
from nfd.master.rulebook import Evaluation, PlacedRule, Sheet, evaluate_node, looked_at
from nfd.report import Report
from nfd.rules.compiled import CompiledRule, Group
from nfd.rules.policy import Policy
from nfd.rules.template.budget import TOO_LONG
from nfd.rules.terms import MATCHED

SLICE = 0.01
"""Seconds that a pass over all nodes keeps the event loop; a single node may take longer."""
STRIKES = 3
"""Nodes on which a template may run out of its budget; then the rule is suspended until it is changed."""
MOST_SAID = 1000
"""Rules and reasons of failures that are logged until there are other rules; the status of each says all of them."""
SUSPENDED = f"suspended until it is changed: its template {TOO_LONG}"

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class Rulebook:
    """All rules of the cluster in the order in which they are evaluated, and the groups that we fill."""

    sheets: tuple[Sheet, ...] = ()
    rules: tuple[PlacedRule, ...] = ()
    origins: frozenset[str] = frozenset()
    groups: tuple[Group, ...] = ()
    features: tuple[str, ...] = ()
    """Names of all features that rules and groups look at."""
    repeatable: bool = False
    """Whether the outcome depends on these features alone, references to others apart."""

    def relying_on(self, sources: AbstractSet[str]) -> frozenset[str]:
        """Origins of the rules that look at features of one of these sources, or depend on a rule that does."""
        found: set[str] = set()
        for rule in self.rules if sources else ():
            if (rule.dependent and found) or any(name.partition(".")[0] in sources for name in rule.features):
                found.add(rule.origin)
        return frozenset(found)


def bind(sheets: Iterable[Sheet], groups: Iterable[Group], suspended: Sequence[PlacedRule] = ()) -> Rulebook:
    """Objects go by the byte order of their names (NFD documentation, "NodeFeatureRule")."""
    ordered = tuple(sorted(sheets, key=lambda sheet: sheet.name))
    rules = tuple(
        _suspend(rule) if any(rule is one for one in suspended) else rule for sheet in ordered for rule in sheet.rules
    )
    groups = tuple(groups)
    members = [rule for group in groups for rule in group.rules]
    names = {name for rule in rules for name in rule.features} | {name for rule in members for name in looked_at(rule)}
    repeatable = not any(rule.timed for rule in rules) and not any(rule.has_templates for rule in members)
    origins = frozenset(rule.origin for rule in rules)
    return Rulebook(ordered, rules, origins, groups, (*sorted(names | {MATCHED}),), repeatable)


def _suspend(placed: PlacedRule) -> PlacedRule:
    return replace(placed, rule=CompiledRule(placed.name, defect=SUSPENDED))


@dataclass(slots=True)
class Verdict:
    """One node: what it was judged on, and the outcome."""

    report: Report
    objects: Sequence[FeatureObject]
    joined: Report
    book: Rulebook
    evaluation: Evaluation = field(default_factory=Evaluation)


class Verdicts:
    """`told` is called whenever the outcome of any node is another one, `rebind` when a rule is to be suspended."""

    def __init__(
        self, joining: Joining, metrics: Metrics, told: Callable[[], None], rebind: Callable[[], None]
    ) -> None:
        self.book = Rulebook()
        self.suspended: list[PlacedRule] = []
        self._rebind = rebind
        self._strikes: Counter[int] = Counter()
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._joining = joining
        self._metrics = metrics
        self._told = told
        self._verdicts: dict[str, Verdict] = {}
        self._alike: Latest[Evaluation] = Latest()

    def __len__(self) -> int:
        return len(self._verdicts)

    def bind(self, sheets: Iterable[Sheet], groups: Iterable[Group]) -> None:
        """Put rules in force; nodes are judged by them when they are asked for, or by `judge_all`."""
        sheets = tuple(sheets)
        rules = [rule for sheet in sheets for rule in sheet.rules]
        self.suspended = [one for one in self.suspended if any(one is rule for rule in rules)]
        self.book = bind(sheets, groups, self.suspended)
        self._strikes.clear()
        self._said.clear()
        self._alike = Latest()

    @property
    def policy(self) -> Policy:
        return self._joining.policy

    def get(self, node: str) -> Verdict | None:
        return self._verdicts.get(node)

    def names(self) -> list[str]:
        return sorted(self._verdicts)

    def judge(self, node: str, report: Report, objects: Sequence[FeatureObject]) -> Verdict:
        """The verdict on a node, from memory if nothing has changed."""
        known = self._verdicts.get(node)
        if known is not None and known.report is report and known.objects == objects:
            if known.book is not self.book:
                self._judge_again(node, known)
            return known
        joined = join_objects(report, objects, self._joining)
        verdict = Verdict(report, objects, joined, self.book)
        if known is not None and known.book is self.book and known.joined.features == joined.features:
            verdict.evaluation = known.evaluation
        else:
            verdict.evaluation = self._evaluate(node, joined.features, known)
        if known is None or known.evaluation is not verdict.evaluation:
            self._told()
        self._verdicts[node] = verdict
        return verdict

    def forget(self, node: str) -> None:
        if self._verdicts.pop(node, None) is not None:
            self._told()

    def failing(self) -> int:
        """How many rules are wrong, or could not be evaluated on some node."""
        found = {index for index, rule in enumerate(self.book.rules) if rule.mistakes}
        found.update(*(one.evaluation.problems for one in self._verdicts.values() if one.book is self.book))
        return len(found)

    async def judge_all(self, changed: Callable[[str], None], stale: Callable[[], bool]) -> None:
        """Judge every node by the present book, a slice at a time; `changed` names those with another outcome.

        Ends early once `stale` tells that there are other rules to be put in force.
        """
        book, began = self.book, time.monotonic()
        for node in list(self._verdicts):
            verdict = self._verdicts.get(node)
            if verdict is not None and verdict.book is not book and self._judge_again(node, verdict):
                changed(node)
            spent = time.monotonic() - began
            if spent > SLICE:
                await asyncio.sleep(spent if spent > 2 * SLICE else 0.0)  # a rule that takes long leaves half the time
                began = time.monotonic()
            if book is not self.book or stale():
                return

    def _judge_again(self, node: str, verdict: Verdict) -> bool:
        """Whether the node is to become something else; if not, it has the very outcome that it had."""
        before, book = verdict.evaluation, self.book
        verdict.evaluation = self._evaluate(node, verdict.joined.features, verdict)
        verdict.book = book  # not before there is an outcome by these rules
        self._told()
        return not before.same_outcome(verdict.evaluation)

    def _evaluate(self, node: str, features: Features, known: Verdict | None) -> Evaluation:
        """Evaluate; what is equal to what was known is handed on as the same value."""
        began = time.perf_counter()
        found = self._judgement(features)
        if self.book.rules:
            self._metrics.observe(RULES, time.perf_counter() - began)
            self._count_strikes(found)
        if found.errors:
            self._metrics.add("nodefeaturerule_processing_errors", found.errors)
            self._complain(node, found)
        if known is not None and known.evaluation.same_outcome(found):
            before = known.evaluation
            found = replace(found, contributions=before.contributions, matched=before.matched)
            return before if before == found else found
        return found

    def _judgement(self, features: Features) -> Evaluation:
        """What rules and groups make of these features, from memory if they made it of the same before."""
        book, policy = self.book, self._joining.policy
        seen = look(features, book.features) if book.repeatable else ()
        found = self._alike.get(seen) if book.repeatable else None
        if found is None:
            found = with_groups(evaluate_node(book.rules, features, policy), book.groups, features)
            if book.repeatable and not any(one.refers for one in found.contributions):
                self._alike.put(seen, found)
        return found

    def _complain(self, node: str, found: Evaluation) -> None:
        """Name each rule that failed, and the first node on which it did so for that reason."""
        rules = ((self.book.rules[at].origin, texts) for at, texts in found.problems.items() if at not in found.held)
        groups = ((f"group:{'/'.join(key)}", texts) for key, texts in found.group_problems.items())
        for rule, texts in (*rules, *groups):
            if (rule, texts) not in self._said and len(self._said) < MOST_SAID:
                self._said.add((rule, texts))
                _log.warning("rule failed; what it gave before stays", rule=rule, node=node, error="; ".join(texts))

    def _count_strikes(self, found: Evaluation) -> None:
        """A template that takes too long on one node does so on thousands: a pass over them must not take hours."""
        for index in found.slow:
            self._strikes[index] += 1
            placed = self.book.rules[index]
            out = self._strikes[index] >= STRIKES or not found.complete
            if out and not any(placed is one for one in self.suspended):
                self.suspended.append(placed)
                self._rebind()
