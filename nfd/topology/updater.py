"""The loop: scan, account, write what differs; at once, at every interval, and when something happens. And its metrics.

A pass that fails removes nothing: what was published stays; the failure is counted, said when it is new, and the pass
tried again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from nfd import __version__
from nfd.errors import HostError, NfdError
from nfd.host import Host
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.runtime.prometheus import Family, build_family, counter, failures_family
from nfd.topology import podresources
from nfd.topology.accounting import EVERY_NAMESPACE, account, counted, excluded_for
from nfd.topology.allocations import Allocatable, Pod
from nfd.topology.kubelet import Manager, read_manager
from nfd.topology.numa import read_hybrid, read_nodes
from nfd.topology.pods import Claims
from nfd.topology.publisher import Publisher
from nfd.topology.triggers import Triggers
from nfd.topology.zones import FINGERPRINT, Json, fingerprint, topology, zones_of

RETRY = (5.0, 60.0)
"""Seconds until a failed pass is tried again: the first time, and at most."""
METRICS = "nfd_topology_updater_"

_log = log.get("topology")


@dataclass(frozen=True, slots=True)
class UpdaterSettings:
    """What the command line and the configuration say; `interval` 0 leaves it to events."""

    node: str
    socket: str
    kubelet_uri: str
    token_file: str
    interval: float = 60.0
    namespace: str = EVERY_NAMESPACE
    fingerprint: bool = True
    exclude_list: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Metrics:
    """Counts since the start; named as NFD names them (NFD documentation, "Metrics"), and additional ones."""

    def __init__(self) -> None:
        self.started = time.time()
        self.scan_errors = 0
        self.publish_errors = 0
        self.written = 0

    def families(self) -> Iterator[Family]:
        yield build_family(METRICS, __version__, self.started)
        about = "Scans that failed. The NodeResourceTopology object stays as it was."
        yield counter(f"{METRICS}scan_errors", about, self.scan_errors)
        yield counter(f"{METRICS}publish_errors", "Writes that failed. The program tries again.", self.publish_errors)
        about = "Writes of the NodeResourceTopology object after a change."
        yield counter(f"{METRICS}writes", about, self.written)
        yield failures_family(METRICS)


class Updater:
    """`show` takes the object instead of the API server, where nothing is to be published."""

    def __init__(
        self,
        host: Host,
        settings: UpdaterSettings,
        claims: Claims,
        publisher: Publisher,
        metrics: Metrics,
        show: Callable[[Json], None] | None = None,
    ) -> None:
        self._host = host
        self._settings = settings
        self._claims = claims
        self._publisher = publisher
        self._metrics = metrics
        self._show = show
        self._shown: Json | None = None
        self._manager: Manager | None = None
        self._trouble = ""
        self._problems: tuple[tuple[str, str], ...] = ()
        self._stale = False
        self.ready = False
        self.busy_since: float | None = None
        """Monotonic seconds; None between passes."""

    async def run(self, triggers: Triggers) -> None:
        """Until cancelled."""
        await self._claims.informer.synced.wait()
        due, delay = 0.0, RETRY[0]
        while True:
            whole = time.monotonic() >= due or bool(self._trouble)
            if not await self.one_pass(whole=whole):
                due, delay = time.monotonic() + delay, min(delay * 2, RETRY[1])
            elif whole:
                due, delay = time.monotonic() + (self._settings.interval or math.inf), RETRY[0]
            await triggers.wait(due - time.monotonic())

    async def one_pass(self, *, whole: bool = True) -> bool:
        """Whether it went well. A whole one also looks at the kubelet's configuration and at what is published."""
        self.busy_since = time.monotonic()
        try:
            wanted = await self._scan(whole)
        except Exception as error:
            self._metrics.scan_errors += 1
            return self._failed("scan", "scan failed", error)
        else:
            return await self._publish(wanted, whole)
        finally:
            self.busy_since = None

    async def _scan(self, whole: bool) -> Json:
        """The object, without an owner. Raises: HostError, KubeError."""
        allocatable, pods = await podresources.read(self._settings.socket)
        zones = await self._account(allocatable, pods)
        manager = await self._read_manager(whole)
        attributes = read_hybrid(self._host)
        if self._settings.fingerprint and pods:
            attributes[FINGERPRINT] = fingerprint((pod.namespace, pod.name) for pod in pods)
        return topology(self._settings.node, zones, manager.policy, manager.scope, attributes)

    async def _account(self, allocatable: Allocatable, pods: tuple[Pod, ...]) -> list[Json]:
        settings = self._settings
        nodes = read_nodes(self._host)
        holding = counted(pods, settings.namespace)
        claims = await self._claims.of(holding)
        left = account(nodes, allocatable, holding, claims, excluded_for(settings.node, settings.exclude_list))
        problems = (*left.problems, *self._host.take_notes())
        for subject, reason in set(problems) - set(self._problems):
            _log.warning("not included", path=subject, error=reason)
        self._problems = problems
        return zones_of(nodes, left)

    async def _read_manager(self, fresh: bool) -> Manager:
        """As the kubelet says now, or said last. Raises: HostError while it has never said."""
        if fresh or self._manager is None:
            try:
                self._manager = await read_manager(self._settings.kubelet_uri, self._settings.token_file)
                self._stale = False
            except HostError as error:
                if self._manager is None:
                    raise
                log_call = _log.debug if self._stale else _log.warning
                log_call("cannot read the kubelet's configuration; the previous one is used", error=error)
                self._stale = True
        return self._manager

    async def _publish(self, wanted: Json, whole: bool) -> bool:
        if self._show is not None:
            if wanted != self._shown:
                self._show(wanted)
            self._shown = wanted
            return self._well()
        try:
            written = await self._publisher.publish(wanted, look=whole or bool(self._trouble))
        except Exception as error:
            self._metrics.publish_errors += 1
            return self._failed("publish", "topology not published", error)
        if written:
            self._metrics.written += 1
            _log.info("topology published", node=self._settings.node)
        return self._well()

    def _failed(self, task: str, what: str, error: Exception) -> bool:
        """Log an error once while it stays the same. One that was not foreseen is counted as the task's."""
        if not isinstance(error, NfdError):
            failed(task, error, node=self._settings.node)
        log_call = _log.debug if self._trouble == what else _log.warning
        log_call(what, node=self._settings.node, error=error)
        self._trouble = what
        return False

    def _well(self) -> bool:
        if self._trouble:
            _log.info("topology is published again", node=self._settings.node)
        self._trouble, self.ready = "", True
        return True
