"""One pass over one node: read it, plan, write, and again on conflict. The only code that writes to the cluster."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from nfd import log
from nfd.errors import Conflict, Invalid, KubeError, NotFound
from nfd.master.alike import Derivations, same_content
from nfd.master.desired import Contribution, Desired, Freshness, derive_freshness
from nfd.master.drift import PAUSE, Drift, Key
from nfd.master.metrics import CONFLICT, FAILED, PATCH, PATCHED, PLAN, REFUSED, Metrics
from nfd.master.patch import guarded, patches
from nfd.master.plan import Goal, NodePlan, plan_node
from nfd.master.proof import Proof
from nfd.master.refusals import Refusals
from nfd.master.removal import count_removals
from nfd.master.reports import Reports
from nfd.master.room import fitting_plan
from nfd.report import Report
from nfd.rules.policy import Policy
from nfd.store.base import Kind, Node, NodeStore

ATTEMPTS = 6
"""Tries of one pass; the first three take the Node from the watch, the others ask for it."""
CONFLICT_DELAY = 0.05
"""Seconds after the first conflict, then twice as long each time: time for the watch to tell."""
MOST_TOLD = 50
"""Keys that are not allowed of which each has a line of its own in the log."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a node: its report, the objects of third parties joined, and what rules make of them.

    Report and contributions are the same values as before for as long as nothing changed.
    """

    report: Report
    fresh: Freshness
    contributions: Sequence[Contribution] = ()
    matched: Mapping[str, str] | None = None


def ask_report(node: Node, report: Report | None) -> Asked | None:
    """No rules and no third-party objects."""
    return None if report is None else Asked(report, derive_freshness(report))


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says about passes."""

    policy: Policy = field(default_factory=Policy)
    overwrite: bool = True
    instance: str = ""
    publish: bool = True
    proof: Proof = field(default_factory=Proof.of_this_process)
    ask: Callable[[Node, Report | None], Asked | None] = ask_report
    """What a node is to become; None to leave it as it is. The report is None while none has come."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """A node that was found to be as it was asked to be."""

    node: Node
    asked: Asked
    contributions: tuple[Contribution, ...]

    def holds(self, node: Node, asked: Asked) -> bool:
        """Whether it would be found so again."""
        then = self.asked
        return (
            self.contributions == tuple(asked.contributions)
            and asked.matched == then.matched
            and (asked.report is then.report or same_content(asked.report, then.report))
            and asked.fresh == then.fresh
            and (node is self.node or node.same_content(self.node))
        )


class Reconciler:
    """Brings Nodes to what their reports, and the rules, want."""

    def __init__(
        self,
        store: NodeStore,
        reports: Reports,
        settings: Settings,
        metrics: Metrics,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.drift = Drift()
        self._store = store
        self._reports = reports
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._settled: dict[str, Asked] = {}
        self._refusals = Refusals()
        self._said: dict[str, int] = {}
        self._resting: dict[str, _Rest] = {}
        self._derivations = Derivations(settings.policy)
        self._era = object()

    async def reconcile(self, name: str) -> float | None:
        """One pass; answers after how many seconds the node wants another, if it does. Raises: KubeError."""
        self._metrics.add("node_update_requests")
        for attempt in range(ATTEMPTS):
            try:
                node = await self._node(name, attempt)
                began = time.perf_counter()
                asked = self._settings.ask(node, self._reports.current(node)) if node is not None else None
                if node is None:
                    break
                return await self._converge(node, asked, began) if asked is not None else None
            except NotFound:
                break
            except Conflict as error:
                if attempt == ATTEMPTS - 1:
                    raise
                _log.debug("node changed in between", node=name, error=error)
                await asyncio.sleep(CONFLICT_DELAY * 2**attempt * random.uniform(1.0, 1.5))
        self.forget(name)  # a pass that was under way when the node went leaves nothing behind
        return None

    def configure(self, settings: Settings) -> None:
        """Go on with other settings: what differs then is nobody's doing, and what was refused may be taken.

        What a pass that is under way brings its node to does not count, either.
        """
        self._settings = settings
        self._derivations = Derivations(settings.policy)
        self._era = object()
        self._refusals.clear()
        for memory in (self._settled, self._said, self._resting):
            memory.clear()

    def forget(self, name: str) -> None:
        """The node is gone."""
        self.drift.forget(name)
        self._refusals.forget(name)
        for memory in (self._settled, self._said, self._resting):
            memory.pop(name, None)

    async def _node(self, name: str, attempt: int) -> Node | None:
        if attempt >= 3:
            return await self._store.read(name)
        node = self._store.get(name)
        return node if node is not None or not self._reports.unmet(name) else await self._store.ensure(name)

    async def _converge(self, node: Node, asked: Asked, began: float) -> float | None:
        rest = self._resting.pop(node.name, None)
        if rest is not None and rest.holds(node, asked):
            self._settled[node.name], self._resting[node.name] = asked, _Rest(node, asked, rest.contributions)
            return None
        era, goal = self._era, self._goal(node.name, asked)
        planned, goal = fitting_plan(goal, node)
        again: float | None = None
        drifted = planned.written() if _same(self._settled.get(node.name), asked) else ()
        if drifted and self._gives_up_some(node, drifted):
            (planned, goal), again = fitting_plan(self._goal(node.name, asked), node), PAUSE
        self._metrics.observe(PLAN, time.perf_counter() - began)
        self._tell(node.name, goal.desired, planned)
        if not self._settings.publish:
            return None
        if planned and (asked.fresh.reported or any(planned.changes.values())):
            await self._write(planned, goal)
        if self._refusals.whole(node.name) is not None:
            self._settled.pop(node.name, None)  # what differs from it next time is not all somebody's doing
        elif era is self._era:
            self._settled[node.name] = asked
            if not (planned or goal.contested or goal.desired.dropped):
                self._resting[node.name] = _Rest(node, asked, tuple(asked.contributions))
        return again

    def _goal(self, name: str, asked: Asked) -> Goal:
        settings = self._settings
        desired = self._derivations.derive(asked.report, asked.contributions, asked.matched)
        contested = self.drift.contested(name, self._now())
        goal = Goal(
            desired,
            asked.fresh,
            settings.overwrite,
            settings.instance,
            contested,
            policy=settings.policy,
            proof=settings.proof,
        )
        refused = self._refusals.of(name, desired.of(Kind.RESOURCES))
        return goal.leaving_resources(refused) if refused else goal

    def _gives_up_some(self, node: Node, keys: Sequence[Key]) -> bool:
        """Somebody changed keys of ours, which are to be restored; whether some were restored too often already."""
        del self._settled[node.name]
        given_up = self.drift.note(node.name, node.writer, keys, self._now())
        restored = [key for kind, key in keys if (kind, key) not in given_up]
        fields = {"node": node.name, "manager": node.writer or None}
        if restored:
            self._metrics.add("drift_restored", len(restored))
            _log.info("restoring keys that somebody changed", keys=restored, **fields)
        if given_up:
            _log.warning("keys left alone for an hour", keys=sorted(key for _, key in given_up), **fields)
        return bool(given_up)

    async def _write(self, planned: NodePlan, goal: Goal) -> None:
        """Send a plan, but not what was refused before; a refused amount does not take the rest down with it."""
        name = planned.node.name
        before = self._refusals.whole(name)
        if before is not None and before.same_as(planned):
            return
        try:
            await self._send(planned, goal.desired)
        except Invalid as error:
            if amounts := self._refusals.learn(planned, error):
                _log.error(
                    "node refuses amounts; they are not tried again", node=name, keys=sorted(amounts), error=error
                )
                goal = goal.leaving_resources(amounts)
                if rest := plan_node(goal, planned.node):
                    await self._write(rest, goal)
                return
            _log.error("node refuses the change; it is not tried again as it is", node=name, error=error)
            self._refusals.refuse(planned)
            rest = plan_node(goal.without_resources(planned.node), planned.node)
            if planned.changes[Kind.RESOURCES] and rest:
                await self._send(rest, goal.desired)
            return
        self._refusals.accept(name)

    async def _send(self, planned: NodePlan, desired: Desired) -> None:
        await apply_plan(self._store, planned, self._metrics)
        self._metrics.add("node_updates")
        silent = self._reports.given_up(planned.node.name)
        for (kind, cause), keys in count_removals(planned, desired, silent=silent).items():
            self._metrics.add("node_keys_removed", keys, kind=kind, cause=cause)
        counts = {"written": _count(planned, "write"), "removed": _count(planned, "remove")}
        _log.info("node updated", node=planned.node.name, **counts)

    def _tell(self, name: str, desired: Desired, planned: NodePlan) -> None:
        """Count what was not allowed, and say what was not done, once for as long as it stays the same."""
        for dropped in desired.dropped:
            self._metrics.reject(dropped.kind)
        refused = {key: kind for kind, change in planned.changes.items() for key in change.refused}
        said = hash((desired.dropped, frozenset(refused), planned.before.doubt, planned.left))
        if self._said.get(name) == said:
            return
        self._said[name] = said
        for dropped in desired.dropped[:MOST_TOLD]:
            _log.warning("not allowed", node=name, label=dropped.key, error=dropped.reason)
        if more := len(desired.dropped[MOST_TOLD:]):
            _log.warning("more is not allowed", node=name, labels=more, error=desired.dropped[-1].reason)
        for key, kind in refused.items():
            _log.info("left to its owner", node=name, label=key, kind=kind)
        if planned.before.doubt:
            _log.info("lists on the node are not known to be ours", node=name, error=planned.before.doubt)
        if planned.left:
            left = sorted(key for _, key in planned.left)
            _log.warning("keys listed as ours are not ours to remove", node=name, keys=left[:MOST_TOLD])


async def apply_plan(store: NodeStore, planned: NodePlan, metrics: Metrics | None = None) -> None:
    """Send a plan's patches. Raises: Conflict when the Node is no longer the one planned for, and other KubeErrors."""
    node = planned.node
    for number, patch in enumerate(patches(planned)):
        with _observed(metrics) if metrics is not None else nullcontext():
            node = await store.patch(node.name, guarded(patch, node) if number else patch)


@contextmanager
def _observed(metrics: Metrics) -> Iterator[None]:
    """A PATCH is timed, and counted by what comes of it."""
    began, result = time.perf_counter(), FAILED
    try:
        yield
        result = PATCHED
    except (Conflict, Invalid) as error:
        result = CONFLICT if isinstance(error, Conflict) else REFUSED
        raise
    finally:
        metrics.observe(PATCH, time.perf_counter() - began)
        metrics.add("node_patches", result=result)


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


def _same(one: Asked | None, other: Asked) -> bool:
    """Whether nothing else was asked in between; what differs then is somebody's doing."""
    return one is not None and one.report is other.report and one.contributions is other.contributions


def _count(planned: NodePlan, what: str) -> int:
    return sum(len(getattr(change, what)) for change in planned.changes.values())
