"""One pass over one node: read it, plan, write, and again on conflict. The only code that writes to the cluster."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nfd.errors import Conflict, KubeError, NotFound
from nfd.master.http.metrics import PLAN, Metrics
from nfd.master.node.annotation_budget import fitting_plan
from nfd.master.node.cache import DesiredCache, same_content
from nfd.master.node.desired import Contribution, Desired
from nfd.master.node.drift import Drift, Key
from nfd.master.node.outcome import NO_RULES, Outcome, evaluate_report
from nfd.master.node.plan import SHARED, Act, Goal, NodePlan
from nfd.master.node.proof import Proof
from nfd.master.node.rejections import EVERYTHING, Rejections, Unwritten
from nfd.master.node.writer import Budget, Writer, apply_plan
from nfd.master.reports.store import ReportStore
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.runtime import log
from nfd.store.base import FIELD_MANAGER, Kind, Node, NodeStore

ATTEMPTS = 6
"""Tries of one pass; the first three take the Node from the watch, the others ask for it."""
CONFLICT_DELAY = 0.05
"""Seconds after the first conflict, then twice as long each time: time for the watch to tell."""
MOST_TOLD = 50
"""Keys that are not allowed of which each has a line of its own in the log."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What the configuration says about passes."""

    policy: Policy = field(default_factory=Policy)
    overwrite: bool = True
    instance: str = ""
    publish: bool = True
    proof: Proof = field(default_factory=Proof.of_this_process)
    ask: Callable[[Node, Report | None], Outcome | None] | None = None
    """What a node is to become; None to leave it as it is. The report is None while none has come.

    Without it there are no rules and no objects, and only a report says something.
    """

    def outcome_of(self, node: Node, report: Report | None) -> Outcome | None:
        if self.ask is not None:
            return self.ask(node, report)
        return None if report is None else evaluate_report(report, NO_RULES, self.policy)


@dataclass(frozen=True, slots=True)
class _Rest:
    """A node that was found to be as it was asked to be."""

    node: Node
    asked: Outcome
    contributions: tuple[Contribution, ...]

    def holds(self, node: Node, asked: Outcome) -> bool:
        """Whether it would be found so again."""
        then = self.asked
        return (
            self.contributions == tuple(asked.evaluation.contributions)
            and asked.evaluation.matched == then.evaluation.matched
            and (asked.report is then.report or same_content(asked.report, then.report))
            and asked.fresh == then.fresh
            and (node is self.node or node.same_content(self.node))
        )


@dataclass(frozen=True, slots=True)
class _Settled:
    """What was asked of a node in its last pass, and which keys were left as they were nevertheless."""

    asked: Outcome
    left: frozenset[Key] = frozenset()

    def drifted(self, asked: Outcome, planned: NodePlan) -> list[Key]:
        """What somebody else must have changed since, as nothing else was asked in between."""
        then = self.asked
        if then.report is not asked.report or then.evaluation.contributions is not asked.evaluation.contributions:
            return []
        ours_no_more = self.left or SHARED & planned.changes[Kind.LABELS].refused
        notes = planned.records if ours_no_more else ()  # then our lists differ for that reason
        return [(kind, key) for kind, key in planned.written() if (kind, key) not in self.left and key not in notes]


