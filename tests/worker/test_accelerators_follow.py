"""A worker as a process follows its accelerators: a driver comes late, GPUs are divided anew, a card is pulled."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from nfd.report import Report
from tests.rpc.loopback import Running, running
from tests.worker.process import make_machine, until, worker

PCI = "sys/bus/pci/devices"
KFD = "sys/class/kfd/kfd/topology/nodes"
BUSES = (5, 6)
AMD, ANY = "amd.com/gpu.", "feature.node.kubernetes.io/accelerator-amd."
SECONDS = 2.0
EACH_SECOND = "--options={core: {sleepInterval: 1s}}"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    fresh = root / path
    beside = fresh.with_name(f".{fresh.name}")
    beside.write_text(text)
    beside.rename(fresh)


def plug(root: Path, bus: int) -> None:
    """An MI300X that has no driver yet, all files at once."""
    folder = root / "plugged"
    ids = {
        "vendor": "0x1002",
        "device": "0x74a1",
        "class": "0x120000",
        "revision": "0x00",
        "uevent": "PCI_ID=1002:74A1",
    }
    for name, text in {**ids, "subsystem_vendor": "0x1002", "subsystem_device": "0x74a1"}.items():
        write(folder, name, f"{text}\n")
    folder.rename(root / PCI / f"0000:{bus:02x}:00.0")


def load_driver(root: Path) -> None:
    """As the kernel does: the module is there and finds the cards, then KFD, and only then it is live."""
    write(root, "sys/module/amdgpu/initstate", "coming\n")
    write(root, "proc/modules", "amdgpu 1 0 - Loading 0x0\n")
    for bus in BUSES:
        card = f"{PCI}/0000:{bus:02x}:00.0"
        write(root, f"{card}/current_compute_partition", "SPX\n")
        write(root, f"{card}/current_memory_partition", "NPS1\n")
        write(root, f"{card}/product_name", "AMD Instinct MI300X OAM\n")
        write(root, f"{card}/uevent", "DRIVER=amdgpu\nPCI_ID=1002:74A1\n")
    divide(root, "SPX", 1)
    write(root, "sys/module/amdgpu/initstate", "live\n")


def divide(root: Path, mode: str, parts: int) -> None:
    """The compute driver's topology for that many partitions of each GPU, at once as its readers see it."""
    fresh = root / "nodes"
    write(fresh, "0/properties", "cpu_cores_count 96\nsimd_count 0\n")
    for number, (bus, part) in enumerate(((bus, part) for bus in BUSES for part in range(parts)), start=1):
        simds = f"simd_count {1216 // parts}\nsimd_per_cu 4\n"
        write(fresh, f"{number}/properties", f"cpu_cores_count 0\n{simds}location_id {(bus << 8) + part}\ndomain 0\n")
        bank = f"heap_type 1\nsize_in_bytes {(196592 << 20) // parts}\n"
        write(fresh, f"{number}/mem_banks/0/properties", bank)
    for bus in BUSES:
        write(root, f"{PCI}/0000:{bus:02x}:00.0/current_compute_partition", f"{mode}\n")
    (root / KFD).parent.mkdir(parents=True, exist_ok=True)
    if (root / KFD).exists():
        (root / KFD).rename(root / "old")
        shutil.rmtree(root / "old")
    fresh.rename(root / KFD)


async def within(master: Running, change: Callable[[], object], labels: dict[str, str | None]) -> Report:
    """What the worker reports after a change; None is a label that must be gone."""
    change()
    start = time.monotonic()

    def reported() -> bool:
        found = master.taken.reports[-1].labels if master.taken.reports else {}
        return all(found.get(key) == value for key, value in labels.items())

    await until(reported, 20)
    assert time.monotonic() - start < SECONDS
    return master.taken.reports[-1]


def own(report: Report) -> dict[str, str]:
    return {key: value for key, value in report.labels.items() if key.startswith((AMD, ANY))}


async def test_labels_follow_drivers_partitions_and_cards(tmp_path: Path) -> None:
    root = make_machine(tmp_path / "machine")
    for bus in BUSES:
        plug(root, bus)
    write(root, "proc/modules", "")
    flags = (f"--host-root={root}", "-port=0", "--config=", EACH_SECOND)
    async with running() as master, worker(f"--server=localhost:{master.port}", *flags) as ours:
        await until(lambda: bool(master.taken.reports))
        first = own(master.taken.reports[0])
        assert (first[f"{ANY}state"], first[f"{ANY}count"], first[f"{ANY}count.failing"]) == ("no-driver", "2", "2")
        assert (first[f"{AMD}vram"], first[f"{AMD}cu-count"]) == ("192G", "304")

        gone = {f"{ANY}state": None, f"{ANY}count.failing": None}
        name = {f"{AMD}product-name": "AMD_Instinct_MI300X_OAM"}
        loaded = own(await within(master, lambda: load_driver(root), {**gone, **name, f"{ANY}driver": "amdgpu"}))
        cpx = {f"{AMD}vram": "24G", f"{AMD}cu-count": "38", f"{AMD}simd-count": "152", f"{ANY}count": "2"}
        divided = own(await within(master, lambda: divide(root, "CPX", 8), dict(cpx)))
        assert {key for key in loaded if loaded[key] != divided[key]} == {*cpx} - {f"{ANY}count"}
        assert loaded.keys() == divided.keys()
        again = own(
            await within(master, lambda: divide(root, "SPX", 1), {f"{AMD}vram": "192G", f"{AMD}cu-count": "304"})
        )
        assert again == loaded

        def pull() -> None:
            (root / PCI / "0000:06:00.0").rename(root / "pulled")

        assert own(await within(master, pull, {f"{ANY}count": "1"})) == {**loaded, f"{ANY}count": "1"}
        states = [own(report) for report in master.taken.reports]
        assert all(states), "no report lacks the labels meanwhile"
        assert all(f"{AMD}vram" in one for one in states)
        assert (await ours.end())[0] == 0
