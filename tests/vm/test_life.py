"""What happens to a machine while its worker runs, each time with the same question: does the Node follow, in time,
once, and is nothing else changed?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.e2e.nodes import F
from tests.vm.agent import KernelEvent
from tests.vm.conftest import Boot
from tests.vm.following import Followed, Slot, follow, still
from tests.vm.guest import DUMMY, VIRTUAL_FUNCTION, Guest
from tests.vm.shapes import NVDIMM, SLOT, SRIOV, USB, hardware
from tests.vm.table import Row
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


@pytest.fixture(scope="module")
def guest(boot: Boot) -> Iterator[Guest]:
    with boot(HARDWARE, DRIVE_NVDIMM.format("unbind")) as guest:
        yield guest


@pytest.fixture
def seen(row: Row, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Puts what was seen into the table, and fails if it was not in time."""
    row.name = request.node.name.removeprefix("test_").replace("_", " ")
    row.note = "Skylake-Server, two threads, NVMe with virtual functions, USB"
    row.cells = dict.fromkeys(("boot", "labels", "flags", "replay"), "as qemu-skylake-server")

    def tell(*times: Followed) -> None:
        row.cell("events", all(one.in_time for one in times), " and ".join(map(str, times)))
        assert all(one.in_time for one in times), times

    return tell


def happened(subsystem: str, action: str) -> Callable[[KernelEvent], bool]:
    return lambda event: (event.subsystem, event.action) == (subsystem, action)


def test_disk(guest: Guest, seen: Callable[..., None]) -> None:
    slot = Slot(guest)
    seen(slot.plug(), slot.unplug())


def test_pci_device(guest: Guest, seen: Callable[..., None]) -> None:
    qmp, sources = guest.machine.qmp, ("pci",)
    put_in = partial(qmp.ask, "device_add", driver="virtio-rng-pci", id="random", bus=SLOT)
    there = follow(guest, put_in, happened("pci", "add"), {RANDOM: "true"}, sources)
    take_out = partial(qmp.ask, "device_del", id="random")
    gone = follow(guest, take_out, happened("pci", "remove"), {RANDOM: None}, sources)
    qmp.event("DEVICE_DELETED")
    seen(there, gone)


def test_usb_device(guest: Guest, seen: Callable[..., None]) -> None:
    qmp, sources = guest.machine.qmp, ("usb",)
    put_in = partial(qmp.ask, "device_add", driver="usb-storage", id="storage", bus="usb.0", drive="stick")
    there = follow(guest, put_in, happened("usb", "add"), {STICK: "true"}, sources)
    take_out = partial(qmp.ask, "device_del", id="storage")
    gone = follow(guest, take_out, happened("usb", "remove"), {STICK: None}, sources)
    seen(there, gone)


def test_processor_offline_and_online(guest: Guest, seen: Callable[..., None]) -> None:
    def switch(online: int) -> Callable[[], object]:
        return lambda: guest.machine.run(f"echo {online} >/sys/devices/system/cpu/cpu1/online")

    off = follow(guest, switch(0), happened("cpu", "offline"), {THREADS: "false"}, ("cpu",))
    on = follow(guest, switch(1), happened("cpu", "online"), {THREADS: "true"}, ("cpu",))
    seen(off, on)


def test_kernel_module(guest: Guest, seen: Callable[..., None]) -> None:
    run, sources = guest.machine.run, ("kernel", "cpu")
    there = follow(guest, lambda: run("modprobe dummy"), happened("module", "add"), {DUMMY: "true"}, sources)
    gone = follow(guest, lambda: run("rmmod dummy"), happened("module", "remove"), {DUMMY: None}, sources)
    seen(there, gone)


