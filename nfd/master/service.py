"""The master, wired: reports come in over gRPC, nodes go through the queue, HTTP tells how it is."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from nfd import __version__, log, names
from nfd.errors import Forbidden, KubeError, ReportError, Unavailable
from nfd.master.http import HttpServer
from nfd.master.metrics import Metrics
from nfd.master.ownership import parse_owned
from nfd.master.queue import Queue
from nfd.master.reconcile import Reconciler, Settings
from nfd.master.reports import Reports
from nfd.master.resources import CustomResources
from nfd.master.security import Security
from nfd.report import Reply, Report
from nfd.rpc.gate import Peer
from nfd.rpc.server import LabelerServer
from nfd.store.base import NodeStore

BEATS_PER_SECOND = 15.0
BEAT_LIMITS = (60.0, 900.0)
"""Seconds between two reports of a node that has nothing new to say."""
BEAT_JITTER = 0.1
MISSED_BEATS = 3
ANSWER_WITHIN = 5.0
"""Seconds that a report waits for its node to be written; then it is answered all the same, and the pass goes on."""
CROWDED = 2000
"""Queued nodes from which on new reports are told to come later."""
DRAIN = 10.0
"""Seconds for calls and passes under way when the master stops."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class Options:
    """Where to listen (port 0 takes a free one, None none at all), and how many nodes are written at a time."""

    host: str = ""
    port: int = 8080
    http_port: int | None = 8081
    security: Security = field(default_factory=Security)
    parallelism: int = 10
    resync: float = 3600.0
    settings: Settings = field(default_factory=Settings)


