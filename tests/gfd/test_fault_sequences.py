"""No label is lost while faults of any GPU follow each other at random, with restarts between them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.gfd.machines import A100, H100, ONE_SLICE, carved, laid
from tests.gfd.restarts import PROGRAMS
from tests.gfd.test_restarts import QUERIES, T4, THREE, Machine, machine
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

ONES = carved(H100, *[ONE_SLICE] * 3)
LAYOUTS: tuple[tuple[str, tuple[Machine, ...]], ...] = (
    ("single", (carved(H100, *[ONE_SLICE] * 7),)),
    ("single", (ONES, ONES)),
    ("single", (H100, H100)),
    ("mixed", (carved(H100, ONE_SLICE, ONE_SLICE, THREE), ONES)),
    ("mixed", (ONES, carved(H100, THREE, THREE))),
    ("mixed", (carved(H100, ONE_SLICE), H100, H100)),
    ("mixed", (T4, carved(A100, ONE_SLICE), carved(H100, ONE_SLICE))),
    ("mixed", (carved(H100, ONE_SLICE), carved(A100, ONE_SLICE))),
    ("none", (H100, T4)),
    ("none", (H100, H100, T4)),
    ("none", (carved(H100, ONE_SLICE), T4)),
    ("none", (H100, T4, A100)),
    ("none", (T4, T4, A100, A100)),
)
"""Strategy and devices."""

CODES = (1, 4, 7, 10, 15, 16, 17, 19, 23, 27, 999)
OF_MIG = ("nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetAttributes", "nvmlDeviceGetGpuInstanceId")
IDENTITY = ("nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetName")
OF_DRIVER = ("nvmlInit", "nvmlDeviceGetCount", "nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion")
FAULTS = ("none", "none", "none", "not listed", "lost", "no handle", "queries", "queries", "identity", "MIG")
WALKS, STEPS = 24, 6


def broken(dice: Random, device: Machine) -> Machine | None:
    """A device with a fault of its own, or with none; None if the driver does not list it."""
    migs = device.get("mig", {}).get("devices", ())
    fault, code = dice.choice(FAULTS), dice.choice(CODES)
    if fault == "MIG" and migs:
        some = [{**mig, "errors": {dice.choice(OF_MIG): 999}} if dice.random() < 0.4 else mig for mig in migs]
        return {**device, "mig": {**device["mig"], "devices": some if dice.random() < 0.5 else []}}
    errors: dict[str, dict[str, int]] = {
        "lost": {"*": code},
        "no handle": {"nvmlDeviceGetHandleByIndex": code},
        "queries": {call: dice.choice(CODES) for call in dice.sample(QUERIES, dice.choice((1, 1, 2, 3)))},
        "identity": {call: code for call in IDENTITY if dice.random() < 0.7},
    }
    return None if fault == "not listed" else {**device, "errors": errors.get(fault, {})}


def disturbed(dice: Random, well: Machine) -> Machine:
    """The machine in some state; a quarter of them are without a fault."""
    kind = dice.random()
    if kind < 0.25:
        return well
    if kind < 0.35:
        return {"devices": []}
    state = {"devices": [found for device in well["devices"] if (found := broken(dice, device)) is not None]}
    if kind < 0.5:
        return {**state, "errors": {dice.choice(OF_DRIVER): dice.choice((*CODES, 9, 12, 18))}}
    return state


def brief(state: Machine) -> str:
    """The errors of the machine, of each device and of its MIG devices."""
    of_devices = {
        device["uuid"]: [
            device.get("errors", {}),
            *(mig.get("errors") for mig in device.get("mig", {}).get("devices", ())),
        ]
        for device in state["devices"]
    }
    return f"{state.get('errors', {})} {of_devices}"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
def test_no_sequence_of_faults_and_restarts_loses_a_label(layout: int, program: str, tmp_path: Path) -> None:
    strategy, devices = LAYOUTS[layout]
    well = machine(*devices)
    with laid(well, tmp_path) as one, PROGRAMS[program](one.host, strategy, tmp_path) as running:
        at_first = running.go()
        for seed in range(WALKS):
            dice, steps = Random(f"{layout} {program} {seed}"), []
            for _ in range(STEPS):
                state = disturbed(dice, well)
                one.becomes(state)
                if dice.random() < 0.4:
                    running.restart("worker restart")
                    steps.append("restart")
                steps.append(brief(state))
                now = running.go()
                missing = sorted(at_first.keys() - now.keys())
                assert not missing, f"seed {seed}: lost {missing} after\n" + "\n".join(steps)
            one.becomes(well)
            assert running.go() == at_first, f"seed {seed}: after\n" + "\n".join(steps)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("calls", [IDENTITY[:1], IDENTITY[:2], IDENTITY])
@pytest.mark.parametrize("devices", [(ONES, H100, H100), (ONES, carved(H100, THREE)), (H100, T4), (T4, H100, H100)])
def test_a_gpu_that_cannot_be_identified_is_no_other_one(
    devices: tuple[Machine, ...], calls: tuple[str, ...], program: str, tmp_path: Path
) -> None:
    well = machine(*devices)
    unnamed = [{**device, "errors": dict.fromkeys(calls, 15)} for device in well["devices"]]
    with laid(well, tmp_path) as one, PROGRAMS[program](one.host, "mixed", tmp_path) as running:
        at_first = running.go()
        for place in range(len(devices)):
            others = [*well["devices"][:place], *well["devices"][place + 1 :]]
            for number, other in enumerate(others):
                listed = [unnamed[well["devices"].index(other)] if device is other else device for device in others]
                one.becomes({"devices": listed})
                missing = sorted(at_first.keys() - running.go().keys())
                assert not missing, f"GPU {place} is not listed, the {number}. of the others is unidentified"
                one.becomes(well)
                assert running.go() == at_first
