"""Fingerprints of listings, for changes without an event: which devices and kernel modules there are."""

from __future__ import annotations

from collections.abc import Iterable

from nfd.errors import HostError
from nfd.host import Host

LISTINGS = {
    "pci": "sys/bus/pci/devices",
    "usb": "sys/bus/usb/devices",
    "block": "sys/block",
    "net": "sys/class/net",
}
MODULES = "proc/modules"

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
