"""What happens to a machine while its worker runs, each time with the same question: does the Node follow, in time,
once, and is nothing else changed?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import product

import pytest

from tests.e2e.nodes import F
from tests.vm.conftest import Boot
from tests.vm.following import (
    BLOCK_ADDED,
    PCI_ADDED,
    PCI_REMOVED,
    SETTLED,
    Followed,
    Slot,
    allowed,
    follow,
    happened,
    still,
)
from tests.vm.guest import DUMMY, VIRTUAL_FUNCTION, Guest
from tests.vm.shapes import NVDIMM, SLOT, SRIOV, USB, hardware
from tests.vm.table import Table, judged
from tests.vm.watching import Watch

HARDWARE = hardware(
    "Skylake-Server",
    *(SRIOV, USB, NVDIMM, "-global ICH9-LPC.disable_s3=0"),
    smp="2,sockets=1,cores=1,threads=2",
    memory="1G,slots=2,maxmem=4G",
    board="q35,nvdimm=on",
)
ROUNDS = 50
THREADS = F + "cpu-hardware_multithreading"
RANDOM = F + "pci-00ff_1af4_1044.present"
STICK = F + "usb-08_46f4_0001.present"
FILL_MEMORY = """
mkdir -p /tmp/full
mount -t tmpfs -o size=100% tmpfs /tmp/full
available=$(awk '/MemAvailable/ {print $2}' /proc/meminfo)
fallocate -l $((available / 1024 - 40))M /tmp/full/it
"""
"""All but 40 MiB of what is available."""
DRIVE_NVDIMM = "echo ACPI0012:00 >/sys/bus/acpi/drivers/nfit/{}"
NUMBER_OF_VFS = "/sys/bus/pci/devices/0000:02:00.0/sriov_numvfs"

Seen = Callable[[Mapping[str, Followed]], None]
Unmoved = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def guest(boot: Boot) -> Iterator[Guest]:
    with boot(HARDWARE, DRIVE_NVDIMM.format("unbind")) as guest:
        yield guest


@pytest.fixture
def seen(step_table: Table) -> Seen:
    """Puts into the table what was seen, by what happened; then fails if something was not in time."""

    def tell(times: Mapping[str, Followed]) -> None:
        for what, one in times.items():
            measured = judged(one.in_time, f"{one.delay:.2f} s", "LATE")
            step_table.put(what, bound=f"{one.allowed:.2f} s", measured=measured, labels=one.labels)
        assert all(one.in_time for one in times.values()), times

    return tell


@pytest.fixture
def unmoved(guest: Guest, step_table: Table) -> Unmoved:
    """For a `with` block in which something happens that must change no label."""

    @contextmanager
    def block(what: str) -> Iterator[None]:
        with still(guest):
            yield
        step_table.put(what, bound="no change", measured=f"none in {SETTLED:.0f} s", labels="none changed")

    return block


def test_disk(guest: Guest, seen: Seen) -> None:
    slot = Slot(guest)
    seen({"disk plugged in": slot.plug(), "disk taken out": slot.unplug()})


def test_pci_device(guest: Guest, seen: Seen) -> None:
    qmp = guest.machine.qmp
    put_in = partial(qmp.ask, "device_add", driver="virtio-rng-pci", id="random", bus=SLOT)
    there = follow(guest, put_in, (PCI_ADDED, {RANDOM: "true"}))
    take_out = partial(qmp.ask, "device_del", id="random")
    gone = follow(guest, take_out, (PCI_REMOVED, {RANDOM: None}))
    qmp.event("DEVICE_DELETED")
    seen({"PCI device plugged in": there, "PCI device taken out": gone})


def test_usb_device(guest: Guest, seen: Seen) -> None:
    qmp = guest.machine.qmp
    put_in = partial(qmp.ask, "device_add", driver="usb-storage", id="storage", bus="usb.0", drive="stick")
    there = follow(guest, put_in, (happened("usb", "add"), {STICK: "true"}))
    take_out = partial(qmp.ask, "device_del", id="storage")
    gone = follow(guest, take_out, (happened("usb", "remove"), {STICK: None}))
    seen({"USB device plugged in": there, "USB device taken out": gone})


def test_processor_offline_and_online(guest: Guest, seen: Seen) -> None:
    def switch(online: int) -> Callable[[], object]:
        return lambda: guest.machine.run(f"echo {online} >/sys/devices/system/cpu/cpu1/online")

    off = follow(guest, switch(0), (happened("cpu", "offline"), {THREADS: "false"}))
    on = follow(guest, switch(1), (happened("cpu", "online"), {THREADS: "true"}))
    seen({"processor offline": off, "processor online": on})


def test_kernel_module(guest: Guest, seen: Seen) -> None:
    run = guest.machine.run
    there = follow(guest, lambda: run("modprobe dummy"), (happened("module", "add"), {DUMMY: "true"}))
    gone = follow(guest, lambda: run("rmmod dummy"), (happened("module", "remove"), {DUMMY: None}))
    seen({"module loaded": there, "module unloaded": gone})


def test_persistent_memory(guest: Guest, seen: Seen) -> None:
    """Its driver takes it and lets go: the bus that it makes tells of it, the memory does not."""

    def drive(verb: str) -> Callable[[], object]:
        return lambda: guest.machine.run(DRIVE_NVDIMM.format(verb))

    labels = {F + name: "true" for name in ("memory-nv.present", "memory-nv.dax", "storage-nonrotationaldisk")}
    there = follow(guest, drive("bind"), (happened("nd", "add"), labels))
    gone = follow(guest, drive("unbind"), (happened("nd", "remove"), dict.fromkeys(labels)))
    seen({"persistent memory taken by its driver": there, "persistent memory let go": gone})


def test_virtual_functions(guest: Guest, seen: Seen) -> None:
    def make(number: int) -> Callable[[], object]:
        return lambda: guest.machine.run(f"echo {number} >{NUMBER_OF_VFS}")

    there = follow(guest, make(2), (PCI_ADDED, {VIRTUAL_FUNCTION: "true"}))
    gone = follow(guest, make(0), (PCI_REMOVED, {VIRTUAL_FUNCTION: None}))
    seen({"virtual functions made": there, "virtual functions destroyed": gone})


def test_clock_stepped(guest: Guest, seen: Seen, unmoved: Unmoved) -> None:
    """Nothing changes, and what happens afterwards is followed."""
    for step, where in ((7200, "forward"), (-7200, "back")):
        with unmoved(f"clock stepped two hours {where}"):
            guest.machine.run(f"date -s @$(($(date +%s) + {step}))")
        slot = Slot(guest)
        seen({f"- disk in, clock {where}": slot.plug(), f"- disk out, clock {where}": slot.unplug()})


def test_memory_pressure(guest: Guest, seen: Seen, unmoved: Unmoved) -> None:
    with unmoved("all but 40 MiB of memory taken"):
        guest.machine.run(FILL_MEMORY)
    slot = Slot(guest)
    times = {"- disk in, without memory": slot.plug(), "- disk out, without memory": slot.unplug()}
    guest.machine.run("umount /tmp/full")
    seen(times)


def test_root_gone_read_only(guest: Guest, seen: Seen, unmoved: Unmoved) -> None:
    with unmoved("root file system gone read-only"):
        guest.machine.run("mount -o remount,ro /")
    slot = Slot(guest)
    times = {"- disk in, read-only": slot.plug(), "- disk out, read-only": slot.unplug()}
    guest.machine.run("mount -o remount,rw /")
    seen(times)


def test_fifty_rounds(guest: Guest, step_table: Table) -> None:
    """Each label of the disk comes and goes fifty times by what a watch tells, and no write changed nothing."""
    slot, heard = Slot(guest), guest.machine.events
    slot.plug()
    slot.unplug()

    def has(wanted: frozenset[str], labels: Mapping[str, str]) -> bool:
        return slot.changed & labels.keys() == wanted

    rounds = ((slot.put_in, BLOCK_ADDED, slot.changed), (slot.take_out, PCI_REMOVED, frozenset[str]()))
    times: list[Followed] = []
    with Watch(guest.node) as watch:
        for _, (act, last, wanted) in product(range(ROUNDS), rounds):
            since = len(heard.heard)
            act()
            state = watch.until(partial(has, wanted), 60)
            times.append(Followed(state.at - heard.wait(last, since).at, allowed(guest, since), ""))
        changes = watch.changes()
    for key in slot.changed:
        assert [value for name, value in changes if name == key] == ["true", None] * ROUNDS
    assert {name for name, _ in changes} == set(slot.changed)
    assert watch.idle() == 0
    late = [one for one in times if not one.in_time]
    worst = max(times, key=lambda one: one.delay - one.allowed)
    middle = sorted(one.delay for one in times)[ROUNDS]
    step_table.put(
        f"{ROUNDS} rounds of plug and unplug",
        bound=f"{worst.allowed:.2f} s",
        measured=judged(not late, f"worst {worst.delay:.2f} s, median {middle:.2f} s", f"{len(late)} LATE"),
        labels=f"{len(changes)} changes in {len(watch.states)} writes, none missed or doubled",
    )
    assert not late


def test_panic_and_reboot(guest: Guest, seen: Seen, unmoved: Unmoved) -> None:
    """The Node keeps its labels while the machine is away and when it is back."""
    with unmoved("kernel panic and reboot"):
        guest.machine.agent.begin("echo c >/proc/sysrq-trigger")
        guest.machine.wait_for_boot()
        guest.start_worker()
    slot = Slot(guest)
    seen({"- disk in, after the reboot": slot.plug(), "- disk out, after the reboot": slot.unplug()})


def test_suspend(guest: Guest, seen: Seen, unmoved: Unmoved) -> None:
    """The last one: the slots of this board do not notice a disk any more after it."""
    with unmoved("suspended and woken"):
        guest.machine.agent.begin("echo mem >/sys/power/state")
        guest.machine.qmp.event("SUSPEND")
        guest.machine.qmp.ask("system_wakeup")
        guest.machine.qmp.event("WAKEUP")
        guest.machine.agent.end()
    told = happened("module", "add")
    times = follow(guest, lambda: guest.machine.run("modprobe dummy"), (told, {DUMMY: "true"}))
    seen({"- module loaded, after waking": times})
