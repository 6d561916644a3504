"""Reconciles one Node: read, plan, write, and retry on conflict. The only code that writes to the cluster."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nfd.errors import Conflict, KubeError, NotFound
from nfd.master.http.metrics import PLAN, Metrics
from nfd.master.node.annotation_budget import fitting_plan
from nfd.master.node.condition_rejections import ConditionRejections
from nfd.master.node.conditions import derive_conditions, is_own_unknown, no_conditions
from nfd.master.node.desired import Contribution, Desired, derive_freshness
from nfd.master.node.drift import Drift, Key
from nfd.master.node.inherited import is_carried
from nfd.master.node.known_rejections import EVERYTHING, Rejections, Unwritten
from nfd.master.node.outcome import NO_RULES, DesiredCache, Outcome, evaluate_node
from nfd.master.node.plan import CONDITIONS, Act, Goal, NodePlan
from nfd.master.node.proof import Proof
from nfd.master.node.shared_labels import SHARED
from nfd.master.node.startup_taints import NO_REPORT, UNLABELLED, UNPUBLISHED, StartupTaints
from nfd.master.node.undecided import Undecided, find_undecided
from nfd.master.node.writer import Budget, Writer, apply_plan
from nfd.master.reports.store import ReportStore, Standing, same_content
from nfd.master.rules.evaluation import Evaluation
from nfd.master.rules.nodefeatures import Joining
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.runtime import log
from nfd.store.base import FIELD_MANAGER, Condition, Kind, Node, NodeStore

ATTEMPTS = 6
"""Attempts of one pass. The first three use the Node of the informer, the others read it from the API server."""
CONFLICT_DELAY = 0.05
"""Seconds after the first conflict, doubled each time, so that the informer can catch up."""
LONG_PLAN = 0.02
"""Seconds. After a plan that took longer, as one for thousands of labels does, plans wait for as long as it took."""
MAX_LOGGED = 50
"""Rejected keys that have a log line each; more are logged as a number."""

Conditions = Mapping[str, Condition | None]
"""Conditions by type, None for one to remove."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """Options of the master's configuration that concern passes."""

    policy: Policy = field(default_factory=Policy)
    overwrite: bool = True
    instance: str = ""
    publish: bool = True
    startup_taints: frozenset[str] = frozenset()
    """The taints that are removed from a Node once it is labelled, as `parse_startup_taint` returns them."""
    conditions: bool = False
    """Whether Nodes get conditions; without, those of nfd are removed."""
    proof: Proof = field(default_factory=Proof.of_this_process)
    evaluate: Callable[[Node, Report | None], Outcome | None] | None = None
    """The desired outcome of a node; None to leave it unchanged. The report is None if there is none yet.

    If `evaluate` is None, there are no rules and objects, and only a report is used.
    """

    def outcome_of(self, node: Node, report: Report | None) -> Outcome | None:
        if self.evaluate is not None:
            return self.evaluate(node, report)
        return None if report is None else evaluate_node(node, report, NO_RULES, (), Joining(self.policy))


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A node without changes to make, and what the check was based on."""

    node: Node
    asked: Outcome
    contributions: tuple[Contribution, ...]
    conditions: Conditions
    speaks: bool
    """Whether the report gives conditions."""

    def holds(self, node: Node, asked: Outcome, *, speaks: bool) -> bool:
        """Whether a new check would give the same result."""
        then = self.asked
        return (
            self.speaks == speaks
            and self.contributions == tuple(asked.evaluation.contributions)
            and asked.evaluation.matched == then.evaluation.matched
            and same_content(asked.report, then.report)
            and asked.fresh == then.fresh
            and node.same_content(self.node)
        )


@dataclass(frozen=True, slots=True)
class _Settled:
    """The outcome of the last pass over a node, the conditions that the Node has since, and the keys that were left
    unchanged."""

    asked: Outcome
    conditions: Conditions
    left: frozenset[Key] = frozenset()

    def drifted(self, asked: Outcome, planned: NodePlan) -> list[Key]:
        """Keys and conditions that another writer must have changed since."""
        then = self.asked
        if then.report is not asked.report or then.evaluation.contributions is not asked.evaluation.contributions:
            return []
        removes = any(change.remove for change in planned.changes.values()) and not planned.before.doubt
        explained = self.left or SHARED & planned.changes[Kind.LABELS].refused or removes
        notes = planned.records if explained else ()  # then the lists differ for that reason
        found = [(kind, key) for kind, key in planned.written() if (kind, key) not in self.left and key not in notes]
        return [*found, *((CONDITIONS, name) for name in planned.conditions if self._drifted_condition(name, planned))]

    def _drifted_condition(self, name: str, planned: NodePlan) -> bool:
        """Whether another writer changed a condition; the master makes one Unknown without a pass."""
        wanted = planned.conditions[name]
        return (
            name in self.conditions
            and self.conditions[name] == wanted
            and (CONDITIONS, name) not in self.left
            and not is_own_unknown(planned.node.conditions.get(name))
        )


class Reconciler:
    """Brings Nodes to their desired state. `wake(node, seconds)` queues a pass over a node.

    `heard` says whether a node's worker has reported recently, `stamp` is the time for conditions.
    `condition_rejections` are known to whoever else writes conditions.
    """

    def __init__(
        self,
        store: NodeStore,
        reports: ReportStore,
        settings: ReconcileOptions,
        metrics: Metrics,
        wake: Callable[[str, float], None] = lambda name, seconds: None,
        now: Callable[[], float] = time.monotonic,
        heard: Callable[[str], bool] = lambda name: True,
        stamp: Callable[[], str] = lambda: "",
        condition_rejections: ConditionRejections | None = None,
    ) -> None:
        self.drift = Drift()
        self._store = store
        self._reports = reports
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._heard = heard
        self._stamp = stamp
        self._settled: dict[str, _Settled] = {}
        self._rejections = Rejections(wake)
        self._condition_rejections = condition_rejections or ConditionRejections(now)
        self._writer = Writer(store, metrics, self._rejections, self._condition_rejections, reports.given_up, now)
        self._startup = self._startup_taints()
        self._contradicted: dict[str, tuple[Unwritten, ...]] = {}
        self._foreign: dict[str, frozenset[str]] = {}
        self._logged: dict[str, int] = {}
        self._unchanged: dict[str, _Unchanged] = {}
        self._carried: dict[str, tuple[Node, Report]] = {}
        """Inherited reports, each with the Node that carries what it gives."""
        self._derivations = DesiredCache()
        self._generation = object()
        self._pause_until = 0.0

    async def reconcile(self, name: str) -> float | None:
        """One pass; returns after how many seconds the node needs another, if it does. Raises: KubeError."""
        self._metrics.add("node_update_requests")
        try:
            return await self._reconcile(name)
        except KubeError:
            self._rejections.hand_over(name, self._now())
            raise

    async def _reconcile(self, name: str) -> float | None:
        budget = Budget()
        for attempt in range(ATTEMPTS):
            try:
                await self._pause()
                node = await self._node(name, attempt)
                began = time.perf_counter()
                if node is None:
                    break
                report = self._reports.current(node)
                if report is not None and self._reports.standing(name) is not Standing.REPORTED:
                    asked = self._evaluate_inherited(node, report)
                else:
                    self._carried.pop(name, None)
                    asked = self._settings.outcome_of(node, report)
                if asked is not None:
                    again = await self._converge(node, asked, began, budget)
                    return _sooner(again, await self._release(name, report, asked))
                self._rejections.hand_over(name, self._now())
                return None
            except NotFound:
                break
            except Conflict as error:
                if attempt == ATTEMPTS - 1:
                    raise
                _log.debug("node changed during the pass", node=name, error=error)
                await asyncio.sleep(CONFLICT_DELAY * 2**attempt * random.uniform(1.0, 1.5))
        self.forget(name)  # a pass over a deleted node must leave no state
        return None

    def configure(self, settings: ReconcileOptions) -> None:
        """Use other options. Their changes do not count as drift, and rejected changes are tried again.

        The changes of a pass that is in progress do not count either.
        """
        self._settings = settings
        self._startup = self._startup_taints()
        self._derivations = DesiredCache()
        self._generation = object()
        self._rejections.clear()
        self._condition_rejections.clear()
        for memory in self._memories():
            memory.clear()

    def forget(self, name: str) -> None:
        """Forget a deleted node."""
        self.drift.forget(name)
        self._rejections.forget(name)
        self._startup.forget(name)
        self._condition_rejections.forget(name)
        for memory in self._memories():
            memory.pop(name, None)

    def _memories(self) -> tuple[dict[str, Any], ...]:
        """What is remembered of nodes, by name."""
        return self._settled, self._logged, self._unchanged, self._carried, self._contradicted, self._foreign

    def refused(self) -> list[Unwritten]:
        """Keys that the API server rejects, with their nodes."""
        return self._rejections.unwritten()

    def kept_taints(self, node: Node) -> Mapping[str, str]:
        """The startup taints that the Node still has, and why."""
        return dict.fromkeys(self._startup.on(node), self._startup.kept.get(node.name, NO_REPORT))

    def contradicted(self) -> list[Unwritten]:
        """Shared labels that another product has set to another value than was found."""
        return [one for found in self._contradicted.values() for one in found]

    async def _node(self, name: str, attempt: int) -> Node | None:
        if attempt >= 3:
            return await self._store.read(name)
        node = self._store.get(name)
        return node if node is not None or not self._reports.unmet(name) else await self._store.ensure(name)

    def _evaluate_inherited(self, node: Node, report: Report) -> Outcome | None:
        """The desired outcome by an inherited report, which counts only if the Node carries what it gives."""
        carried = self._is_carried(node, report)
        self._reports.assess(node.name, carried=carried)
        asked = self._settings.outcome_of(node, report if carried else None)
        return replace(asked, fresh=asked.fresh.for_inherited()) if carried and asked is not None else asked

    def _is_carried(self, node: Node, report: Report) -> bool:
        """Whether the Node carries what the report gives. It is not checked again while neither changes."""
        known = self._carried.pop(node.name, None)
        if known is None or known[1] is not report or not node.same_content(known[0]):
            fresh = replace(derive_freshness(report, objects_synced=False), objects_settled=False)
            goal = self._goal(node, Outcome(report, fresh, Evaluation(), self._settings.policy))
            if not is_carried(node, goal, report.order):
                return False
            if goal.contested or goal.foreign or goal.remembered is not None:
                return True
        self._carried[node.name] = node, report
        return True

    async def _converge(self, node: Node, asked: Outcome, began: float, budget: Budget) -> float | None:
        rest, speaks = self._unchanged.pop(node.name, None), self._speaks(node, asked)
        if rest is not None and rest.holds(node, asked, speaks=speaks):
            self._settled[node.name] = _Settled(asked, rest.conditions)
            self._unchanged[node.name] = replace(rest, node=node, asked=asked)
            return None
        generation, goal = self._generation, self._goal(node, asked)
        planned, goal = fitting_plan(goal, node)
        settled = self._settled.get(node.name)
        if settled is not None and (drifted := settled.drifted(asked, planned)):
            self._note_drift(node, drifted)
            goal = self._goal(node, asked)
            planned, goal = fitting_plan(goal, node)
        self._took(began)
        self._log_rejected(node, goal.desired, planned)
        if not self._settings.publish:
            return None
        if not planned:
            self._rejections.wants_nothing(node.name, self._now())
        elif not (asked.fresh.reported or any(planned.changes.values())):
            self._rejections.hand_over(node.name, self._now())
        else:
            return await self._write(goal, planned, budget, generation, asked)
        self._settle(node, generation, asked, goal, frozenset())
        if not (planned or goal.contested or goal.desired.dropped) and generation is self._generation:
            contributions = tuple(asked.evaluation.contributions)
            self._unchanged[node.name] = _Unchanged(node, asked, contributions, goal.conditions, speaks)
        return self.drift.wait(node.name, self._now())

    def _took(self, began: float) -> None:
        """Note the time that a plan took."""
        ended = time.perf_counter()
        self._metrics.observe(PLAN, ended - began)
        if ended - began > LONG_PLAN:
            self._pause_until = 2 * ended - began

    async def _pause(self) -> None:
        """Let probes and reports be answered between long plans, which other passes are about to make, too."""
        while (seconds := self._pause_until - time.perf_counter()) > 0:
            await asyncio.sleep(seconds)

    async def _write(
        self, goal: Goal, planned: NodePlan, budget: Budget, generation: object, asked: Outcome
    ) -> float | None:
        node = planned.node
        left, again = await self._writer.write(goal, planned, budget)
        if EVERYTHING in left:
            self._settled.pop(node.name, None)  # later differences are not all drift
        else:
            self._settle(node, generation, asked, goal, left)
        return _sooner(again, self.drift.wait(node.name, self._now()))

    async def _release(self, name: str, report: Report | None, asked: Outcome) -> float | None:
        """Remove the startup taints of a Node whose labels are written."""
        settled = self._settled.get(name)
        if settled is None or settled.asked is not asked:
            self._startup.kept[name] = UNLABELLED if self._settings.publish else UNPUBLISHED
            return None
        return await self._startup.release(name, report, asked, self._now())

    def _startup_taints(self) -> StartupTaints:
        settings = self._settings
        return StartupTaints(self._store, self._metrics, settings.startup_taints, settings.instance)

    def _settle(self, node: Node, generation: object, asked: Outcome, goal: Goal, left: frozenset[Act]) -> None:
        """Record the result of the pass, without these acts."""
        if generation is self._generation:
            contested = ((kind, key) for kind, keys in goal.contested.items() for key in keys)
            left_out = self._condition_rejections.waits(node.name)
            keys = frozenset[Key]((*contested, *(act[:2] for act in left)))
            self._settled[node.name] = _Settled(asked, {} if left_out else goal.conditions, keys)

    def _speaks(self, node: Node, asked: Outcome) -> bool:
        """Whether conditions are derived: only a recent report to this master says anything."""
        return (
            self._settings.conditions
            and asked.fresh.reported
            and self._heard(node.name)
            and not self._condition_rejections.waits(node.name)
        )

    def _conditions(self, node: Node, asked: Outcome, desired: Desired, undecided: Undecided) -> Conditions:
        """The desired conditions."""
        if not self._settings.conditions:
            return no_conditions(node, self._settings.instance)
        report = self._reports.get(node.name)
        if report is None or not self._speaks(node, asked):
            return {}
        return derive_conditions(node, report, desired, undecided, self._settings.instance)

    def _goal(self, node: Node, asked: Outcome) -> Goal:
        settings, name, desired = self._settings, node.name, self._derivations.derive(asked)
        undecided = find_undecided(desired, asked.fresh, node, settings.instance, settings.proof)
        contested = self.drift.contested(name, self._now())
        if undecided.labels:
            contested = {**contested, Kind.LABELS: contested.get(Kind.LABELS, frozenset()) | undecided.labels}
        return Goal(
            desired,
            asked.fresh,
            settings.overwrite,
            settings.instance,
            contested,
            foreign=self._foreign.get(name, frozenset()) & node.labels.keys(),
            remembered=self._rejections.remembered.get(name),
            policy=settings.policy,
            proof=settings.proof,
            conditions=self._conditions(node, asked, desired, undecided),
            stamp=self._stamp(),
        )

    def _note_drift(self, node: Node, drifted: Sequence[Key]) -> None:
        """Another writer changed or removed managed keys."""
        del self._settled[node.name]
        foreign = {key for kind, key in drifted if kind == Kind.LABELS and key in SHARED & node.labels.keys()}
        if foreign:
            self._foreign[node.name] = self._foreign.get(node.name, frozenset()) | foreign
        waits = self.drift.note(node.name, [one for one in drifted if one[1] not in foreign], self._now())
        self._metrics.add("drift_restored", len(waits))
        changed: dict[tuple[str, float], list[str]] = {}
        for (kind, key), seconds in waits.items():
            changed.setdefault((_changer(node, kind, key), seconds), []).append(key)
        for (manager, seconds), keys in changed.items():
            fields = {"node": node.name, "keys": keys, "manager": manager}
            if seconds:
                _log.warning("keys are changed repeatedly; restoring them later", seconds=seconds, **fields)
            else:
                _log.info("restoring keys that another writer changed", **fields)

    def _log_rejected(self, node: Node, desired: Desired, planned: NodePlan) -> None:
        """Count rejected keys, and log what was not done, once while it stays the same."""
        for dropped in desired.dropped:
            self._metrics.reject(dropped.kind)
        refused = {key: kind for kind, change in planned.changes.items() for key in change.refused}
        others = _contradictions(node, desired, planned)
        problems = hash((desired.dropped, frozenset(refused), planned.before.doubt, planned.left, others))
        if self._logged.get(node.name) == problems:
            return
        self._logged[node.name] = problems
        self._contradicted.pop(node.name, None)
        if others:
            self._contradicted[node.name] = others
        for dropped in desired.dropped[:MAX_LOGGED]:
            _log.warning("key rejected", node=node.name, label=dropped.key, error=dropped.reason)
        if more := len(desired.dropped[MAX_LOGGED:]):
            _log.warning("more keys rejected", node=node.name, labels=more, error=desired.dropped[-1].reason)
        for key, kind in refused.items():
            _log.info("key is owned by another manager", node=node.name, label=key, kind=kind)
        for one in others:
            _log.warning("another product changed a shared label", node=node.name, label=one.key, error=one.reason)
        if planned.before.doubt:
            _log.info("managed keys on the node are not proven", node=node.name, error=planned.before.doubt)
        if planned.left:
            left = sorted(key for _, key in planned.left)
            _log.warning(
                "keys in the lists stay, since nfd may not remove them", node=node.name, keys=left[:MAX_LOGGED]
            )


def _sooner(*seconds: float | None) -> float | None:
    return min((one for one in seconds if one is not None), default=None)


async def write_repeatedly(store: NodeStore, name: str, plan: Callable[[Node], NodePlan]) -> NodePlan:
    """Plan and write one node until there is no conflict. Returns the plan that was carried out. Raises: KubeError."""
    for attempt in range(ATTEMPTS):
        planned = plan(await store.read(name))
        try:
            await apply_plan(store, planned)
        except Conflict:
            await asyncio.sleep(CONFLICT_DELAY * 2**attempt)
        else:
            return planned
    raise KubeError(f"node {name}: changed {ATTEMPTS} times while it was being written")


def _changer(node: Node, kind: str, key: str) -> str:
    """Who changed a managed key, from managedFields."""
    if kind == CONDITIONS:
        return "unknown"
    if key not in node.actual(Kind(kind)):
        return "unknown, since the key was removed"
    known = node.writers.get(key) if kind == Kind.LABELS else None
    return known or (node.writer if node.writer not in ("", FIELD_MANAGER) else "unknown")


def _contradictions(node: Node, desired: Desired, planned: NodePlan) -> tuple[Unwritten, ...]:
    """Shared labels that another product has set to another value than was found."""
    wanted, change = desired.of(Kind.LABELS), planned.changes[Kind.LABELS]
    found = []
    for key in sorted(SHARED & change.refused):
        if (foreign := node.labels.get(key)) is not None and foreign != wanted.get(key):
            by = node.writers.get(key, "somebody")
            reason = f"{by} set it to {foreign!r}, but {wanted.get(key)!r} was found"
            found.append(Unwritten(Kind.LABELS.one, key, by, reason, (node.name,)))
    return tuple(found)
