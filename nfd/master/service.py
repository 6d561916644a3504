"""The service: reports over gRPC, the work queue of nodes, and HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from aiohttp.web import RouteDef

from nfd import __version__
from nfd.errors import Forbidden, KubeError, Unavailable, rest_after
from nfd.master.http.fleet_metrics import FleetMetrics
from nfd.master.http.metrics import Metrics
from nfd.master.http.reports_api import TimedReport
from nfd.master.http.server import HttpServer
from nfd.master.leadership import Election, Leadership, Phase
from nfd.master.node.condition_rejections import ConditionRejections
from nfd.master.node.conditions import Unknowns, utc_now
from nfd.master.node.known_rejections import Unwritten
from nfd.master.node.ownership import Origin, parse_owned
from nfd.master.node.queue import Queue
from nfd.master.node.reconcile import ReconcileOptions, Reconciler
from nfd.master.reports.accept_reports import ReportHandler
from nfd.master.reports.heartbeats import Heartbeats
from nfd.master.reports.receive_copies import Replication
from nfd.master.reports.request_reports import EpochWriter
from nfd.master.reports.send_copies import Followers
from nfd.master.reports.snapshot import Snapshot
from nfd.master.reports.store import Inherited, Standing
from nfd.master.rules.resources import CustomResources
from nfd.master.security.proof_key import SecretKey
from nfd.master.security.setup import Security
from nfd.message_text import known_nodes
from nfd.rpc.replication_messages import Copy
from nfd.rpc.server import LabelerServer
from nfd.runtime import log, tasks
from nfd.runtime.failures import failed
from nfd.store.base import Kind, Node, NodeStore

DRAIN = 7.0
"""Seconds for calls and passes in progress when the master stops; releasing the lease also fits in the grace period."""
TICK = 10.0
"""Seconds between two checks of the periodic tasks."""
SLICE = 50
"""Nodes that are counted at a time; their proofs take some milliseconds."""
SWEEP = 3600.0
"""The least seconds that a report is kept for a Node that does not exist."""

_log = log.get("master")
MakeResources = Callable[[Metrics], CustomResources]


@dataclass(frozen=True, slots=True)
class Options:
    """Where to listen (port 0 is a free one, None disables it), and how many nodes are written concurrently.

    `resync` and `stale_after` are in seconds; 0 disables each. After `stale_after` without a report a node's labels are
    removed. `key` follows the proof's key on a cluster. `election` is for several masters, `service_name` the name in
    all their certificates. `epoch` asks all workers for reports. `drain` is the limit in seconds for calls and passes
    in progress at the end.
    """

    host: str = ""
    port: int = 8080
    http_port: int | None = 8081
    security: Security = field(default_factory=Security)
    parallelism: int = 10
    resync: float = 3600.0
    stale_after: float = 0.0
    settings: ReconcileOptions = field(default_factory=ReconcileOptions)
    key: SecretKey | None = None
    election: Election | None = None
    service_name: str = ""
    snapshot: Path | None = None
    epoch: EpochWriter | None = None
    drain: float = DRAIN
    info_labels: tuple[str, ...] = ()
    """Labels of Nodes that become labels of a metric."""
    tick: float = TICK
    now: Callable[[], float] = time.monotonic


class Service:
    """A master on a node store. After `start`, `port` and `http_port` have its ports.

    `resources` makes the informers of custom resources, if there is an API server.
    """

    def __init__(self, store: NodeStore, options: Options, resources: MakeResources | None = None) -> None:
        self.metrics = Metrics(__version__, time.time())
        self.metrics.gauges = self._gauges
        self.queue = Queue()
        self.port = self.http_port = 0
        self.leadership = Leadership(options.election.lease if options.election else None)
        self._options = options
        self._store = store
        self._make_resources = resources
        self._resources = resources(self.metrics) if resources is not None else None
        self._heartbeats = Heartbeats(options.stale_after, options.now)
        instance = options.settings.instance
        self._proof = options.settings.proof
        self._handler = ReportHandler(
            store, self.leadership, self._heartbeats, self.queue, self.metrics, instance, self._proof
        )
        self._condition_rejections = ConditionRejections(options.now)
        self._unknowns = Unknowns(store, instance, self._heartbeats, self._condition_rejections)
        self._reconciler = Reconciler(
            store,
            self._handler.reports,
            self._with_resources(options.settings),
            self.metrics,
            self.queue.add_later,
            heard=self._unknowns.is_heard,
            stamp=utc_now,
            condition_rejections=self._condition_rejections,
        )
        self.metrics.unwritten = self.unwritten
        self.metrics.fleet = FleetMetrics(self._led_nodes, lambda: self._options.info_labels).families
        security = options.security
        self._labeler = LabelerServer(self._handler.accept, security.authenticator, security.tls, options.service_name)
        self._handler.features = self._labeler.features
        self._labeler.rejected = lambda status: self.metrics.add("reports_refused", code=status)
        self._followers, self._replication = self._share_reports(options)
        if options.snapshot is not None:
            self._handler.snapshot = Snapshot(options.snapshot, self._handler.reports, self._proof)
        self._http = HttpServer(self.metrics, lambda: self.leadership.reason_not_ready, note=self.note)
        self._leads = asyncio.Event()
        self._terms = 0
        self._replacing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._failing = False

    def _share_reports(self, options: Options) -> tuple[Followers | None, Replication | None]:
        """Both sides of the replication between masters; None if they share no reports."""
        security, election = options.security, options.election
        if security.masters is None or security.tls is None or election is None:
            return None, None
        followers = Followers(self._handler.reports, self.leadership, security.masters.authenticator)
        self._handler.followers, self._labeler.replicate = followers, followers.serve
        replication = Replication(
            election.lease,
            security.masters,
            security.tls,
            options.service_name,
            self._inherit,
            self._labeler.features.known,
        )
        return followers, replication

    def _inherit(self, one: Copy) -> None:
        self._handler.inherit(Inherited(one.report, one.uid), one.parts)

    def serve(self, routes: Iterable[RouteDef]) -> None:
        """Add HTTP paths; before the start."""
        self._http.add(routes)

    def latest_report(self, name: str) -> TimedReport | None:
        """The latest report of a node, and its age."""
        report = self._handler.reports.get(name)
        return None if report is None else TimedReport(report, self._heartbeats.age(name))

    def reported(self) -> list[str]:
        """The nodes with a report that is not outdated, also those whose Node does not exist yet."""
        reports = self._handler.reports
        return sorted(name for name in reports.names() if reports.standing(name) is not Standing.OUTDATED)

    def note(self) -> str:
        """How many nodes' features are known; rules act on those."""
        return known_nodes(len(self._handler.reports.known()), len(self._store.names()))

    def nodes(self) -> list[Node]:
        """All Nodes in the store."""
        return [node for name in list(self._store.names()) if (node := self._store.get(name)) is not None]

    def unwritten(self) -> list[Unwritten]:
        """Keys that nodes should have but do not get."""
        reconciler = self._reconciler
        return [*reconciler.refused(), *reconciler.contradicted(), *self._condition_rejections.unwritten()]

    def silent(self) -> list[str]:
        """The nodes whose worker is silent."""
        return [name for name in self._store.names() if not self._unknowns.is_heard(name)]

    def kept_taints(self) -> Mapping[str, Mapping[str, str]]:
        """The startup taints that Nodes still have, and why, by Node."""
        if not self._options.settings.startup_taints:
            return {}
        return {node.name: kept for node in self.nodes() if (kept := self._reconciler.kept_taints(node))}

    def age(self, name: str) -> float | None:
        """Seconds since the last report of a node to this master; None without one."""
        return self._heartbeats.age(name)

    def origins(self, node: Node) -> Mapping[str, Origin]:
        """The managed labels of a Node, and their origins."""
        return parse_owned(node.annotations, self._options.settings.instance, node.uid, self._proof).of(Kind.LABELS)

    def starting(self) -> str:
        """What is missing before nodes are known; "" if they are."""
        return self.leadership.reason_not_ready

    async def start(self) -> None:
        """Serve HTTP, get a certificate, fill the node store, then accept reports or refer to the leader.

        Raises: KubeError, ConfigError, OSError.
        """
        options, security = self._options, self._options.security
        if options.http_port is not None:
            self.http_port = await self._http.start(options.host, options.http_port)
        await security.prepare()
        if options.key is not None:
            options.key.changed = self._key_changed
            await options.key.start()
        await self._store.start(self._node_changed)
        if self._resources is not None:
            await self._resources.start(self._store, self.queue, self._leads, self._proof)
        if (snapshot := self._handler.snapshot) is not None:
            self._load(snapshot)
        self._tasks = [tasks.start("node passes", self._work) for _ in range(options.parallelism)]
        self._tasks.append(tasks.start("chores", self._periodic_tasks))
        self._tasks.append(tasks.start("unknown conditions", self._mark_unknown))
        if snapshot is not None:
            self._tasks.append(tasks.start("snapshot", snapshot.run))
        self.port = await self._labeler.start(f"{security.listen or options.host or '[::]'}:{options.port}")
        if options.election is not None:
            await options.election.lease.start(options.election.identity(self.port), self._leadership_changed)
        if self._replication is not None:
            self._tasks.append(tasks.start("replication", self._replication.run))
            await self._replication.wait()
        self.leadership.started()
        self._leadership_changed()
        await self._labeler.serving(True)
        _log.info("master ready", nodes=len(self._store.names()), port=self.port, phase=self.leadership.phase)

    def _load(self, snapshot: Snapshot) -> None:
        """Take over the reports in the snapshot."""
        found = snapshot.load(self._labeler.features.known)
        for one in found:
            self._inherit(one)
        if found:
            _log.info("snapshot loaded", reports=len(self._handler.reports))

    async def stop(self) -> None:
        """Reject further reports, finish queued passes, release the lease, then close."""
        self.leadership.drain()
        clock = asyncio.get_running_loop().time
        until = clock() + self._options.drain
        stopping = tasks.ask("end of calls", self._labeler.stop(self._options.drain / 2))
        if self._followers is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.drain / 2):
                    await self._followers.finish(lambda: not self._labeler.calls)
        await stopping
        finished = not self._leads.is_set()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                if self._tasks:
                    await self.queue.idle()
            finished = True
        self.queue.close()
        await tasks.cancel(self._tasks)
        await self._options.security.finish()
        if self._options.key is not None:
            await self._options.key.stop()
        if self._resources is not None:
            await self._resources.stop()
        if self._options.election is not None:
            await self._options.election.lease.stop(release=finished)
        await self._store.close()
        await self._http.stop()

    async def reconfigure(self, options: Options, resources: MakeResources | None = None) -> None:
        """Apply other options. No report is forgotten, and the proof stays.

        Raises: KubeError.
        """
        changes = {name: getattr(options, name) for name in ("settings", "resync", "stale_after", "info_labels")}
        self._options = replace(self._options, **changes)
        self._heartbeats.stale_after = options.stale_after
        if resources is not None:
            await self._replace_resources(resources)
        self._reconciler.configure(self._with_resources(options.settings))
        self._add_all()

    async def _replace_resources(self, make: MakeResources) -> None:
        """List all custom resources again, and use them once that is done or takes long."""
        async with self._replacing:
            self._make_resources, other = make, make(self.metrics)
            try:
                await other.start(self._store, self.queue, self._leads, self._proof)
                self._resources, other = other, self._resources or other
                self._reconciler.configure(self._with_resources(self._options.settings))
            finally:
                await other.stop()

    def _key_changed(self) -> None:
        """The proof's key changed: differences from now on are not drift."""
        self._reconciler.configure(self._with_resources(self._options.settings))

    def _with_resources(self, settings: ReconcileOptions) -> ReconcileOptions:
        settings = replace(settings, proof=self._proof)
        return replace(settings, evaluate=self._resources.evaluate) if self._resources is not None else settings

    def _leadership_changed(self) -> None:
        """A new leader queues every node. A master that no longer leads forgets all reports, or copies newer ones."""
        if not self.leadership.leading:
            self._terms += 1
            self._leads.clear()
            if self._followers is not None:
                self._followers.end()
            self._handler.end_term()
            if self._followers is None and self._handler.snapshot is None:
                self._handler.clear()
            if self._resources is not None:
                self._resources.clear()
        elif not self._leads.is_set() and self.leadership.phase is not Phase.DRAINING:
            self._tasks = [
                *(task for task in self._tasks if not task.done()),
                tasks.start("take-over", partial(self._take_over, self._terms)),
            ]

    async def _take_over(self, term: int) -> None:
        """List rules and objects again before leading, since the last leader may have used newer ones.

        Not if the term is over by then.
        """
        if self._options.election is not None and self._make_resources is not None:
            await self._replace_resources(self._make_resources)
        if term == self._terms:
            self._leads.set()
            self._heartbeats.clear()
            self._add_all()
            if self._handler.snapshot is not None:
                self._handler.snapshot.changed()
            if self._options.epoch is not None:
                self._tasks.append(tasks.start("epoch", partial(self._ask_workers, self._options.epoch, term)))

    async def _ask_workers(self, epoch: EpochWriter, term: int) -> None:
        """Ask all workers to report, if the features of too few nodes are known."""
        if await epoch.ask_if_needed(self._count_unknown, lambda: term == self._terms and self._leads.is_set()):
            self.metrics.add("report_requests")

    async def _count_unknown(self) -> tuple[int, int]:
        """The nodes whose worker has reported before, and those of them whose features are not known."""
        nodes = unknown = 0
        for number, name in enumerate(list(self._store.names())):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            known = self._handler.reports.is_known(name)
            if (node := self._store.get(name)) is not None and (known or self._had_worker(node)):
                nodes += 1
                unknown += not known
        return nodes, unknown

    def _add_all(self) -> None:
        for name in {*self._store.names(), *self._handler.reports.names()}:
            self.queue.add(name)

    def _node_changed(self, name: str) -> None:
        reports = self._handler.reports
        if self._store.get(name) is None:
            self._reconciler.forget(name)
            if self._resources is not None:
                self._resources.forget(name)
            self._heartbeats.forget(name)
            self._handler.drop(reports.missing(name))
        if reports.get(name) is not None or (self._resources is not None and self._resources.has_objects(name)):
            self.queue.add(name, urgent=True)

    async def _work(self) -> None:
        """Process the queue. Without leadership nodes are dropped: a new leader queues all of them."""
        while True:
            name = await self.queue.take()
            written = False
            try:
                if self._leads.is_set():
                    written = await self._pass(name)
            finally:
                self.queue.done(name)
                self._handler.passed(name, written=written)
            await asyncio.sleep(0)  # a pass without changes never waits: let other tasks run

    async def _pass(self, name: str) -> bool:
        """Returns whether it succeeded."""
        try:
            again = await self._reconciler.reconcile(name)
        except KubeError as error:
            self._postpone(name, error)
        except Exception as error:  # a defect with one node must not stop the others
            failed("node pass", error, node=name)
            self._postpone(name, None, rest_after(error))
        else:
            self.queue.succeeded(name)
            if again is not None:
                self.queue.add_later(name, again)
            if self._failing and self._store.connected:
                self._failing = False
                _log.info("nodes can be written again", node=name)
            return True
        return False

    def _postpone(self, name: str, error: KubeError | None, at_least: float = 0.0) -> None:
        """Queue the node again with back-off. An unavailable API server is logged once, not for each node."""
        self.metrics.add("node_update_failures")
        away = isinstance(error, Unavailable)
        asked = (error.retry_after if isinstance(error, Unavailable) else None) or 0.0
        failures = self.queue.retry(name, max(asked, at_least))
        if error is not None and failures == 1 and not (away and self._failing):
            log_call = _log.error if isinstance(error, Forbidden) else _log.warning
            log_call("cannot update node; trying again", node=name, error=error)
        self._failing = self._failing or away

    async def _periodic_tasks(self) -> None:
        """Run the periodic tasks; one that fails does not affect the others and runs again at the next check."""
        resynced = swept = self._options.now()
        while True:
            await asyncio.sleep(self._options.tick)
            now = self._options.now()
            if 0 < self._options.resync <= now - resynced and self._do(self._resync):
                resynced = now
            if now - swept >= SWEEP and self._do(self._sweep):
                swept = now
            if self._leads.is_set():
                self._do(self._give_up_silent)

    async def _mark_unknown(self) -> None:
        """Make conditions of silent and of restarted nodes Unknown, while this master leads."""
        while True:
            await asyncio.sleep(self._options.tick)
            settings = self._options.settings
            if settings.conditions and settings.publish and self._leads.is_set():
                await self._unknowns.mark(self._leads.is_set)

    def _do(self, chore: Callable[..., None], *over: str) -> bool:
        """Returns whether it succeeded."""
        try:
            chore(*over)
        except Exception as error:
            failed("chores", error, chore=chore.__name__.strip("_"), **({"node": over[0]} if over else {}))
            return False
        return True

    def _resync(self) -> None:
        """Queue all nodes."""
        for name in self._handler.reports.names():
            self.queue.add(name)

    def _sweep(self) -> None:
        """Drop old reports without a Node."""
        self._handler.drop(self._handler.reports.sweep())

    def _give_up_silent(self) -> None:
        """Give up nodes whose worker is silent for longer than `staleAfter`."""
        for name in self._heartbeats.newly_stale(list(self._store.names())):
            if self._do(self._give_up, name):
                self._heartbeats.give_up(name)

    def _give_up(self, name: str) -> None:
        """Remove what came from the node's worker, if it was a worker of this product."""
        node = self._store.get(name)
        if node is not None and self._had_worker(node):
            _log.warning("worker silent for longer than staleAfter; removing its labels", node=name)
            self._handler.reports.expire(node)
            self.queue.add(name)

    def _had_worker(self, node: Node) -> bool:
        """Whether an nfd-worker is known to have reported for the node."""
        instance = self._options.settings.instance
        return bool(parse_owned(node.annotations, instance, node.uid, self._proof).boot_id)

    def _led_nodes(self) -> list[Node]:
        """All Nodes; none where another master leads."""
        return self.nodes() if self.leadership.phase is Phase.LEADING else []

    def _gauges(self) -> Mapping[str, float]:
        snapshot = self._handler.snapshot
        written = snapshot.written if snapshot is not None else None
        return {
            "reports_known": len(self._handler.reports.known()),
            "reports_replicated": self._followers.replicated() if self._followers is not None else 0,
            **({"snapshot_age_seconds": max(time.time() - written, 0.0)} if written is not None else {}),
            "nodes": len(self._store.names()),
            "reporting_nodes": len(self._heartbeats),
            "silent_nodes": self._heartbeats.count_silent(),
            "waiting_reports": self._handler.reports.waiting,
            "startup_tainted_nodes": len(self.kept_taints()),
            "contested_keys": self._reconciler.drift.count(time.monotonic()),
            "queued_nodes": len(self.queue),
            "store_connected": int(self._store.connected),
            "leading": int(self.leadership.phase is Phase.LEADING),
            **(self._resources.gauges() if self._resources is not None else {}),
        }