class Reconciler:
    """Brings Nodes to what their reports, and the rules, want. `wake(node, seconds)` asks for a pass over a node."""

    def __init__(
        self,
        store: NodeStore,
        reports: ReportStore,
        settings: ReconcileOptions,
        metrics: Metrics,
        wake: Callable[[str, float], None] = lambda name, seconds: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.drift = Drift()
        self._store = store
        self._reports = reports
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._settled: dict[str, _Settled] = {}
        self._refusals = Rejections(wake)
        self._writer = Writer(store, metrics, self._refusals, reports.given_up, now)
        self._contradicted: dict[str, tuple[Unwritten, ...]] = {}
        self._theirs: dict[str, frozenset[str]] = {}
        self._said: dict[str, int] = {}
        self._resting: dict[str, _Rest] = {}
        self._derivations = DesiredCache()
        self._era = object()

    async def reconcile(self, name: str) -> float | None:
        """One pass; answers after how many seconds the node wants another, if it does. Raises: KubeError."""
        self._metrics.add("node_update_requests")
        try:
            return await self._reconcile(name)
        except KubeError:
            self._refusals.hand_over(name, self._now())
            raise

    async def _reconcile(self, name: str) -> float | None:
        budget = Budget()
        for attempt in range(ATTEMPTS):
            try:
                node = await self._node(name, attempt)
                began = time.perf_counter()
                asked = self._settings.outcome_of(node, self._reports.current(node)) if node is not None else None
                if node is None:
                    break
                if asked is not None:
                    return await self._converge(node, asked, began, budget)
                self._refusals.hand_over(name, self._now())
                return None
            except NotFound:
                break
            except Conflict as error:
                if attempt == ATTEMPTS - 1:
                    raise
                _log.debug("node changed in between", node=name, error=error)
                await asyncio.sleep(CONFLICT_DELAY * 2**attempt * random.uniform(1.0, 1.5))
        self.forget(name)  # a pass that was under way when the node went leaves nothing behind
        return None

    def configure(self, settings: ReconcileOptions) -> None:
        """Go on with other settings: what differs then is nobody's doing, and what was refused may be taken.

        What a pass that is under way brings its node to does not count, either.
        """
        self._settings = settings
        self._derivations = DesiredCache()
        self._era = object()
        self._refusals.clear()
        for memory in (self._settled, self._said, self._resting, self._contradicted, self._theirs):
            memory.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self.drift.forget(name)
        self._refusals.forget(name)
        for memory in (self._settled, self._said, self._resting, self._contradicted, self._theirs):
            memory.pop(name, None)

    def refused(self) -> list[Unwritten]:
        """Keys that nodes are without, since the API server refuses them."""
        return self._refusals.unwritten()

    def contradicted(self) -> list[Unwritten]:
        """Labels that others share and have set to something else than what was found."""
        return [one for found in self._contradicted.values() for one in found]

    async def _node(self, name: str, attempt: int) -> Node | None:
        if attempt >= 3:
            return await self._store.read(name)
        node = self._store.get(name)
        return node if node is not None or not self._reports.unmet(name) else await self._store.ensure(name)

    async def _converge(self, node: Node, asked: Outcome, began: float, budget: Budget) -> float | None:
        rest = self._resting.pop(node.name, None)
        if rest is not None and rest.holds(node, asked):
            self._settled[node.name], self._resting[node.name] = _Settled(asked), _Rest(node, asked, rest.contributions)
            return None
        era, goal = self._era, self._goal(node, asked)
        planned, goal = fitting_plan(goal, node)
        settled = self._settled.get(node.name)
        if settled is not None and (drifted := settled.drifted(asked, planned)):
            self._note_drift(node, drifted)
            planned, goal = fitting_plan(self._goal(node, asked), node)
        self._metrics.observe(PLAN, time.perf_counter() - began)
        self._tell(node, goal.desired, planned)
        if not self._settings.publish:
            return None
        if not planned:
            self._refusals.wants_nothing(node.name, self._now())
        elif not (asked.fresh.reported or any(planned.changes.values())):
            self._refusals.hand_over(node.name, self._now())
        else:
            return await self._write(goal, planned, budget, era, asked)
        self._settle(node, era, asked, goal, frozenset())
        if not (planned or goal.contested or goal.desired.dropped) and era is self._era:
            self._resting[node.name] = _Rest(node, asked, tuple(asked.evaluation.contributions))
        return self.drift.wait(node.name, self._now())

    async def _write(self, goal: Goal, planned: NodePlan, budget: Budget, era: object, asked: Outcome) -> float | None:
        node = planned.node
        left, again = await self._writer.write(goal, planned, budget)
        if EVERYTHING in left:
            self._settled.pop(node.name, None)  # what differs from it next time is not all somebody's doing
        else:
            self._settle(node, era, asked, goal, left)
        return min((one for one in (again, self.drift.wait(node.name, self._now())) if one is not None), default=None)

    def _settle(self, node: Node, era: object, asked: Outcome, goal: Goal, left: frozenset[Act]) -> None:
        """The pass is over, and has left these acts out."""
        if era is self._era:
            contested = ((kind, key) for kind, keys in goal.contested.items() for key in keys)
            self._settled[node.name] = _Settled(asked, frozenset((*contested, *(act[:2] for act in left))))

    def _goal(self, node: Node, asked: Outcome) -> Goal:
        settings, name = self._settings, node.name
        return Goal(
            self._derivations.derive(asked),
            asked.fresh,
            settings.overwrite,
            settings.instance,
            self.drift.contested(name, self._now()),
            theirs=self._theirs.get(name, frozenset()) & node.labels.keys(),
            remembered=self._refusals.remembered.get(name),
            policy=settings.policy,
            proof=settings.proof,
        )

    def _note_drift(self, node: Node, drifted: Sequence[Key]) -> None:
        """Somebody changed keys of ours, or removed them."""
        del self._settled[node.name]
        theirs = {key for kind, key in drifted if kind is Kind.LABELS and key in SHARED & node.labels.keys()}
        if theirs:
            self._theirs[node.name] = self._theirs.get(node.name, frozenset()) | theirs
        waits = self.drift.note(node.name, [one for one in drifted if one[1] not in theirs], self._now())
        self._metrics.add("drift_restored", len(waits))
        told: dict[tuple[str, float], list[str]] = {}
        for (kind, key), seconds in waits.items():
            told.setdefault((_changer(node, kind, key), seconds), []).append(key)
        for (manager, seconds), keys in told.items():
            fields = {"node": node.name, "keys": keys, "manager": manager}
            if seconds:
                _log.warning("keys are changed again and again; restoring them later", seconds=seconds, **fields)
            else:
                _log.info("restoring keys that somebody changed", **fields)

    def _tell(self, node: Node, desired: Desired, planned: NodePlan) -> None:
        """Count what was not allowed, and say what was not done, once for as long as it stays the same."""
        for dropped in desired.dropped:
            self._metrics.reject(dropped.kind)
        refused = {key: kind for kind, change in planned.changes.items() for key in change.refused}
        others = _contradictions(node, desired, planned)
        said = hash((desired.dropped, frozenset(refused), planned.before.doubt, planned.left, others))
        if self._said.get(node.name) == said:
            return
        self._said[node.name] = said
        self._contradicted.pop(node.name, None)
        if others:
            self._contradicted[node.name] = others
        for dropped in desired.dropped[:MOST_TOLD]:
            _log.warning("not allowed", node=node.name, label=dropped.key, error=dropped.reason)
        if more := len(desired.dropped[MOST_TOLD:]):
            _log.warning("more is not allowed", node=node.name, labels=more, error=desired.dropped[-1].reason)
        for key, kind in refused.items():
            _log.info("left to its owner", node=node.name, label=key, kind=kind)
        for one in others:
            _log.warning("label contradicts what was found", node=node.name, label=one.key, error=one.reason)
        if planned.before.doubt:
            _log.info("lists on the node are not known to be ours", node=node.name, error=planned.before.doubt)
        if planned.left:
            left = sorted(key for _, key in planned.left)
            _log.warning("keys listed as ours are not ours to remove", node=node.name, keys=left[:MOST_TOLD])


async def write_repeatedly(store: NodeStore, name: str, plan: Callable[[Node], NodePlan]) -> NodePlan:
    """Plan and write one node until no conflict is left; answers the plan that was carried out. Raises: KubeError."""
    for attempt in range(ATTEMPTS):
        planned = plan(await store.read(name))
        try:
            await apply_plan(store, planned)
        except Conflict:
            await asyncio.sleep(CONFLICT_DELAY * 2**attempt)
        else:
            return planned
    raise KubeError(f"node {name}: changed {ATTEMPTS} times while it was being written")


def _changer(node: Node, kind: Kind, key: str) -> str:
    """Who changed a key of ours, as far as the API server notes it."""
    if key not in node.actual(kind):
        return "unknown, the key was removed"
    known = node.writers.get(key) if kind is Kind.LABELS else None
    return known or (node.writer if node.writer not in ("", FIELD_MANAGER) else "unknown")


def _contradictions(node: Node, desired: Desired, planned: NodePlan) -> tuple[Unwritten, ...]:
    """Labels that another product shares with us and has set to something else than what was found."""
    wanted, change = desired.of(Kind.LABELS), planned.changes[Kind.LABELS]
    found = []
    for key in sorted(SHARED & change.refused):
        if (theirs := node.labels.get(key)) is not None and theirs != wanted.get(key):
            by = node.writers.get(key, "somebody")
            reason = f"set to {theirs!r} by {by}, though {wanted.get(key)!r} was found"
            found.append(Unwritten(Kind.LABELS.one, key, by, reason, (node.name,)))
    return tuple(found)
