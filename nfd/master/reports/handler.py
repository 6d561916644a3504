"""Takes workers' reports: whether we are the one to take them, whether they are news, and when to answer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

from nfd import names
from nfd.errors import ReportError
from nfd.master.http.metrics import Metrics
from nfd.master.leadership import Leadership
from nfd.master.node.cache import ReportInterner
from nfd.master.node.ownership import parse_owned
from nfd.master.node.proof import UNPROVEN, Proof
from nfd.master.node.queue import Queue
from nfd.master.reports.heartbeats import Heartbeats
from nfd.master.reports.store import ReportStore
from nfd.report import Reply, Report
from nfd.rpc.caller import Peer
from nfd.rpc.feature_cache import FeatureCache
from nfd.runtime import log
from nfd.store.base import Node, NodeStore

ANSWER_WITHIN = 5.0
"""Seconds that a report waits for its node to be written; then it is answered all the same, and the pass goes on."""
CROWDED = 2000
"""Queued nodes with news from which on new reports are told to come later."""
ELSEWHERE = 60.0
"""Seconds after which the worker of a node that is another master's asks again: labels of Nodes change."""

_log = log.get("master")


class ReportHandler:
    """`passed` tells it of every pass that is through; `blobs` is the server's, for nodes that are forgotten."""

    def __init__(
        self,
        store: NodeStore,
        leadership: Leadership,
        hearing: Heartbeats,
        queue: Queue,
        metrics: Metrics,
        instance: str = "",
        proof: Proof = UNPROVEN,
    ) -> None:
        self.reports = ReportStore()
        self.blobs: FeatureCache | None = None
        self._store = store
        self._leadership = leadership
        self._hearing = hearing
        self._queue = queue
        self._metrics = metrics
        self._instance = instance
        self._proof = proof
        self._pool = ReportInterner()
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        self._later: dict[str, asyncio.Future[bool]] = {}
        """Those that came while a pass was under way, which may have begun without them: the next one is theirs."""

    async def accept(self, report: Report, peer: Peer) -> Reply:
        """Keep the report, let its node have a pass, and answer once that is through or takes long.

        A worker whose node is not written by then comes again soon, should this master not live to do it.

        Raises: ReportError if another master leads, for a report that is old, for a name that no node can have, or for
        a node that we do not select.
        """
        self._leadership.refer()
        name = report.node
        if problem := names.subdomain_problem(name):
            raise ReportError(f"node name {name[:80]!r} {problem}", retry=False, code="INVALID_ARGUMENT")
        if (selector := self._store.selector) and self._store.get(name) is None:
            reason = f"no node {name} is selected by this master's --node-selector={selector}"
            raise ReportError(reason, retry=False, retry_after=ELSEWHERE)
        if self._queue.news >= CROWDED:
            wait = random.uniform(5.0, 15.0)
            raise ReportError("too many nodes are waiting", retry=True, retry_after=wait, code="RESOURCE_EXHAUSTED")
        self._take(report)
        written = await self._wait(name)
        self._leadership.refer()
        return Reply(self._hearing.beat(soon=not written))

    def passed(self, name: str, *, written: bool) -> None:
        """A pass over the node is through."""
        waiting = self._waiting.pop(name, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(written)
        if (later := self._later.pop(name, None)) is not None:
            self._waiting[name] = later

    def drop(self, nodes: Iterable[str]) -> None:
        """What was reported of these nodes is known no more."""
        for name in nodes:
            self._hearing.forget(name)
            if self.blobs is not None:
                self.blobs.forget(name)

    def clear(self) -> None:
        """Forget all reports: from here on another master may have newer ones."""
        self.drop(self.reports.names())
        self.reports.clear()
        self._hearing.clear()

    def _take(self, report: Report) -> None:
        node, before = self._store.get(report.node), self.reports.get(report.node)
        report = self._pool.share(report, before)
        try:
            crowded_out = self.reports.take(report, node, self._applied_boot(node) if before is None else "")
        except ReportError as error:
            _log.info("report refused", node=report.node, error=error)
            raise
        self._metrics.add("reports")
        self._hearing.note(report.node)
        self.drop(crowded_out)

    def _applied_boot(self, node: Node | None) -> str:
        """The boot id that our own bookkeeping on the Node names."""
        return parse_owned(node.annotations, self._instance, node.uid, self._proof).boot_id if node is not None else ""

    async def _wait(self, name: str) -> bool:
        """Whether the node was written in time."""
        place = self._later if self._queue.is_busy(name) else self._waiting
        waiting = place.setdefault(name, asyncio.get_running_loop().create_future())
        self._queue.add(name, news=True)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await asyncio.shield(waiting)
        except TimeoutError:
            return False
