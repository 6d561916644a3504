"""What wakes the worker early, and how long it waits for a burst to end: kernel events, files, listings, signals.

Events come in bursts, so a wake waits until nothing has come for QUIET seconds, at most MAX_WAIT; what came while the
worker was busy has waited already. Listings are compared every POLL seconds, with or without events: that finds
changes without an event, such as a network interface in another network namespace. Files of a driver that sends no
events (`Source.follows`) are listed every FOLLOW seconds, where there is such a driver or a device for it. After a
change they are listed again once `Source.quiet` has passed.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field

from nfd.errors import rest_after
from nfd.events.kernel import KernelEvents, NoKernelEvents
from nfd.events.listing import POLLED, Followed, Listings
from nfd.host import Host
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.runtime.file_watches import Folder, Watches, visible_names
from nfd.runtime.signals import Signals
from nfd.source import Source

QUIET = 0.15
MAX_WAIT = 0.5
"""A device whose driver must be loaded makes a burst of a second; its own labels need not wait for the end of that."""
POLL = 10.0

RELOAD = "configuration"
"""Topic of a folder whose change asks for the configuration to be read again."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Which sources to run again, whether to reload, and why; empty when only time has passed."""

    sources: frozenset[str] = frozenset()
    reload: bool = False
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class _Burst:
    """Events since the first one; `due` is when to handle them."""

    concerned: dict[str, frozenset[str]] = field(default_factory=dict)
    """Reason → source names, or RELOAD."""
    first: float = 0.0
    due: float = math.inf

    def add(self, concerned: Mapping[str, frozenset[str]], since: float | None = None) -> None:
        """`since` is when they may have come, if not now."""
        if not concerned:
            return
        now = time.monotonic()
        if not self.concerned:
            self.first = now if since is None else since
        self.concerned |= concerned
        self.due = min(now + QUIET, self.first + MAX_WAIT)


