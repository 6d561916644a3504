"""Writes one plan. If the API server rejects a part, finds out which part, and writes the rest.

Rejected keys are found by their names in the answer, else by what is rejected on other nodes, else by bisection: of the
keys in order, the shortest prefix that is rejected ends with a rejected key. An accepted attempt has already written
its keys.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from nfd.errors import Conflict, Forbidden, Invalid, Unauthorized
from nfd.master.http.metrics import CONFLICT, FAILED, PATCH, PATCHED, REFUSED, Metrics
from nfd.master.node.condition_rejections import ConditionRejections
from nfd.master.node.known_rejections import EVERYTHING, Rejections, digest
from nfd.master.node.ownership import ORIGINS, annotation, bookkeeping
from nfd.master.node.patch import condition_patch, guarded, patches
from nfd.master.node.plan import Act, Goal, NodePlan, count_removals, plan_node
from nfd.names import namespace_of
from nfd.runtime import log
from nfd.store.base import Condition, Kind, Node, NodeStore, Patch

PATCHES = 12
"""PATCHes of one node in one pass, at most. What is uncertain after that counts as rejected until a canary tries it."""
_ORDER = (Kind.LABELS, Kind.ANNOTATIONS, Kind.TAINTS, Kind.RESOURCES)
"""Order of kinds; resources are last since they need a PATCH of the status."""
_WORD = re.compile(r"[A-Za-z0-9_./-]+")

_log = log.get("master")


@dataclass(slots=True)
class Budget:
    """The number of PATCHes left."""

    left: int = PATCHES


class Writer:
    """Writes Nodes. `rejections` are the known rejected changes, `conditions` the nodes whose conditions are rejected;
    `silent` says whether a worker has been silent for too long."""

    def __init__(
        self,
        store: NodeStore,
        metrics: Metrics,
        rejections: Rejections,
        conditions: ConditionRejections,
        silent: Callable[[str], bool],
        now: Callable[[], float],
    ) -> None:
        self.rejections = rejections
        self.store = store
        self.metrics = metrics
        self.silent = silent
        self.now = now
        self.conditions = conditions

    async def write(self, goal: Goal, planned: NodePlan, budget: Budget) -> tuple[frozenset[Act], float | None]:
        """Carry out a plan as far as the API server accepts it.

        Returns what is left out, and after how many seconds the node needs another pass for it. Raises: KubeError.
        """
        name, aside = planned.node.name, dict[str, Condition | None]()
        left = self.rejections.left_out(planned.node, planned.acts(), self.now()) if self.rejections else ()
        if planned.conditions and (self.conditions.is_doubtful(name) or self.conditions.waits(name)):
            aside = dict(planned.conditions) if self.conditions.claim(name) else {}
            goal = replace(goal, conditions={})
        work, again = _Pass(self, goal, planned.node, budget, planned, set(left), set_aside=aside), None
        try:
            await work.carry_out()
            await work.write_set_aside()
        finally:
            again = work.finish()
        return frozenset(work.left), again


@dataclass(slots=True)
class _Pass:
    """One pass over one node; `node` is its state after the last PATCH, `first` the plan at the beginning of the pass,
    `left` are the acts that are left out."""

    writer: Writer
    goal: Goal
    node: Node
    budget: Budget
    first: NodePlan
    left: set[Act]
    got: bool = False
    """Whether a part of the plan was accepted."""
    checked: bool = False
    """Whether it was checked that not every change is rejected."""
    refused: int = 0
    """The number of rejected PATCHes."""
    error: Invalid = field(default_factory=lambda: Invalid(""))
    """The latest rejection."""
    counts: Counter[str] = field(default_factory=Counter)
    set_aside: Mapping[str, Condition | None] = field(default_factory=dict)
    """Conditions that were or may be rejected: they are written alone, after the rest."""
    news: dict[str, tuple[Invalid, list[Act]]] = field(default_factory=dict)
    """By policy or webhook: acts that are rejected on few nodes so far."""

    async def carry_out(self) -> None:
        """Raises: KubeError."""
        rejections, name = self.writer.rejections, self.node.name
        if rejections.is_refused(EVERYTHING, name):
            waits = EVERYTHING in self.left and not rejections.is_due(EVERYTHING, name, self.writer.now())
            if waits or await self._rejects_everything():
                self.left.add(EVERYTHING)
                return
            self.left.discard(EVERYTHING)
        if not await self._try_with_rights():
            await self._find(rejections.suspects(self._planned().acts()))
        await self._probe(*rejections.probes(name, self.writer.now()))
        if EVERYTHING not in self.left and any(self._is_bookkeeping(act) for act in self.left):
            self._remember(self._planned())

    async def _probe(self, sure: list[Act], doubtful: list[Act]) -> None:
        """Try rejected acts again: the certain ones one by one, the others together."""
        for act in sure:
            if act in self.left and self.budget.left > 0:
                self.left.discard(act)
                if not await self._try():
                    self._blame([act], sure=True)
        if group := self.left.intersection(doubtful):
            self.left -= group
            self.checked = True
            if not await self._try():
                await self._find(frozenset())

    async def _try_with_rights(self) -> bool:
        """Try everything. Without permission for the status subresource, only extended resources are left out. Raises:
        Forbidden."""
        try:
            return await self._try()
        except Unauthorized:  # the next token will do for the whole change
            raise
        except Forbidden:
            if resources := [act for act in self._planned().acts() if act[0] is Kind.RESOURCES]:
                await self._try(resources)
            raise

    async def _find(self, suspects: frozenset[Act]) -> None:
        """All acts together were rejected: write as many as possible. `suspects` are rejected on other nodes."""
        pending = await self._leave_named(_ordered(self._planned().acts()), suspects)
        content = [act for act in pending if not self._is_bookkeeping(act)]
        if pending and not content:
            self._blame(pending, sure=len(pending) == 1)
        while content:
            content = await self._halve(content)

    async def _leave_named(self, pending: list[Act], suspects: frozenset[Act]) -> list[Act]:
        """Write what the answer does not name. Returns the acts that are still uncertain: together they are
        rejected."""
        named = _named(self.error, pending) or suspects
        if (notes := {act for act in named if self._is_bookkeeping(act)}) and notes != named:
            self._blame(notes, sure=False)
            pending, named = [act for act in pending if act not in notes], named - notes
        while named and (rest := [act for act in pending if act not in named]):
            if await self._try(named):
                if len(named) > 1 and not suspects >= named:
                    return [act for act in pending if act in named]
                self._blame(named, sure=len(named) == 1)
                return []
            if more := _named(self.error, rest):
                named |= more
                continue
            error = self.error
            if not await self._try(rest):  # else the answer named a key that is accepted
                self._blame(named, sure=len(named) == 1)
                self.error = error
            return rest
        return pending

    async def _halve(self, pending: list[Act]) -> list[Act]:
        """Find the first rejected act and write those before it. Returns the acts after it that are uncertain."""
        good, bad = 0, len(pending)
        while bad - good > 1 or self.budget.left <= 0:
            if self.budget.left <= 1:
                return await self._give_up(pending[good:bad], pending[bad:])
            if self.refused > 1 and await self._rejects_all():
                return []
            middle = (good + bad) // 2
            if await self._try({*pending} - {*pending[good:middle]}):
                good = middle
            else:
                bad = middle
        if await self._rejects_all():
            return []
        culprit = pending[good]
        self._blame([culprit], sure=True)
        return await self._write_after(culprit, pending[bad:])

    async def _write_after(self, culprit: Act, rest: list[Act]) -> list[Act]:
        """Write the acts after a rejected one. Returns those that are uncertain."""
        if not rest or await self._try():
            return []
        related = [act for act in rest if _namespace(act) == _namespace(culprit)]
        if 0 < len(related) < len(rest) and self.budget.left > 1 and await self._try(related):
            return related
        return rest

    async def _give_up(self, doubtful: list[Act], behind: list[Act]) -> list[Act]:
        """Use the last PATCH for the acts that were not tried yet."""
        if behind and not await self._try(doubtful):
            doubtful = doubtful + behind
        self._blame(doubtful, sure=False)
        return []

    async def _rejects_all(self) -> bool:
        """Whether the rejections concern no single key. Checked once, and only while nothing was accepted."""
        if self.got or self.checked:
            return False
        self.checked = True
        return await self._rejects_everything() or await self._rejects_bookkeeping()

    async def _rejects_everything(self) -> bool:
        """Whether even a PATCH that changes nothing is rejected."""
        try:
            await self._send(guarded(Patch({}), self.node))
        except Invalid as error:
            self.error = error
            self._blame([EVERYTHING], sure=True)
            return True
        self._accept({EVERYTHING: ""})
        return False

    async def _rejects_bookkeeping(self) -> bool:
        """Whether all is accepted without the bookkeeping. Then that is written one by one, the origins last."""
        every = [act for act in self._planned().acts() if self._is_bookkeeping(act)]
        if not every or not await self._try(every):
            return False
        every.sort(key=lambda act: act[1] == annotation(ORIGINS, self.goal.instance))
        for number, note in enumerate(every, 1):
            if not await self._try(every[number:]):
                self._blame([note], sure=self.budget.left > 0)
        return True

    async def _try(self, aside: Collection[Act] = ()) -> bool:
        """Send the plan without the acts in `aside`. Returns whether it was accepted. Raises: KubeError."""
        planned = self._planned(aside)
        todo = patches(planned)
        if len(todo) > self.budget.left:
            return False
        before = self.node
        try:
            for number, patch in enumerate(todo):
                await self._send(guarded(patch, self.node) if number else patch)
        except Unauthorized:
            raise
        except Forbidden:
            if self.node is before and self._set_conditions_aside(planned):
                return await self._try(aside)
            raise
        except Invalid as error:
            if self.node is before and self._set_conditions_aside(planned):
                return await self._try(aside)
            self.error, self.refused = error, self.refused + 1
            if self.node is not before:
                remaining = self._planned(aside).acts()
                self._accept({act: value for act, value in planned.acts().items() if act not in remaining})
            return False
        if todo:
            self._record_written(planned)
        return True

    def _set_conditions_aside(self, planned: NodePlan) -> bool:
        """After a rejection: leave out the conditions, so that everything else is written. False if there are none."""
        if not planned.conditions:
            return False
        self.set_aside, self.goal = planned.conditions, replace(self.goal, conditions={})
        return True

    async def write_set_aside(self) -> None:
        """Write conditions alone that were in a rejected PATCH. If they are rejected again, they wait. Raises:
        KubeError."""
        name, conditions = self.node.name, self.writer.conditions
        if not self.set_aside or EVERYTHING in self.left:
            return
        try:
            await self._send(condition_patch(self.node, self.set_aside, self.goal.stamp))
        except Unauthorized:
            raise
        except (Invalid, Forbidden) as error:
            conditions.note(name, error)
        else:
            conditions.accept(name)

    async def _send(self, patch: Patch) -> None:
        self.budget.left -= 1
        with observed(self.writer.metrics):
            self.node = await self.writer.store.patch(self.node.name, patch)

    def _record_written(self, planned: NodePlan) -> None:
        self.got = True
        self._remember(planned)
        if self.writer.rejections:
            self._accept({**planned.acts(), EVERYTHING: ""})
        if planned.conditions:
            self.writer.conditions.accept(self.node.name)
        for change in planned.changes.values():
            self.counts.update(written=len(change.write), removed=len(change.remove))
        silent = self.writer.silent(self.node.name)
        for (kind, cause), keys in count_removals(planned, self.goal.desired, silent=silent).items():
            self.writer.metrics.add("node_keys_removed", keys, kind=kind, cause=cause)

    def _remember(self, planned: NodePlan) -> None:
        """Remember what is managed after a plan that was carried out without the bookkeeping. A plan that was not
        carried out changes nothing: its keys are still to be removed."""
        remembered, name = self.writer.rejections.remembered, self.node.name
        if bookkeeping(self.goal.instance) & planned.goal.refused.get(Kind.ANNOTATIONS, frozenset()):
            remembered[name] = planned.owned
        else:
            remembered.pop(name, None)
        if self.goal.remembered is not remembered.get(name):
            self.goal = replace(self.goal, remembered=remembered.get(name))

    def _planned(self, aside: Collection[Act] = ()) -> NodePlan:
        """The remaining plan, without the acts that are left out or in `aside`."""
        acts = (*self.left, *aside)
        if not acts and self.node is self.first.node and self.goal is self.first.goal:
            return self.first
        return plan_node(self.goal.without(acts) if acts else self.goal, self.node)

    def _is_bookkeeping(self, act: Act) -> bool:
        return act[0] is Kind.ANNOTATIONS and act[1] in bookkeeping(self.goal.instance)

    def _blame(self, acts: Collection[Act], *, sure: bool) -> None:
        """Record that the API server rejects these, each for sure or some of them; they are left out from now on."""
        known = {**self._planned().acts(), EVERYTHING: digest(self.first.acts())}
        values = {act: known.get(act, "") for act in acts}
        news = self.writer.rejections.refuse(self.node.name, values, self.error, self.writer.now(), sure=sure)
        self.left.update(acts)
        if news:
            self.news.setdefault(self.error.by, (self.error, []))[1].extend(news)

    def _accept(self, acts: Mapping[Act, str]) -> None:
        for act, others in self.writer.rejections.accept(self.node.name, acts, self.writer.now()).items():
            _log.info("key is no longer rejected", label=act[1], node=self.node.name, nodes=others + 1)

    def finish(self) -> float | None:
        """Count and log what was written. Returns after how many seconds the node needs another pass."""
        rejections, name = self.writer.rejections, self.node.name
        if self.got:
            self.writer.metrics.add("node_updates")
            _log.info("node updated", node=name, written=self.counts["written"], removed=self.counts["removed"])
        for policy, (error, acts) in self.news.items():
            fields = {"node": name, "policy": policy, "error": error}
            if EVERYTHING in acts:
                _log.error("every change of the node is rejected", **fields)
            else:
                _log.error(
                    "keys are rejected; the others were written", keys=sorted({act[1] for act in acts}), **fields
                )
        return rejections.passed(self.node, self.left, self.writer.now())


@contextmanager
def observed(metrics: Metrics) -> Iterator[None]:
    """Measure the time of a PATCH, and count its result."""
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


async def apply_plan(store: NodeStore, planned: NodePlan) -> None:
    """Send a plan's patches. Raises: Conflict when the Node is no longer the one planned for, and other KubeErrors."""
    node = planned.node
    for number, patch in enumerate(patches(planned)):
        node = await store.patch(node.name, guarded(patch, node) if number else patch)


def _ordered(acts: Collection[Act]) -> list[Act]:
    """In the order of kind and key, so that keys of one policy are adjacent."""
    return sorted(acts, key=lambda act: (_ORDER.index(act[0]), act[1], act[2]))


def _namespace(act: Act) -> tuple[Kind, str]:
    return act[0], namespace_of(act[1])


def _named(error: Invalid, acts: Collection[Act]) -> frozenset[Act]:
    """The acts whose keys the answer names, else those whose namespace it names (`nvidia.com/`)."""
    words: set[str] = set()
    for word in _WORD.findall(" ".join((*error.fields, error.said))):
        parts = word.split(".")
        words.update(".".join(parts[at:]) for at in range(len(parts)))
    words |= {word.rstrip(".") for word in words}
    keys = {act: act[1].rpartition(":")[0] if act[0] is Kind.TAINTS else act[1] for act in acts}
    named = frozenset(act for act, key in keys.items() if "/" in key and key in words)
    return named or frozenset(act for act, key in keys.items() if "/" in key and f"{namespace_of(key)}/" in words)
