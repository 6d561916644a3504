"""A worker as a process follows its accelerators, by the kernel's events: drivers come late, GPUs are divided anew,
functions go to virtual machines, cards are pulled. Each change is reported within two seconds, and nothing flaps. Of
partitions there is no event: the worker looks once a second at the number of KFD's topology.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from nfd.report import Report
from tests.rpc.loopback import Running, running
from tests.worker.process import until, worker
from tests.worker.simulated import Simulated

SECONDS = 2.0
BETWEEN = 1.0
"""Seconds in which a worker has scanned what a first event is about, before the next one comes."""
ACCELERATOR, AMD = "feature.node.kubernetes.io/accelerator-", "amd.com/gpu."
INTEL, HAS = "gpu.intel.com/", "intel.feature.node.kubernetes.io/"
OURS = (ACCELERATOR, AMD, INTEL, HAS, "rebellions.ai/", "furiosa.ai/")
Labels = Mapping[str, str | None]


def own(report: Report) -> dict[str, str]:
    return {key: value for key, value in report.labels.items() if key.startswith(OURS)}


def flapping(reports: Sequence[Report]) -> set[str]:
    """Labels that have a value, or none, again after another one."""
    found = set()
    for key in {key for report in reports for key in own(report)}:
        values = [value for value, _ in groupby(own(report).get(key) for report in reports)]
        if len(set(values)) < len(values):
            found.add(key)
    return found


class Watched:
    """What a master gets from one worker."""

    def __init__(self, master: Running) -> None:
        self._taken = master.taken
        self._seen = 0

    async def first(self) -> dict[str, str]:
        await until(lambda: bool(self._taken.reports))
        return own(self._taken.reports[-1])

    async def after(self, change: Callable[[], object], labels: Labels) -> dict[str, str]:
        """The labels after a change; None is one that must be gone. Until then each label changes once."""
        self._seen = len(self._taken.reports)
        change()
        start = time.monotonic()

        def reported() -> bool:
            found = own(self._taken.reports[-1])
            return all(found.get(key) == value for key, value in labels.items())

        await until(reported, 20)
        took = time.monotonic() - start
        assert took < SECONDS, f"{took:.1f} s"
        assert flapping(self._taken.reports[max(self._seen - 1, 0) :]) == set()
        return own(self._taken.reports[-1])

    async def quiet(self, change: Callable[[], object]) -> None:
        """A change after which the worker scans, and every label stays as it is."""
        before = own(self._taken.reports[-1])
        change()
        await asyncio.sleep(SECONDS)
        assert own(self._taken.reports[-1]) == before
        assert flapping(self._taken.reports[max(self._seen - 1, 0) :]) == set()


def flags(machine: Simulated, master: Running) -> tuple[str, ...]:
    """The worker's own interval of a minute: only events can be as fast as is wanted here."""
    return (f"--server=localhost:{master.port}", f"--host-root={machine.root}", "-port=0", "--config=")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Simulated]:
    made = Simulated(tmp_path)
    made.write("proc/modules", "ext4 1 0 - Live 0x0")
    yield made
    made.close()


MI300X = {5: "0000:05:00.0", 6: "0000:06:00.0"}


def topology(parts: int, buses: Sequence[int] = tuple(MI300X)) -> dict[str, str]:
    """KFD's nodes of GPUs that are divided into so many partitions."""
    found = {"0/properties": "cpu_cores_count 96\nsimd_count 0"}
    for number, (bus, part) in enumerate(((bus, part) for bus in buses for part in range(parts)), start=1):
        simds = f"simd_count {1216 // parts}\nsimd_per_cu 4\n"
        found[f"{number}/properties"] = f"cpu_cores_count 0\n{simds}location_id {(bus << 8) + part}\ndomain 0"
        found[f"{number}/mem_banks/0/properties"] = f"heap_type 1\nsize_in_bytes {(196592 << 20) // parts}"
    return found


