"""Fingerprints of listings, for changes without an event: which devices and kernel modules there are."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from nfd.errors import HostError
from nfd.host import Host
from nfd.runtime.failures import failed
from nfd.runtime.settling import Settling
from nfd.source import Source

LISTINGS = {
    "pci": "sys/bus/pci/devices",
    "usb": "sys/bus/usb/devices",
    "block": "sys/block",
    "net": "sys/class/net",
}
MODULES = "proc/modules"
FOLLOW = 1.0
"""Seconds between two looks at what sources list themselves, as long as nothing changes."""

POLLED = frozenset({*LISTINGS, "module"})
"""Subsystems whose changes a fingerprint shows."""


class Listings:
    """What the listings were when they were last looked at."""

    def __init__(self, host: Host, subsystems: Iterable[str]) -> None:
        self._host = host
        self._seen: dict[str, int] = {}
        self._subsystems = sorted(POLLED & frozenset(subsystems))
        self.changed()

    def changed(self) -> frozenset[str]:
        """Subsystems whose listing differs from last time; one that cannot be read now counts as unchanged."""
        found = set()
        for subsystem in self._subsystems:
            try:
                names = hash(_names(self._host, subsystem))
            except HostError:
                continue
            if self._seen.get(subsystem, names) != names:
                found.add(subsystem)
            self._seen[subsystem] = names
        return frozenset(found)


def _names(host: Host, subsystem: str) -> tuple[tuple[str, int], ...] | tuple[bytes, ...]:
    """Names in a listing, and inodes: another device may have the place of one that was pulled out.

    Of /proc/modules the first column: the others hold use counts (proc_modules(5)).
    """
    if subsystem != "module":
        return host.inodes(LISTINGS[subsystem])
    lines = (host.data(MODULES) or b"").splitlines()
    return tuple(sorted(line.split(b" ", 1)[0] for line in lines))


class Followed:
    """What sources list themselves (`Source.follows`), for those that find something on this machine."""

    def __init__(self, host: Host, sources: Iterable[Source]) -> None:
        self._host = host
        following = [source for source in sources if source.follows is not None]
        self._lists = {source.name: source.follows for source in following if source.follows is not None}
        self._quiet = {source.name: source.quiet for source in following}
        self._seen: dict[str, Settling] = {}
        self._next: dict[str, float] = {}
        self.names: frozenset[str] = frozenset()
        """Sources whose listings are compared."""

    @property
    def due(self) -> float:
        """When the next look is to be taken, by time.monotonic()."""
        return min((self._next[name] for name in self.names), default=math.inf)

    def follow(self, names: Collection[str], now: float) -> None:
        """Compare the listings of these from now on, and of no other."""
        followed = self._lists.keys() & names
        for name in followed - self.names:
            self._seen.setdefault(name, Settling(self._listing(name)))
            self._next[name] = _next_second(now)
        self.names = frozenset(followed)

    def begin_scan(self, names: Collection[str]) -> None:
        """A scan of these begins, which sees what there is now.

        Sources of which nothing is known yet are listed too, since files may change before the scan has found them.
        """
        for name in self._lists.keys() & names:
            if name in self.names or name not in self._seen:
                self._seen[name] = Settling(self._listing(name))

    def settled(self, now: float) -> frozenset[str]:
        """Sources whose listing changed, and has not changed any more since the last look, for `Source.quiet`."""
        found = set()
        for name in self.names:
            if now >= self._next[name]:
                seen = self._seen[name]
                if seen.look(self._listing(name)):
                    found.add(name)
                self._next[name] = now + self._quiet[name] if seen.is_changing else _next_second(now)
        return frozenset(found)

    def _listing(self, name: str) -> tuple[str, ...]:
        try:
            return self._lists[name](self._host)
        except Exception as error:  # a defect of one source
            failed("events", error, source=name)
            return ()


def _next_second(now: float) -> float:
    """The same for all sources, so that one wake-up serves all."""
    return (now // FOLLOW + 1) * FOLLOW
