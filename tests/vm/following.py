"""Whether the Node follows an event of the machine: in time, once, and with nothing else changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

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
PLUGGED = {F + name: "true" for name in ("pci-0108_8086_5845.present", "pci-8086.present", "storage-nonrotationaldisk")}
"""Labels by a disk in the slot, those included that another device of the machine may give as well."""
DISK = {"driver": "nvme", "id": "nvme", "bus": SLOT, "serial": "1", "drive": "disk", "use-intel-id": True}
BACKING = {"driver": "null-co", "node-name": "disk", "size": 1 << 26, "read-zeroes": True}


@dataclass(frozen=True)
class Followed:
    """`delay` in seconds from the kernel's last event of that kind to the Node's change, `allowed` what it may be."""

    delay: float
    allowed: float

    def __str__(self) -> str:
        return f"{self.delay:.1f} of {self.allowed:.1f} s"

    @property
    def in_time(self) -> bool:
        return self.delay <= self.allowed


def follow(
    guest: Guest,
    act: Callable[[], object],
    told: Callable[[KernelEvent], bool],
    wanted: Mapping[str, str | None],
    sources: tuple[str, ...],
) -> Followed:
    """Do something to the machine; `told` is the kernel's event, `wanted` what changes on the Node (None: goes)."""
    since = len(guest.machine.events.heard)
    with Watch(guest.node) as watch:
        act()
        event = guest.machine.events.wait(told, since)
        state = watch.wait(lambda labels: all(labels.get(key) == value for key, value in wanted.items()), 60)
        time.sleep(SETTLED)
        changed = {key: value for key, value in wanted.items() if watch.first.get(key) != value}
        assert sorted(watch.changes()) == sorted(changed.items())
    scan = sum(guest.metric(f'nfd_worker_source_scan_seconds{{source="{one}"}}') for one in sources)
    return Followed(state.at - event.at, GRACE + scan)


@contextmanager
def still(guest: Guest) -> Iterator[None]:
    """No label of the Node changes in this block, nor for a while after it."""
    with Watch(guest.node) as watch:
        yield
        time.sleep(SETTLED)
        assert watch.changes() == []


@dataclass
class Slot:
    """The free slot of a machine, and a disk that goes in and out; `changed` are the labels that go with it."""

    guest: Guest
    changed: tuple[str, ...] = ()

    def plug(self) -> Followed:
        labels = self.guest.node.labels
        self.changed = tuple(key for key in PLUGGED if key not in labels)
        return follow(self.guest, self.put_in, is_there, PLUGGED, ("pci", "storage"))

    def unplug(self) -> Followed:
        return follow(self.guest, self.take_out, is_gone, dict.fromkeys(self.changed), ("pci", "storage"))

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


def is_there(event: KernelEvent) -> bool:
    return event.action == "add" and event.subsystem == "block" and "/nvme" in event.path


def is_gone(event: KernelEvent) -> bool:
    """The last that is told of a device."""
    return event.action == "remove" and event.subsystem == "pci"
