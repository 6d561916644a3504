"""Whether the Node follows an event of the machine: in time, once, and with nothing else changed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from nfd import sources
from tests.e2e.nodes import F
from tests.e2e.programs import eventually
from tests.vm.agent import KernelEvent
from tests.vm.guest import Guest
from tests.vm.qmp import QmpError
from tests.vm.shapes import SLOT
from tests.vm.watching import Watch

GRACE = 1.0
"""Seconds after an event, and after the scan of the sources that it concerns, within which the Node must follow."""
SETTLED = 3.0
"""Seconds without a change after which none is expected any more."""
DISK = {"driver": "nvme", "id": "nvme", "bus": SLOT, "serial": "1", "drive": "disk", "use-intel-id": True}
BACKING = {"driver": "null-co", "node-name": "disk", "size": 1 << 26, "read-zeroes": True}

Told = Callable[[KernelEvent], bool]
Labels = Mapping[str, str | None]
"""What the Node's labels must become; None: it goes."""


@dataclass(frozen=True)
class Followed:
    """Seconds from a kernel event to the Node's change, and how many they may be; of several labels the latest's."""

    delay: float
    allowed: float
    labels: str
    """How many were added, removed and changed."""

    def __str__(self) -> str:
        return f"{self.delay:.1f} of {self.allowed:.1f} s"

    @property
    def in_time(self) -> bool:
        return self.delay <= self.allowed


def happened(subsystem: str, action: str, path: str = "") -> Told:
    """Whether it is an event of that kind, of a device with that in its path."""
    return lambda event: (event.subsystem, event.action) == (subsystem, action) and path in event.path


def follow(guest: Guest, act: Callable[[], object], *wanted: tuple[Told, Labels]) -> Followed:
    """Do something to the machine: after each of these events of its kernel, the Node's labels become those."""
    since = len(guest.machine.events.heard)
    with Watch(guest.node) as watch:
        missing = [(told, _missing(watch, labels)) for told, labels in wanted]
        act()
        delay = max(_delay(guest, watch, since, told, labels) for told, labels in missing if labels)
        time.sleep(SETTLED)
        expected = [change for _, labels in missing for change in labels.items()]
        changes = watch.changes()
        assert sorted(changes) == sorted(expected), changes
    kinds = Counter(
        "removed" if value is None else "changed" if key in watch.first else "added" for key, value in expected
    )
    return Followed(delay, allowed(guest, since), ", ".join(f"{number} {kind}" for kind, number in kinds.items()))


def allowed(guest: Guest, since: int) -> float:
    """Seconds that may pass from one of the events heard since until the Node has followed.

    What the scan took is the time of the sources that these concern, by the subsystems that wake them: a module that is
    loaded for a new device concerns others than the device.
    """
    subsystems = {event.subsystem for event in guest.machine.events.heard[since:]}
    concerned = [source.name for source in sources.known() if subsystems & source.wakes]
    return GRACE + sum(guest.metric(f'nfd_worker_source_scan_seconds{{source="{one}"}}') for one in concerned)


def _missing(watch: Watch, labels: Labels) -> Labels:
    """Those that are not so already: other devices give some of them as well."""
    return {key: value for key, value in labels.items() if watch.first.get(key) != value}


def _delay(guest: Guest, watch: Watch, since: int, told: Told, labels: Labels) -> float:
    event = guest.machine.events.wait(told, since)
    return watch.wait(lambda now: all(now.get(key) == value for key, value in labels.items()), 60).at - event.at


@contextmanager
def still(guest: Guest) -> Iterator[None]:
    """No label of the Node changes in this block, nor for a while after it."""
    with Watch(guest.node) as watch:
        yield
        time.sleep(SETTLED)
        changes = watch.changes()
        assert changes == [], changes


@dataclass
class Slot:
    """The free slot of a machine, and a disk that goes in and out; `changed` are the labels that go with it."""

    guest: Guest
    changed: frozenset[str] = frozenset()

    def plug(self) -> Followed:
        self.changed = frozenset({*PCI_LABELS, *STORAGE_LABELS}) - self.guest.node.labels.keys()
        return follow(self.guest, self.put_in, (PCI_ADDED, PCI_LABELS), (BLOCK_ADDED, STORAGE_LABELS))

    def unplug(self) -> Followed:
        pci, storage = (dict.fromkeys(self.changed & labels.keys()) for labels in (PCI_LABELS, STORAGE_LABELS))
        return follow(self.guest, self.take_out, (BLOCK_REMOVED, storage), (PCI_REMOVED, pci))

    def put_in(self) -> None:
        qmp = self.guest.machine.qmp
        qmp.ask("blockdev-add", **BACKING)
        qmp.ask("device_add", **DISK)

    def take_out(self) -> None:
        """The guest is asked to let go of it, as by the button beside a real slot."""
        qmp = self.guest.machine.qmp
        qmp.ask("device_del", id=DISK["id"])
        qmp.event("DEVICE_DELETED")
        eventually(self._backing_gone)

    def _backing_gone(self) -> bool:
        """QEMU lets go of it a moment after it has told that the device is gone."""
        try:
            self.guest.machine.qmp.ask("blockdev-del", **{"node-name": BACKING["node-name"]})
        except QmpError:
            return False
        return True


PCI_LABELS: Labels = {F + name: "true" for name in ("pci-0108_8086_5845.present", "pci-8086.present")}
STORAGE_LABELS: Labels = {F + "storage-nonrotationaldisk": "true"}
"""What a disk in the slot gives, labels included that another device of the machine may give as well."""
PCI_ADDED, PCI_REMOVED = happened("pci", "add"), happened("pci", "remove")
BLOCK_ADDED, BLOCK_REMOVED = happened("block", "add", "/nvme"), happened("block", "remove", "/nvme")