def test_persistent_memory(guest: Guest, seen: Callable[..., None]) -> None:
    """Its driver takes it and lets go: the bus that it makes tells of it, the memory does not."""

    def drive(verb: str) -> Callable[[], object]:
        return lambda: guest.machine.run(DRIVE_NVDIMM.format(verb))

    names = ("memory-nv.present", "memory-nv.dax", "storage-nonrotationaldisk")
    labels, sources = {F + name: "true" for name in names}, ("memory", "storage")
    there = follow(guest, drive("bind"), happened("nd", "add"), labels, sources)
    gone = follow(guest, drive("unbind"), happened("nd", "remove"), dict.fromkeys(labels), sources)
    seen(there, gone)


def test_virtual_functions(guest: Guest, seen: Callable[..., None]) -> None:
    def make(number: int) -> Callable[[], object]:
        return lambda: guest.machine.run(f"echo {number} >{NUMBER_OF_VFS}")

    there = follow(guest, make(2), happened("pci", "add"), {VIRTUAL_FUNCTION: "true"}, ("pci",))
    gone = follow(guest, make(0), happened("pci", "remove"), {VIRTUAL_FUNCTION: None}, ("pci",))
    seen(there, gone)


def test_clock_stepped(guest: Guest, seen: Callable[..., None]) -> None:
    """Two hours forward and back: nothing changes, and what happens afterwards is followed."""
    times = []
    for step in (7200, -7200):
        with still(guest):
            guest.machine.run(f"date -s @$(($(date +%s) + {step}))")
        slot = Slot(guest)
        times += [slot.plug(), slot.unplug()]
    seen(*times)


def test_memory_pressure(guest: Guest, seen: Callable[..., None]) -> None:
    with still(guest):
        guest.machine.run(FILL_MEMORY)
    slot = Slot(guest)
    times = slot.plug(), slot.unplug()
    guest.machine.run("umount /tmp/full")
    seen(*times)


def test_root_gone_read_only(guest: Guest, seen: Callable[..., None]) -> None:
    with still(guest):
        guest.machine.run("mount -o remount,ro /")
    slot = Slot(guest)
    times = slot.plug(), slot.unplug()
    guest.machine.run("mount -o remount,rw /")
    seen(*times)


def test_fifty_rounds(guest: Guest, row: Row) -> None:
    """Each label of the disk comes and goes fifty times by what a watch tells, and no write changed nothing."""
    slot = Slot(guest)
    slot.plug()
    slot.unplug()
    row.name, row.note = f"{ROUNDS} rounds of unplug and plug", "as above"
    with Watch(guest.node) as watch:
        for _ in range(ROUNDS):
            slot.put_in()
            watch.until(lambda labels: all(key in labels for key in slot.changed), 60)
            slot.take_out()
            watch.until(lambda labels: not any(key in labels for key in slot.changed), 60)
        changes = watch.changes()
    for key in slot.changed:
        assert [value for name, value in changes if name == key] == ["true", None] * ROUNDS
    assert {name for name, _ in changes} == set(slot.changed)
    assert watch.idle() == 0
    row.cell("events", True, f"{len(changes)} changes, {len(watch.states)} writes, none missed or doubled")
    row.cells |= dict.fromkeys(("boot", "labels", "flags", "replay"), "as qemu-skylake-server")


def test_panic_and_reboot(guest: Guest, seen: Callable[..., None]) -> None:
    """The Node keeps its labels while the machine is away and when it is back."""
    with still(guest):
        guest.machine.agent.begin("echo c >/proc/sysrq-trigger")
        guest.machine.wait_for_boot()
        guest.start_worker()
    slot = Slot(guest)
    seen(slot.plug(), slot.unplug())


def test_suspend(guest: Guest, seen: Callable[..., None]) -> None:
    """The last one: the slots of this board do not notice a disk any more after it."""
    with still(guest):
        guest.machine.agent.begin("echo mem >/sys/power/state")
        guest.machine.qmp.event("SUSPEND")
        guest.machine.qmp.ask("system_wakeup")
        guest.machine.qmp.event("WAKEUP")
        guest.machine.agent.end()
    told = happened("module", "add")
    seen(follow(guest, lambda: guest.machine.run("modprobe dummy"), told, {DUMMY: "true"}, ("kernel", "cpu")))