class Events:
    """The events that concern some sources.

    `folders` are further ones to watch. After an event in one of the topic RELOAD, `changed` says whether they hold
    anything new since its last call; other topics only end a wait. `live` is false for a recorded machine, which has no
    kernel events. Listings are compared every `poll` seconds.
    """

    def __init__(
        self,
        host: Host,
        sources: Iterable[Source],
        signals: Signals,
        *,
        folders: Iterable[Folder] = (),
        changed: Callable[[], bool] = lambda: True,
        live: bool = True,
        poll: float = POLL,
    ) -> None:
        self._log = log.get("events")
        self._signals, self._changed = signals, changed
        self._sources = tuple(sources)
        subsystems = frozenset(one for source in self._sources for one in source.wakes)
        self._listings = Listings(host, subsystems)
        self.followed = Followed(host, self._sources if live else ())
        self._kernel = self._listen(subsystems) if live and subsystems else None
        self._kernel_subsystems = subsystems if self._kernel is not None else frozenset()
        own = [
            Folder(source.name, path, host.directory, counts=visible_names)
            for source in self._sources
            for path in source.watches
        ]
        further = tuple(folders)
        self._topics = frozenset(folder.topic for folder in further)
        self._files = self._watch([*own, *further])
        self._interval = poll
        self._next_poll = time.monotonic() + poll
        self._missed: dict[str, frozenset[str]] = {}
        self._busy_since = time.monotonic()
        self._failed_until = -math.inf
        self._signal = select.poll()
        self._signal.register(signals.fileno(), select.POLLIN)
        self._poller = select.poll()
        for part in (self._signals, self._kernel, self._files):
            if part is not None:
                self._poller.register(part.fileno(), select.POLLIN)

    def covers(self, source: Source) -> bool:
        """Whether a change of anything the source wakes on is noticed without reading the source itself."""
        return not self._has_failed() and source.wakes <= POLLED | self._kernel_subsystems

    def follow(self, names: Collection[str]) -> None:
        """Of these sources; they are those that found something."""
        self.followed.follow(names, time.monotonic())

    def replace(self, other: Events) -> None:
        """Close the others and take their place: the next `wait` returns the events that they have pending."""
        self._missed |= other._poll_for(0)
        other.close()

    def close(self) -> None:
        if self._files is not None:
            self._files.close()

    @contextmanager
    def scan(self, only: Collection[str] | None = None) -> Iterator[None]:
        """Around a scan of these sources (None: all): listings are compared with what they were when it began.

        Otherwise a device that disappears, is missed by a scan, and is back before the next comparison would stay
        missed: its listing is as it was. The next `wait` returns what changes while the scan runs.
        """
        scanned = frozenset(source.name for source in self._sources) if only is None else frozenset(only)
        self.followed.begin_scan(scanned)
        found = self._compare()
        self._missed |= {reason: names - scanned for reason, names in found.items() if names - scanned}
        try:
            yield
        finally:
            self._missed |= self._compare()

    def wait(self, seconds: float) -> Wake:
        """Wait for events that concern a source, that long at most; a signal ends it early."""
        deadline = time.monotonic() + seconds
        burst = _Burst()
        burst.add(self._missed | self._poll_for(0), self._busy_since)
        self._missed = {}
        while not (self._signals.stop or self._signals.reload):
            now = time.monotonic()
            until = burst.due if burst.concerned else deadline
            if now >= until:
                break
            comparing = min(self._next_poll, self.followed.due)
            burst.add(self._poll_for(min(until, max(comparing, self._failed_until)) - now))
            self._signals.drain()  # also after a signal that asks for nothing, such as that of a timer
        self._signals.drain()
        if self._signals.reload:
            self._signals.reload = False
            burst.concerned["SIGHUP"] = frozenset({RELOAD})
        if frozenset({RELOAD}) in burst.concerned.values() and not self._changed() and "SIGHUP" not in burst.concerned:
            burst.concerned = {reason: names for reason, names in burst.concerned.items() if RELOAD not in names}
        self._busy_since = time.monotonic()
        concerned = frozenset(name for names in burst.concerned.values() for name in names)
        return Wake(concerned - self._topics - {RELOAD}, RELOAD in concerned, tuple(burst.concerned))

    def _poll_for(self, seconds: float) -> dict[str, frozenset[str]]:
        """What comes within that time, or sooner."""
        poller = self._signal if (paused := self._has_failed()) else self._poller
        ready = poller.poll(max(0, math.ceil(seconds * 1000)))
        if paused:
            return {}
        try:
            return self._read({descriptor for descriptor, _ in ready})
        except Exception as error:
            return self._fail(error)

    def _has_failed(self) -> bool:
        return time.monotonic() < self._failed_until

    def _fail(self, error: Exception) -> dict[str, frozenset[str]]:
        """Events failed with an unexpected error, so any change is possible; they are watched again after a while."""
        failed("events", error)
        self._failed_until = time.monotonic() + max(self._interval, rest_after(error))
        named = frozenset(source.name for source in self._sources if source.wakes or source.watches)
        return {"events failed": named, **{f"{topic} may have changed": frozenset({topic}) for topic in self._topics}}

    def _read(self, ready: AbstractSet[int]) -> dict[str, frozenset[str]]:
        """Reason → source names, of the ready descriptors and, when it is time, of the listings."""
        concerned: dict[str, frozenset[str]] = {}
        topics: frozenset[str] = frozenset()
        if self._kernel is not None and self._kernel.fileno() in ready:
            concerned |= self._read_kernel(self._kernel)
        if self._files is not None and self._files.fileno() in ready:
            topics |= self._files.read()
        if time.monotonic() >= self._next_poll:
            self._next_poll = time.monotonic() + self._interval
            concerned |= self._compare()
            topics |= self._files.sync() if self._files is not None else frozenset()
        if (now := time.monotonic()) >= self.followed.due:
            changed = self.followed.settled(now)
            concerned |= {f"files that {name} follows changed": frozenset({name}) for name in changed}
        return concerned | {f"files of {topic} changed": frozenset({topic}) for topic in topics}

    def _read_kernel(self, kernel: KernelEvents) -> dict[str, frozenset[str]]:
        concerned = {}
        try:
            for subsystem, action in kernel.read():
                concerned[f"kernel event {subsystem} {action}"] = self._waking(subsystem)
        except OverflowError as error:
            concerned[str(error)] = frozenset(source.name for source in self._sources if source.wakes)
        return concerned

    def _compare(self) -> dict[str, frozenset[str]]:
        if self._has_failed():
            return {}
        try:
            return {f"listing of {one} changed": self._waking(one) for one in self._listings.changed()}
        except Exception as error:
            return self._fail(error)

    def _waking(self, subsystem: str) -> frozenset[str]:
        return frozenset(source.name for source in self._sources if subsystem in source.wakes)

    def _listen(self, subsystems: AbstractSet[str]) -> KernelEvents | None:
        try:
            return KernelEvents(subsystems)
        except NoKernelEvents as error:
            self._log.warning("kernel events are not available; listings are compared instead", error=error)
        except Exception as error:
            failed("events", error, "kernel events are not available; listings are compared instead")
        return None

    def _watch(self, folders: Sequence[Folder]) -> Watches | None:
        if not folders:
            return None
        try:
            return Watches(folders)
        except OSError as error:
            self._log.warning("files cannot be watched; they are read at every interval", error=error)
        except Exception as error:
            failed("events", error, "files cannot be watched; they are read at every interval")
        return None