async def load_amdgpu(machine: Simulated) -> None:
    """As the kernel does: the module is coming and finds one card after the other; then it is live."""
    machine.load("amdgpu", "coming", version="6.12.12")
    await asyncio.sleep(BETWEEN)
    for address in MI300X.values():
        ready = {"current_compute_partition": "SPX", "current_memory_partition": "NPS1"}
        machine.bind(address, "amdgpu", product_name="AMD Instinct MI300X OAM", **ready)
        await asyncio.sleep(BETWEEN)
    machine.kfd(topology(1))
    machine.write("sys/module/amdgpu/initstate", "live")


def divide(machine: Simulated, mode: str, parts: int) -> None:
    """A write to current_compute_partition, of which there is no kernel event."""
    for address in MI300X.values():
        machine.write(f"sys/bus/pci/devices/{address}/current_compute_partition", mode)
    machine.kfd(topology(parts))


async def test_amd(machine: Simulated) -> None:
    for address in MI300X.values():
        machine.plug(address, "1002:74a1", "120000")
    prefix = f"{ACCELERATOR}amd."
    async with running() as master, worker(*flags(machine, master), **machine.variables) as ours:
        watched = Watched(master)
        first = await watched.first()
        assert (first[f"{prefix}state"], first[f"{prefix}count"], first[f"{prefix}count.failing"]) == (
            "no-driver",
            "2",
            "2",
        )
        assert (first[f"{AMD}vram"], first[f"{AMD}cu-count"]) == ("192G", "304")
        await load_amdgpu(machine)
        gone = {f"{prefix}state": None, f"{prefix}count.failing": None}
        named = {f"{AMD}product-name": "AMD_Instinct_MI300X_OAM", f"{AMD}driver-version": "6.12.12"}
        loaded = await watched.after(lambda: None, {**gone, **named, f"{prefix}driver": "amdgpu"})
        assert first.keys() - {*gone} < loaded.keys()

        cpx = {f"{AMD}vram": "24G", f"{AMD}cu-count": "38", f"{AMD}simd-count": "152"}
        divided = await watched.after(lambda: divide(machine, "CPX", 8), cpx)
        assert {key for key in loaded if loaded[key] != divided.get(key)} == cpx.keys()
        spx = {f"{AMD}vram": "192G", f"{AMD}cu-count": "304"}
        assert await watched.after(lambda: divide(machine, "SPX", 1), spx) == loaded

        def deny() -> None:
            machine.deny_kfd(denied=True)
            machine.send(MI300X[5], "change")

        await watched.quiet(deny)
        divided = await watched.after(lambda: divide(machine, "CPX", 8), cpx)
        assert {key for key in loaded if loaded[key] != divided.get(key)} == cpx.keys()
        machine.deny_kfd(denied=False)
        assert await watched.after(lambda: divide(machine, "SPX", 1), spx) == loaded

        pulled = await watched.after(lambda: machine.pull(MI300X[6]), {f"{prefix}count": "1"})
        assert pulled == {**loaded, f"{prefix}count": "1"}
        nothing = {**dict.fromkeys(pulled), f"{ACCELERATOR}any.present": None}
        assert await watched.after(lambda: machine.pull(MI300X[5]), nothing) == {}
        assert (await ours.end())[0] == 0


