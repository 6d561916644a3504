"""The worker's loop: scan, report what is new, wait for the timer or for events, until a signal ends it.

It never gives up: if a master is unavailable or rejects a report, the worker tries again with back-off, then sends the
newest state. The timer does not scan sources whose changes are seen as events or in a listing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from nfd import __version__
from nfd.discovery import Discovery, Plan, discover
from nfd.errors import ConfigError, FileGone, HostError, ReportError, rest_after
from nfd.events.wakes import POLL, Events, Wake
from nfd.host import Host
from nfd.report import Reply, Report, SourceState, State
from nfd.report_order import Order
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.runtime.file_watches import Folder
from nfd.runtime.malloc import release
from nfd.runtime.signals import Interrupted, Signals
from nfd.runtime.threads import Limits
from nfd.worker.metrics import Metrics
from nfd.worker.report_content import Content, derive_content, doubtful, hidden_in, unused_patterns
from nfd.worker.report_request_file import EpochFile
from nfd.worker.report_size import find_excess, leave_out
from nfd.worker.schedule import Pace

BOOT_ID = "proc/sys/kernel/random/boot_id"
ONESHOT_SECONDS = 30.0
"""Seconds for which `--oneshot` tries to deliver its report."""
MIN_INTERVAL = 1.0
AGAIN = (1.0, 60.0)
"""Seconds until the next pass after an unexpected exception: the first time, and at most."""
TURN_SECONDS = 20.0
"""CPU time in which a turn of the loop ends, or is ended. Sources have threads with limits of their own."""
ASK = 2.0
"""Seconds between two reports while a source is paused by a label of the Node, at first."""
ASK_LESS = 0.1
"""Later that part of the time for which it has been paused, up to the heartbeat interval."""
FIRST_REPLY = 10.0
"""Seconds for which sources that labels of the Node may pause wait for the first reply."""
NEVER = 3600.0
"""Longest single wait in seconds, when there is no timer."""
REASONS = 10
"""The most errors that are logged for one source while it fails."""
RULE_MISTAKE = "mistake in a rule"

Send = Callable[[Report], Reply]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings from the configuration. `interval` is in seconds, zero or less for a single scan."""

    plan: Plan
    interval: float = 60.0
    publish: bool = True
    unpublished: tuple[str, ...] = ()


def read_boot_id(host: Host) -> str:
    """Empty if it cannot be read. The worker reports without it."""
    try:
        return host.value(BOOT_ID) or ""
    except HostError:
        return ""


