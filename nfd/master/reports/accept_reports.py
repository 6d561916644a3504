"""Accepts or rejects workers' reports, and decides when to answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping

from nfd import names
from nfd.errors import ReportError
from nfd.master.http.metrics import Metrics
from nfd.master.leadership import Leadership
from nfd.master.node.ownership import parse_owned
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.queue import Queue
from nfd.master.reports.heartbeats import Heartbeats
from nfd.master.reports.send_copies import Followers
from nfd.master.reports.snapshot import Snapshot
from nfd.master.reports.store import Inherited, ReportInterner, ReportStore, same_content
from nfd.report import Reply, Report
from nfd.rpc.caller_types import Peer
from nfd.rpc.feature_cache import FeatureCache
from nfd.rpc.labels_for_worker import labels_for_worker
from nfd.rpc.replication_messages import Part
from nfd.runtime import log
from nfd.store.base import Node, NodeStore

ANSWER_WITHIN = 5.0
"""Seconds that a call waits for its node to be written. After that it is answered, and the pass continues."""
CROWDED = 2000
"""With that many queued nodes with a new report, further reports are rejected with a time to retry."""
ELSEWHERE = 60.0
"""Seconds after which a worker retries whose node this master does not select: labels of Nodes change."""

_log = log.get("master")


class ReportHandler:
    """`passed` is called after each pass over a node. `features` is the server's cache, from which nodes are
    removed. `followers` are the other masters, which get each report. `snapshot` is the file of reports."""

    def __init__(
        self,
        store: NodeStore,
        leadership: Leadership,
        heartbeats: Heartbeats,
        queue: Queue,
        metrics: Metrics,
        instance: str = "",
        proof: Proof = UNPROVEN,
    ) -> None:
        self.reports = ReportStore()
        self.features: FeatureCache | None = None
        self.followers: Followers | None = None
        self.snapshot: Snapshot | None = None
        self._store = store
        self._leadership = leadership
        self._heartbeats = heartbeats
        self._queue = queue
        self._metrics = metrics
        self._instance = instance
        self._proof = proof
        self._pool = ReportInterner()
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._later: dict[str, asyncio.Future[bool]] = {}
        """Reports that arrived during a pass, which may not include them: they wait for the next pass."""

    async def accept(self, report: Report, peer: Peer) -> Reply:
        """Store the report, queue its node, and answer when the pass is done or takes long.

        If the node is not written by then, or another master does not have the report, the worker is asked for its next
        report soon, in case this master stops before.

        Raises: ReportError if another master leads, if the report is old, if the node name is invalid, or if this
        master does not select the node.
        """
        self._leadership.require()
        name = report.node
        if problem := names.subdomain_problem(name):
            raise ReportError(f"node name {name[:80]!r} {problem}", retry=False, code="INVALID_ARGUMENT")
        if (selector := self._store.selector) and self._store.get(name) is None:
            reason = f"no node {name} is selected by this master's --node-selector={selector}"
            raise ReportError(reason, retry=False, retry_after=ELSEWHERE)
        if self._queue.urgent >= CROWDED:
            wait = random.uniform(5.0, 15.0)
            raise ReportError("too many nodes are queued", retry=True, retry_after=wait, code="RESOURCE_EXHAUSTED")
        changed = self._take(report)
        safe = await self._wait(name)
        if changed and self.followers is not None:
            safe = await self.followers.known(name) and safe
        self._leadership.require()
        node = self._store.get(name)
        labels = None if node is None else labels_for_worker(node.labels)
        return Reply(self._heartbeats.next_heartbeat(name, soon=not safe), labels)

    def passed(self, name: str, *, written: bool) -> None:
        """A pass over the node is done: answer the calls that wait for it."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(written)
        if (later := self._later.pop(name, None)) is not None:
            self._waiting[name] = later

    def drop(self, nodes: Iterable[str]) -> None:
        """Forget heartbeats and features of these nodes."""
        for name in nodes:
            self._heartbeats.forget(name)
            if self.features is not None:
                self.features.forget(name)

    def clear(self) -> None:
        """Forget all reports, since another master may now receive newer ones."""
        self.drop(self.reports.names())
        self.reports.clear()
        self._heartbeats.clear()

    def end_term(self) -> None:
        """From now on another master may receive newer reports: those here are inherited ones."""
        self.drop(self.reports.end_term())
        self._heartbeats.clear()

    def inherit(self, one: Inherited, parts: Mapping[bytes, Part]) -> bool:
        """Keep a report of another master or of a file, and its features by digest.

        Returns False for one that is older than what is known.
        """
        report = self._pool.share(one.report, self.reports.get(one.report.node))
        node = self._store.get(report.node)
        dropped = self.reports.inherit(one._replace(report=report), node, self._applied_boot(node))
        if dropped is None:
            return False
        self.drop(dropped)
        if self.features is not None:
            self.features.adopt(report.node, parts)
        return True

    def _take(self, report: Report) -> bool:
        """Store the report. Returns whether it says anything new."""
        node, before = self._store.get(report.node), self.reports.get(report.node)
        report = self._pool.share(report, before)
        try:
            dropped = self.reports.take(report, node, self._applied_boot(node) if before is None else "")
        except ReportError as error:
            _log.info("report rejected", node=report.node, error=error)
            raise
        self._metrics.add("reports")
        self._heartbeats.note(report.node)
        self.drop(dropped)
        if self.followers is not None:
            self.followers.note(report.node)
        changed = before is None or not same_content(report, before)
        if changed and self.snapshot is not None:
            self.snapshot.changed()
        return changed

    def _applied_boot(self, node: Node | None) -> str:
        """The boot id in the bookkeeping annotation of the Node."""
        return parse_owned(node.annotations, self._instance, node.uid, self._proof).boot_id if node is not None else ""

    async def _wait(self, name: str) -> bool:
        """Whether the node was written in time."""
        place = self._later if self._queue.is_busy(name) else self._waiting
        waiting = place.setdefault(name, asyncio.get_running_loop().create_future())
        self._queue.add(name, urgent=True)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await asyncio.shield(waiting)
        except TimeoutError:
            return False