async def test_intel(machine: Simulated) -> None:
    """Two Arc Pro B60: their driver comes late, one is divided by SR-IOV, one goes to a virtual machine."""
    first, second = "0000:03:00.0", "0000:04:00.0"
    for address in (first, second):
        machine.plug(address, "8086:e211", "030000")
    prefix, count = f"{ACCELERATOR}intel.", f"{INTEL}device-id.0300-e211.count"
    async with running() as master, worker(*flags(machine, master), **machine.variables) as ours:
        watched = Watched(master)
        found = await watched.first()
        assert (found[f"{prefix}state"], found[count]) == ("no-driver", "2")
        assert f"{HAS}gpu" not in found
        machine.load("xe", "coming")
        await asyncio.sleep(BETWEEN)
        machine.bind(first, "xe", tile0__id="0")
        await asyncio.sleep(BETWEEN)
        machine.write("sys/module/xe/initstate", "live")
        bound = {f"{HAS}gpu": "true", f"{prefix}state": None, f"{prefix}driver": "xe", f"{INTEL}tiles": "2"}
        loaded = await watched.after(lambda: machine.bind(second, "xe", tile0__id="0"), bound)

        def virtual_functions() -> None:
            for number in (1, 2):
                address = f"0000:03:00.{number}"
                machine.plug(address, "8086:e211", "030000", physfn__vendor="0x8086")
                machine.bind(address, "xe", tile0__id="0")

        virtual = await watched.after(virtual_functions, {f"{prefix}count.virtual": "2"})
        assert virtual == {**loaded, f"{prefix}count.virtual": "2"}

        def pass_through() -> None:
            machine.bind(second, "")
            machine.bind(second, "vfio-pci")

        passed = await watched.after(pass_through, {f"{prefix}count.vfio": "1", f"{prefix}count": "2"})
        assert (passed[f"{HAS}gpu"], f"{prefix}state" in passed) == ("true", False)
        pulled = await watched.after(lambda: machine.pull(second), {f"{prefix}count": "1", f"{prefix}count.vfio": None})
        assert pulled[count] == "1"
        assert (await ours.end())[0] == 0


VENDORS = {
    "amd-npu": ("1022:17f0", "118000", "amdxdna"),
    "aws": ("1d0f:7264", "088000", "neuron"),
    "habana": ("1da3:1020", "120000", "habanalabs"),
    "intel-npu": ("8086:7d1d", "120000", "intel_vpu"),
    "qualcomm": ("17cb:a100", "120000", "qaic"),
    "rebellions": ("1eff:1220", "120000", "rebellions"),
    "tenstorrent": ("1e52:401e", "120000", "tenstorrent"),
}
"""PCI ids, class and driver of a device of each vendor."""


async def test_other_vendors(machine: Simulated) -> None:
    """Two devices of each: all drivers come at once, one device of each is pulled, then the other one."""
    places = {name: [f"0000:{bus:02x}:00.{one}" for one in range(2)] for bus, name in enumerate(VENDORS, start=16)}
    for name, (ids, kind, _) in VENDORS.items():
        for address in places[name]:
            machine.plug(address, ids, kind)

    def every(**labels: str | None) -> dict[str, str | None]:
        return {f"{ACCELERATOR}{name}.{key}": value for name in VENDORS for key, value in labels.items()}

    async with running() as master, worker(*flags(machine, master), **machine.variables) as ours:
        watched = Watched(master)
        first = await watched.first()
        assert {key: first[f"{ACCELERATOR}{key}.state"] for key in VENDORS} == dict.fromkeys(VENDORS, "no-driver")
        for _, _, driver in VENDORS.values():
            machine.load(driver, "coming")
        await asyncio.sleep(BETWEEN)

        def bind() -> None:
            for name, (_, _, driver) in VENDORS.items():
                for address in places[name]:
                    machine.bind(address, driver)
                machine.write(f"sys/module/{driver}/initstate", "live")

        working = {f"{ACCELERATOR}{name}.driver": driver for name, (_, _, driver) in VENDORS.items()}
        loaded = await watched.after(bind, {**every(state=None, count="2"), **working})
        assert loaded["rebellions.ai/npu.count"] == "2"

        def pull(number: int) -> Callable[[], None]:
            return lambda: [machine.pull(addresses[number]) for addresses in places.values()] and None

        one = await watched.after(pull(0), every(count="1"))
        assert {key for key in loaded if loaded[key] != one.get(key)} == {*every(count=""), "rebellions.ai/npu.count"}
        assert await watched.after(pull(1), dict.fromkeys(loaded)) == {}
        assert (await ours.end())[0] == 0