class Agent:
    """The worker of one node.

    `send` delivers a report or raises ReportError; `load` reads the settings again or raises ConfigError. `folders` are
    those of the configuration; `changed` says whether it changed since the last call. `epoch` asks for early reports.
    """

    def __init__(
        self,
        host: Host,
        node: str,
        settings: WorkerSettings,
        signals: Signals,
        send: Send,
        load: Callable[[], WorkerSettings],
        *,
        folders: Iterable[Folder] = (),
        changed: Callable[[], bool] = lambda: True,
        live: bool = True,
        epoch: EpochFile | None = None,
    ) -> None:
        self.metrics = Metrics(__version__, node, time.time())
        self.busy_since: float | None = None
        """The start of the current scan or report, by the monotonic clock. While a source runs, the end of its time
        limit: a scan in which several sources hang takes long, and ends."""
        self._log = log.get("worker")
        self._host, self._node, self._signals = host, node, signals
        self._send, self._load = send, load
        self._epoch = epoch or EpochFile()
        self._folders, self._changed, self._live = (*folders, *self._epoch.folders), changed, live
        self._settings = settings
        self._limits = Limits(lambda: signals.stop, self._allow)
        self._events = self._listen()
        self._found: Discovery | None = None
        self._content = Content()
        self._accepted: Content | None = None
        self._good: dict[str, float] = {}
        self._pace = Pace()
        self._paused_since = 0.0
        self._resumed: frozenset[str] = frozenset()
        self._released = False
        self._refusal: ReportError | None = None
        self._reasons: dict[str, set[str]] = {}
        self._started = time.monotonic()
        self._order = Order(read_boot_id(host), time.clock_gettime_ns(time.CLOCK_BOOTTIME), 0)
        self._next_scan = 0.0
        if settings.publish:
            host.node_labels = None

    @property
    def ready(self) -> bool:
        """Whether the first scan is done."""
        return self._found is not None

    def run(self) -> None:
        """Run until a signal. After an unexpected exception everything is scanned again, with back-off."""
        owed, delay = True, AGAIN[0]
        self._host.awaits_labels = self._settings.publish
        try:
            while not self._signals.stop:
                try:
                    self.turn(whole=owed)
                    owed, delay = False, AGAIN[0]
                except Exception as error:
                    self.busy_since = None
                    failed("pass", error, node=self._node)
                    self._signals.wait(max(delay, rest_after(error)))
                    owed, delay = True, min(delay * 2, AGAIN[1])
        except Interrupted:
            self._log.debug("interrupted while reporting")
        finally:
            self._events.close()

    def turn(self, *, whole: bool) -> None:
        """Report changes, then wait for an event and handle it; or scan everything."""
        if whole:
            self._scan_all()
            return
        self._epoch.look()
        self._report_if_due()
        if self._host.awaits_labels and time.monotonic() >= self._started + FIRST_REPLY:
            self._resumed |= self._end_waiting()
        if self._resumed:
            self._scan(self._resumed, timer=False)
            return
        self._handle(self._events.wait(self._pause()))

    def run_once(self, seconds: float = ONESHOT_SECONDS) -> bool:
        """One scan and its report, retried for that long. Returns whether it was delivered."""
        deadline = time.monotonic() + seconds
        try:
            self._scan_all()
            while self._settings.publish and self._accepted != self._content:
                self._report_if_due()
                if self._accepted == self._content:
                    break
                late = time.monotonic() >= deadline or (self._pace.asked and self._pace.not_before >= deadline)
                if self._pace.hopeless or late:
                    self._log.error("giving up: the report was not accepted", node=self._node, error=self._refusal)
                    return False
                self._pace.not_before = min(self._pace.not_before, deadline)
                self._events.wait(self._pace.not_before - time.monotonic())
                if self._signals.stop:
                    return False
        except Interrupted:
            return False
        finally:
            self._events.close()
        return True

    def _pause(self) -> float:
        """Seconds until the timer or the next report."""
        due = [time.monotonic() + NEVER]
        if self._host.awaits_labels:
            due.append(self._started + FIRST_REPLY)
        if self._settings.interval > 0:
            due.append(self._next_scan)
        if self._settings.publish:
            due.append(self._due())
        return max(0.0, min(due) - time.monotonic())

    def _due(self) -> float:
        """When to send the next report."""
        usual = self._pace.due(new=self._content != self._accepted)
        return max(self._pace.not_before, min(usual, self._epoch.due))

    def _handle(self, wake: Wake) -> None:
        """Handle an event, a signal or the timer."""
        if self._signals.stop:
            return
        if wake.reasons:
            self._log.debug("woken", reason=wake.reasons, source=wake.sources)
        if self._may_be_paused(wake.sources):
            self._pace.ask(time.monotonic())
            self._report_if_due()
        if wake.reload:
            self._reload()
        elif self._settings.interval > 0 and time.monotonic() >= self._next_scan:
            self._scan(self._timed() | wake.sources)
        elif wake.sources:
            self._scan(wake.sources, timer=False)

    def _timed(self) -> frozenset[str]:
        """Sources that the timer scans: not those whose every change is noticed and whose last run succeeded."""
        failed = self._found.failed if self._found else {}
        return frozenset(
            source.name
            for source in self._settings.plan.feature_sources
            if not source.settled or source.name in failed or not self._events.covers(source)
        )

    def _scan_all(self) -> None:
        """The first scan, and the one after a reload."""
        self._scan()
        for pattern in unused_patterns(self._settings.unpublished, self._found or Discovery()):
            self._log.warning("core.noPublishFeatures matches no feature", feature=pattern)

    def _scan(self, only: Collection[str] | None = None, *, timer: bool = True) -> None:
        started = self.busy_since = time.monotonic()
        with self._events.scan(only):
            found = discover(self._host, self._settings.plan, self._found, only, self._limits.run)
            if excess := find_excess(found, hidden_in(found, self._settings.unpublished)):
                found = leave_out(found, excess)
        self._events.follow([name for name, scan in found.scans.items() if scan.features])
        self._resumed = frozenset() if only is None else self._resumed.difference(only)
        self.busy_since, now = None, time.monotonic()
        self._good.update(dict.fromkeys((name for name in found.scans if name not in found.failed), now))
        self.metrics.scanned(found, now - started, full=timer)
        if timer:
            self._next_scan = started + max(self._settings.interval, MIN_INTERVAL)
        self._log_changes(self._found or Discovery(), found)
        self._found = found
        content = derive_content(self._settings.plan, found, self._settings.unpublished)
        if content != self._content:
            self._content = content
            self._pace.changed(now)

    def _allow(self, seconds: float) -> None:
        self.busy_since = time.monotonic() + seconds

    def _log_changes(self, before: Discovery, found: Discovery) -> None:
        """Log the differences from the last scan."""
        waiting = self._resumed or (self._host.awaits_labels and self._paused())
        for name, error in () if waiting else found.failed.items():  # those that last are logged after the next scan
            logged = self._reasons.setdefault(name, set())
            if error not in logged and len(logged) < REASONS:
                logged.add(error)
                self._log.warning("source failed; its last good result stays", source=name, error=error)
        for name in before.failed.keys() - found.failed.keys():
            if self._reasons.pop(name, None):
                self._log.info("source works again", source=name)
        known = frozenset(before.problems)
        for problem in found.problems:
            failure = found.failed.get(problem.source)
            if problem in known or (failure is not None and (not problem.written or problem.reason in failure)):
                continue
            log_call, event = (
                (self._log.warning, RULE_MISTAKE) if problem.written else (self._log.info, "feature adapted")
            )
            log_call(event, source=problem.source, path=problem.subject, error=problem.reason)
        written = {key for key, value in found.labels.items() if before.labels.get(key) != value}
        removed = before.labels.keys() - found.labels.keys()
        if written or removed:
            self._log.info("labels changed", written=len(written), removed=len(removed))

    def _report_if_due(self) -> None:
        """Send a report if it is due."""
        if not self._settings.publish or time.monotonic() < self._due():
            return
        content, self.busy_since = self._content, time.monotonic()
        try:
            with self._signals.interruptible():
                reply = self._send(self._report(content))
        except ReportError as error:
            self._failed(error)
            return
        except Exception as error:
            failed("report", error, node=self._node)
            reason, rest = f"{type(error).__name__}: {error}", rest_after(error) or None
            self._failed(ReportError(reason, retry=True, retry_after=rest))
            return
        finally:
            self.busy_since = None
        if self._pace.failures:
            self._log.info("reports are accepted again", node=self._node)
        self._accepted = content
        self._pace.accepted(time.monotonic(), reply.heartbeat)
        self.metrics.reports += 1
        self.metrics.early_reports += self._epoch.answered()
        self.metrics.taken_at = time.monotonic()
        self._learn(reply.node_labels or {})
        if not (self._released or self._resumed or self._paused()):  # not while a source is still to run
            self._released = True
            release()

    def _learn(self, labels: Mapping[str, str]) -> None:
        """What the master says of the Node's labels; sources that these configure label anew at once."""
        paused, now = self._paused(), time.monotonic()
        first, self._host.awaits_labels = self._host.awaits_labels, False
        before, self._host.node_labels = self._host.node_labels or {}, labels
        self._resumed |= paused - self._paused()
        if still := self._paused():
            self._paused_since = self._paused_since if paused and not first else now
            self._pace.ask(now + max(ASK, (now - self._paused_since) * ASK_LESS))
            self._resumed = self._resumed | still if first else self._resumed - still  # with the reason, at first
        waiting = self._found is not None and self._found.waiting
        chosen = any(source.for_node is not None for source in self._settings.plan.label_sources)
        if waiting or (chosen and labels != before):
            self._scan((), timer=False)

    def _end_waiting(self) -> frozenset[str]:
        """Do without a reply. Returns: the sources that waited for one."""
        paused, self._host.awaits_labels = self._paused(), False
        return paused - self._paused()

    def _paused(self) -> frozenset[str]:
        """Sources that must not run, by the labels of the Node."""
        sources = self._settings.plan.feature_sources
        return frozenset(one.name for one in sources if one.paused is not None and one.paused(self._host))

    def _may_be_paused(self, woken: Collection[str]) -> bool:
        """Whether the master is to be asked first: who changes devices under a driver marks the Node before that."""
        sources = self._settings.plan.feature_sources
        pausable = {one.name for one in sources if one.paused is not None and one.name in self._events.followed.names}
        reported = self._accepted is not None and not self._pace.failures
        return self._settings.publish and reported and bool(pausable & set(woken))

    def _failed(self, error: ReportError) -> None:
        """Log the first failure; success after it is logged in `_report_if_due`."""
        first, self._refusal = not self._pace.failures, error
        wait = self._pace.failed(time.monotonic(), error)
        self.metrics.failures += 1
        log_call = self._log.warning if first else self._log.debug
        log_call("report not accepted; trying again", node=self._node, error=error, seconds=wait)

    def _report(self, content: Content) -> Report:
        order = self._order = Order(self._order.boot_id, self._order.started, self._order.sequence + 1)
        found = self._found or Discovery()
        reasons = {**doubtful(self._settings.plan, found), **found.failed}
        now = time.monotonic()
        states = {
            name: SourceState(state, reasons.get(name, ""), now - self._good.get(name, self._started))
            if state is State.FAILED
            else SourceState(state)
            for name, state in content.states.items()
        }
        return Report(self._node, __version__, "", order, content.labels, {}, content.origins, states, content.features)

    def _reload(self) -> None:
        """Apply the new configuration, or keep the current one if it is invalid. Then scan everything."""
        try:
            settings = self._load()
            if settings.plan.pointless:
                raise ConfigError(f"{settings.plan.pointless}: it contains no known source")
            self._settings = settings
        except FileGone as error:
            if error.news:
                self._log.warning("configuration file is missing or empty; the configuration in use stays", error=error)
        except ConfigError as error:
            self._log.error("configuration is invalid; the previous one stays in use", error=error)
        except Exception as error:
            failed("reload", error, "configuration is invalid; the previous one stays in use")
        else:
            self._log.info("configuration loaded")
            before, self._events = self._events, self._listen()
            self._events.replace(before)
        self._scan_all()

    def _listen(self) -> Events:
        sources = self._settings.plan.feature_sources
        labelling = (one for one in self._settings.plan.label_sources if one not in sources)
        watched, interval = (*sources, *labelling), self._settings.interval
        poll = min(POLL, max(interval, MIN_INTERVAL)) if interval > 0 else POLL
        return Events(
            self._host,
            watched,
            self._signals,
            folders=self._folders,
            changed=self._changed,
            live=self._live,
            poll=poll,
        )
