"""Labels of what cannot be read stay across restarts: every state of MIG and the driver × restart × program."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gfd.machines import H100, ONE_SLICE, at, carved, laid
from tests.gfd.restarts import PROGRAMS, RESTARTS, alone
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

Machine = Mapping[str, Any]

T4 = {"name": "Tesla T4", "memory_mib": 15360, "compute": "7.5", "pci": {"device": "0x1EB8", "class": "0x030200"}}
FABRIC = {"fabric": {"cluster_uuid": "7f3c0102-0304-0506-0708-090a0b0c0dff", "clique": 7}}
THREE = {
    **ONE_SLICE,
    "profile": "3g.40gb",
    "gi_enum": 2,
    "gi_profile_id": 9,
    "gi_slices": 3,
    "ci_profile_id": 2,
    "memory_mb": 40448,
}
PENDING = {"current": 1, "pending": 0, "devices": []}


def machine(*devices: Machine, **more: Any) -> Machine:
    return {"devices": [at(n, one) for n, one in enumerate(devices, 1)], **more}


def failing(device: Machine, call: str, code: int) -> Machine:
    return {**device, "errors": {call: code}}


ONES = {**carved(H100, *[ONE_SLICE] * 7), **FABRIC}
SEVERAL = {**carved(H100, ONE_SLICE, ONE_SLICE, THREE), **FABRIC}
EMPTY = {**carved(H100), **FABRIC}

LAYOUTS: dict[str, tuple[str, Machine]] = {
    "single": ("single", machine(ONES)),
    "single of two": ("single", machine(ONES, ONES)),
    "mixed": ("mixed", machine(SEVERAL)),
    "mixed of two": ("mixed", machine(SEVERAL, ONES)),
    "none": ("none", machine(ONES)),
    "two models": ("none", machine(H100, T4)),
}
"""Strategy, and the machine when all is well."""


def each(layout: Machine, change: Machine) -> Machine:
    """The first device with what is changed."""
    first, *rest = layout["devices"]
    return {"devices": [{**first, **change}, *rest]}


def slot_fails(layout: Machine) -> Machine:
    first, *rest = layout["devices"]
    migs = first["mig"].get("devices", ())
    if not migs:
        return layout
    broken = [*migs[:-1], {**migs[-1], "errors": {"nvmlDeviceGetMigDeviceHandleByIndex": 999}}]
    return {"devices": [{**first, "mig": {**first["mig"], "devices": broken}}, *rest]}


QUERIES = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlGpuInstanceGetInfo",
)

STATES: dict[str, Callable[[Machine], Machine]] = {
    "MIG on and empty": lambda layout: each(layout, {"mig": {"current": 1, "devices": []}}),
    "out of MIG pending": lambda layout: each(layout, {"mig": PENDING}),
    "all empty": lambda layout: {"devices": [{**one, "mig": {"current": 1}} for one in layout["devices"]]},
    "a MIG device fails": slot_fails,
    "no handle": lambda layout: each(layout, {"errors": {"nvmlDeviceGetHandleByIndex": 15}}),
    "GPU is lost": lambda layout: each(layout, {"errors": {"*": 15}}),
    "all lost": lambda layout: {"devices": [failing(one, "*", 15) for one in layout["devices"]]},
    "reset required": lambda layout: each(layout, {"errors": {"*": 16}}),
    "not listed": lambda layout: {"devices": layout["devices"][1:]},
    "none listed": lambda layout: {"devices": []},
    "not included": lambda layout: {**layout, "errors": {"nvmlDeviceGetCount": 999}},
    "no driver version": lambda layout: {**layout, "errors": {"nvmlSystemGetDriverVersion": 999}},
    "no CUDA version": lambda layout: {**layout, "errors": {"nvmlSystemGetCudaDriverVersion": 999}},
    **{
        f"init {code}": lambda layout, code=code: {**layout, "errors": {"nvmlInit": code}}
        for code in (9, 10, 12, 18, 999)
    },
    **{f"{call} fails": lambda layout, call=call: each(layout, {"errors": {call: 999}}) for call in QUERIES},
}
"""From the machine when all is well to the one in that state."""


def stays(before: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    missing = sorted(before.keys() - now.keys())
    assert not missing, f"{where}: lost {missing}"
    other = {key: (value, now[key]) for key, value in before.items() if now[key] != value}
    assert not other, f"{where}: changed {other}"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_restart_loses_nothing_that_the_state_holds(layout: str, program: str, tmp_path: Path) -> None:
    strategy, well = LAYOUTS[layout]
    with laid(well, tmp_path) as one:
        for number, (name, change) in enumerate(STATES.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            one.becomes(well)
            with PROGRAMS[program](one.host, strategy, folder) as running:
                at_first = running.go()
                assert len(at_first) > 15
                for restart in RESTARTS:
                    one.becomes(change(well))
                    for _ in range(3):
                        held = running.go()
                    running.restart(restart)
                    for scan in range(3):
                        stays(held, running.go(), f"{name}, {restart}, scan {scan + 1}")
                    one.becomes(well)
                    assert running.go() == at_first, f"after {name}, {restart}"


@pytest.mark.parametrize("restart", RESTARTS)
def test_what_a_driver_that_lists_no_device_leaves_is_stale(restart: str, tmp_path: Path) -> None:
    strategy, well = LAYOUTS["mixed"]
    with laid(well, tmp_path) as one, alone(one.host, strategy, tmp_path) as running:
        running.go()
        assert "gpu.state" not in running.file.read_text()
        one.becomes(STATES["none listed"](well))
        running.restart(restart)
        running.go()
        assert "nvidia.com/gpu.state=stale" in running.file.read_text().splitlines()


FIRST = ("MIG on and empty", "a MIG device fails", "GPU is lost", "init 9", "none listed")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("layout", ["single", "mixed", "mixed of two"])
@pytest.mark.parametrize("first", FIRST)
def test_one_state_after_another_loses_nothing(first: str, layout: str, program: str, tmp_path: Path) -> None:
    """A new process that meets a state goes on into any other one with as little as it knows."""
    strategy, well = LAYOUTS[layout]
    with laid(well, tmp_path) as one:
        for number, (name, change) in enumerate(STATES.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            one.becomes(well)
            with PROGRAMS[program](one.host, strategy, folder) as running:
                held = running.go()
                one.becomes(STATES[first](well))
                running.restart("worker restart")
                running.go()
                one.becomes(change(well))
                for scan in range(2):
                    missing = sorted(held.keys() - running.go().keys())
                    assert not missing, f"{first}, then {name}, scan {scan + 1}"


INCOMPLETE: dict[str, Callable[[Machine], Machine]] = {
    "not listed": lambda layout: {"devices": layout["devices"][:-1]},
    "no handle": lambda layout: last(layout, "nvmlDeviceGetHandleByIndex", 15),
    "lost": lambda layout: last(layout, "*", 15),
    "no name": lambda layout: last(layout, "nvmlDeviceGetName", 999),
    "no MIG mode": lambda layout: last(layout, "nvmlDeviceGetMigMode", 999),
}
"""What happens to the last device."""

FAILING = ("init 9", "init 18", "init 999", "not included", "none listed")


def last(layout: Machine, call: str, code: int) -> Machine:
    *others, one = layout["devices"]
    return {"devices": [*others, failing(one, call, code)]}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("strategy", "devices"), [("mixed", (ONES, carved(H100, THREE, THREE))), ("none", (H100, T4))])
def test_what_the_first_reading_left_open_stays_open_while_readings_fail(
    strategy: str, devices: tuple[Machine, ...], program: str, tmp_path: Path
) -> None:
    well = machine(*devices)
    with laid(well, tmp_path) as one:
        for number, (name, change) in enumerate(INCOMPLETE.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            with PROGRAMS[program](one.host, strategy, folder) as running:
                one.becomes(well)
                at_first = running.go()
                for state in FAILING:
                    incomplete = change(well)
                    one.becomes(incomplete)
                    running.restart("worker restart")
                    running.go()
                    one.becomes(STATES[state](incomplete))
                    for scan in range(2):
                        missing = sorted(at_first.keys() - running.go().keys())
                        assert not missing, f"{name}, then {state}, scan {scan + 1}"
                    one.becomes(well)
                    assert running.go() == at_first, f"after {name}, {state}"


GONE: dict[str, Callable[[Machine], Machine]] = {
    "MIG off": lambda layout: each(layout, {"mig": {"current": 0}}),
    "carved anew": lambda layout: each(layout, carved({}, THREE)),
    "no fabric": lambda layout: each(layout, {"fabric": None}),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("layout", ["single", "mixed"])
@pytest.mark.parametrize("name", GONE)
def test_after_a_restart_in_any_state_what_is_gone_goes(layout: str, program: str, name: str, tmp_path: Path) -> None:
    """A whole reading ends every hold: labels are then those of a machine that never knew others."""
    strategy, well = LAYOUTS[layout]
    with laid(well, tmp_path) as one:
        (tmp_path / "fresh").mkdir()
        one.becomes(GONE[name](well))
        with PROGRAMS[program](one.host, strategy, tmp_path / "fresh") as running:
            wanted = running.go()
        for number, change in enumerate(STATES.values()):
            folder = tmp_path / str(number)
            folder.mkdir()
            one.becomes(well)
            with PROGRAMS[program](one.host, strategy, folder) as running:
                running.go()
                one.becomes(change(well))
                running.restart("reboot")
                running.go()
                one.becomes(GONE[name](well))
                assert running.go() == wanted, f"after state {list(STATES)[number]}"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("restart", RESTARTS)
def test_a_gpu_that_left_pci_takes_its_labels_along(restart: str, program: str, tmp_path: Path) -> None:
    strategy, well = LAYOUTS["single"]
    with laid(well, tmp_path) as one, PROGRAMS[program](one.host, strategy, tmp_path) as running:
        assert "nvidia.com/gpu.product" in running.go()
        one.becomes(STATES["init 9"](well))
        running.restart(restart)
        assert "nvidia.com/gpu.product" in running.go()
        shutil.rmtree(one.root / "sys/bus/pci/devices/0000:01:00.0")
        for _ in range(2):
            assert not [key for key in running.go() if not key.endswith("vgpu.present")]
            running.restart(restart)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("away", ["library", 9, 999])
def test_the_gpu_of_a_tegra_is_there_while_its_driver_is_not(
    away: str | int, restart: str, program: str, tmp_path: Path
) -> None:
    """It is part of the chip, so there is nothing on PCI to say so."""
    well = {"devices": [{"name": "NVIDIA Jetson", "compute": "11.0"}]}
    files = {"etc/nv_tegra_release": "# R36\n", "proc/meminfo": "MemTotal: 64349696 kB\n"}
    with laid(well, tmp_path, files) as one, PROGRAMS[program](one.host, "none", tmp_path) as running:
        held = running.go()
        assert held["nvidia.com/gpu.product"] == "NVIDIA-Jetson"
        library = one.libraries.nvml
        if away == "library":
            library.rename(library.with_name("away"))
        else:
            one.becomes({**well, "errors": {"nvmlInit": away}})
        stays(held, running.go(), "at first")
        running.restart(restart)
        for scan in range(3):
            stays(held, running.go(), f"scan {scan + 1}")
    with laid({"states": [{"devices": [H100]}, {"devices": []}]}, tmp_path / "other") as other:
        (tmp_path / "again").mkdir()
        with PROGRAMS[program](other.host, "none", tmp_path / "again") as running:
            assert running.go()["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3", "the library is loaded anew"