class Service:
    """A master on a node store. After `start`, `port` and `http_port` tell where it listens.

    `resources` makes the watches on custom resources, where there is an API server to ask.
    """

    def __init__(
        self, store: NodeStore, options: Options, resources: Callable[[Metrics], CustomResources] | None = None
    ) -> None:
        self.metrics = Metrics(__version__, time.time())
        self.metrics.gauges = self._gauges
        self.queue = Queue()
        self.port = 0
        self.http_port = 0
        self._options = options
        self._store = store
        self._reports = Reports()
        self._resources = resources(self.metrics) if resources is not None else None
        settings = replace(options.settings, ask=self._resources.ask) if self._resources else options.settings
        self._reconciler = Reconciler(store, self._reports, settings, self.metrics)
        self._labeler = LabelerServer(self._accept, options.security.gate, options.security.tls)
        self._http = HttpServer(self.metrics, self._missing)
        self._heard: dict[str, float] = {}
        self._passes: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._synced = False

    async def start(self) -> None:
        """Serve HTTP, fill the node cache, then take reports. Raises: KubeError, ConfigError, OSError."""
        if self._options.http_port is not None:
            self.http_port = await self._http.start(self._options.host, self._options.http_port)
        await self._store.start(self._node_changed)
        if self._resources is not None:
            await self._resources.start(self._store, self.queue.add)
        self._synced = True
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._options.parallelism)]
        if self._options.resync > 0:
            self._tasks.append(asyncio.create_task(self._resync()))
        security = self._options.security
        await security.prepare()
        self.port = await self._labeler.start(f"{security.listen or self._options.host or '[::]'}:{self._options.port}")
        await self._labeler.serving(True)
        _log.info("master ready", nodes=len(self._store.names()), port=self.port)

    async def stop(self) -> None:
        """Take no more reports, finish the passes under way and queued, then close."""
        self._synced = False
        await self._labeler.stop(DRAIN)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.queue.idle() if self._tasks else asyncio.sleep(0), DRAIN)
        self.queue.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._options.security.finish()
        if self._resources is not None:
            await self._resources.stop()
        await self._store.close()
        await self._http.stop()

    def beat(self) -> float:
        """Seconds until a node's next report if nothing changes: slower the more nodes there are, never in step."""
        return self._pace() * random.uniform(1 - BEAT_JITTER, 1 + BEAT_JITTER)

    def _pace(self) -> float:
        return min(max(len(self._heard) / BEATS_PER_SECOND, BEAT_LIMITS[0]), BEAT_LIMITS[1])

    async def _accept(self, report: Report, peer: Peer) -> Reply:
        """Keep the report, let its node have a pass, and answer once that is through or takes long.

        Raises: ReportError for a report that is old, or for a name that no node can have.
        """
        name = report.node
        if problem := names.subdomain_problem(name):
            raise ReportError(f"node name {name[:80]!r} {problem}", retry=False, code="INVALID_ARGUMENT")
        if len(self.queue) >= CROWDED:
            wait = random.uniform(5.0, 15.0)
            raise ReportError("too many nodes are waiting", retry=True, retry_after=wait, code="RESOURCE_EXHAUSTED")
        self._take(report)
        done = self._passes.setdefault(name, asyncio.Event())
        self.queue.add(name)
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), ANSWER_WITHIN)
        return Reply(self.beat())

    def _take(self, report: Report) -> None:
        node = self._store.get(report.node)
        boot = parse_owned(node.annotations, self._options.settings.instance).boot_id if node is not None else ""
        try:
            crowded_out = self._reports.take(report, node, boot)
        except ReportError as error:
            self.metrics.add("reports_refused")
            _log.info("report refused", node=report.node, error=error)
            raise
        self.metrics.add("reports")
        self._heard[report.node] = time.monotonic()
        self._drop(crowded_out)

    def _drop(self, nodes: list[str]) -> None:
        for name in nodes:
            self._heard.pop(name, None)
            self._labeler.blobs.forget(name)

    def _node_changed(self, name: str) -> None:
        if self._store.get(name) is None:
            self._reconciler.forget(name)
            if self._resources is not None:
                self._resources.forget(name)
            self._heard.pop(name, None)
            self._drop(self._reports.missing(name))
        if self._reports.get(name) is not None or (self._resources is not None and self._resources.concern(name)):
            self.queue.add(name)

    async def _work(self) -> None:
        while True:
            name = await self.queue.take()
            passed = self._passes.pop(name, None)
            try:
                await self._pass(name)
            finally:
                self.queue.done(name)
                if passed is not None:
                    passed.set()
            await asyncio.sleep(0)  # a pass without news waits for nothing: others have their turn between two

    async def _pass(self, name: str) -> None:
        try:
            again = await self._reconciler.reconcile(name)
        except KubeError as error:
            self._postpone(name, error)
        except Exception:  # a defect that one node brings out must not stop the others
            _log.exception("pass failed", node=name)
            self._postpone(name, None)
        else:
            self.queue.succeeded(name)
            if again is not None:
                self.queue.add_later(name, again)

    def _postpone(self, name: str, error: KubeError | None) -> None:
        self.metrics.add("node_update_failures")
        asked = error.retry_after if isinstance(error, Unavailable) else None
        failures = self.queue.retry(name, asked or 0.0)
        if error is not None and failures == 1:
            tell = _log.error if isinstance(error, Forbidden) else _log.warning
            tell("node not updated; trying again", node=name, error=error)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync)
            for name in self._reports.names():
                self.queue.add(name)

    def _missing(self) -> str:
        return "" if self._synced else "the nodes are not known yet, or the master is stopping"

    def _gauges(self) -> Mapping[str, float]:
        now = time.monotonic()
        patience = MISSED_BEATS * self._pace()
        return {
            "nodes": len(self._store.names()),
            "reporting_nodes": len(self._heard),
            "silent_nodes": sum(now - heard > patience for heard in self._heard.values()),
            "waiting_reports": self._reports.waiting,
            "contested_keys": self._reconciler.drift.count(now),
            "queued_nodes": len(self.queue),
            "store_connected": int(self._store.connected),
            **(self._resources.gauges() if self._resources is not None else {}),
        }
