"""One unreadable fact costs that fact: every query of NVML × every code it may end with."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import pytest

from gfd.config import Config
from tests.gfd.cases import prepare, read_labels, run_process
from tests.gfd.machines import H100, ONE_SLICE, at, carved, laid
from tests.gfd.test_source import scan
from tests.nvml.asking import needs_compiler

pytestmark = needs_compiler

THREE = {
    **ONE_SLICE,
    "profile": "1c.3g.40gb",
    "gi_enum": 2,
    "gi_profile_id": 9,
    "gi_slices": 3,
    "ci_slices": 1,
    "memory_mb": 40448,
}
FABRIC = {"cluster_uuid": "7f3c0102-0304-0506-0708-090a0b0c0dff", "clique": 7}
FAULTS = {
    "recovery": 2,
    "remap": {"pending": 1, "failed": 0},
    "unrepairable": 0,
    "nvlinks": [{"peer": 0}, {"up": 0}],
    "vbios": "96.00.74.00.1A",
    "gsp": "580.159.04",
    "pcie": {"width": 8, "max": 16},
}
GPU = at(1, {**carved(H100, ONE_SLICE, ONE_SLICE, THREE), "fabric": {**FABRIC, "health": 3}, **FAULTS})
MIXED = Config(mig_strategy="mixed")
CODES = (*range(1, 31), 999)
ANSWERS = frozenset({3, 13})
"""Not Supported and Function Not Found: there is no such thing, or the library is older than it."""
OLDER = ANSWERS | {2, 25, 26}
"""So it is with what an older driver does not know: Invalid Argument, Argument Version Mismatch, Deprecated."""
HEALTH = frozenset(
    {
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetUnrepairableMemoryFlag_v1",
        "nvmlDeviceGetNvLinkState",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
        "nvmlDeviceGetNvLinkRemotePciInfo",
        "nvmlDeviceGetNvLinkVersion",
        "nvmlDeviceGetVbiosVersion",
        "nvmlDeviceGetGspFirmwareVersion",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetMaxPcieLinkWidth",
    }
)


def answers(call: str) -> frozenset[int]:
    return OLDER if call in HEALTH else ANSWERS


OF_THE_MOMENT = ("nvidia.com/gpu.state", "nvidia.com/gpu.count.failing", "nvidia.com/gfd.timestamp")

COSTS: dict[str, tuple[str, ...]] = {
    "nvmlSystemGetDriverVersion": ("cuda.driver*",),
    "nvmlSystemGetCudaDriverVersion": ("cuda.runtime*",),
    "nvmlDeviceGetName": ("*.product",),
    "nvmlDeviceGetUUID": (),
    "nvmlDeviceGetPciInfo": ("gpu.mode",),
    "nvmlDeviceGetMemoryInfo": ("gpu.memory",),
    "nvmlDeviceGetCudaComputeCapability": ("gpu.compute.*", "gpu.family"),
    "nvmlDeviceGetMigMode": ("mig-*", "mig.capable", "gpu.product", "gpu.replicas", "gpu.sharing-strategy"),
    "nvmlDeviceGetGpuFabricInfo": ("gpu.clique", "gpu.fabric.state"),
    "nvmlDeviceGetFieldValues": ("gpu.recovery", "gpu.remap"),
    "nvmlDeviceGetUnrepairableMemoryFlag_v1": (),
    "nvmlDeviceGetNvLinkState": ("gpu.nvlink.version",),
    "nvmlDeviceGetNvLinkRemoteDeviceType": ("gpu.nvlink.version",),
    "nvmlDeviceGetNvLinkRemotePciInfo": ("gpu.nvlink.version",),
    "nvmlDeviceGetNvLinkVersion": ("gpu.nvlink.version",),
    "nvmlDeviceGetVbiosVersion": (),
    "nvmlDeviceGetGspFirmwareVersion": (),
    "nvmlDeviceGetCurrPcieLinkWidth": (),
    "nvmlDeviceGetMaxPcieLinkWidth": (),
    "nvmlDeviceGetMaxMigDeviceCount": ("mig-*",),
    "nvmlDeviceGetMigDeviceHandleByIndex": ("mig-*",),
    "nvmlDeviceIsMigDeviceHandle": (),
    "nvmlDeviceGetAttributes": (),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": (),
    "nvmlDeviceGetGpuInstanceId": (),
    "nvmlDeviceGetComputeInstanceId": (),
    "nvmlDeviceGetGpuInstanceById": (),
    "nvmlGpuInstanceGetComputeInstanceById": (),
    "nvmlGpuInstanceGetInfo": (),
    "nvmlComputeInstanceGetInfo": (),
    "nvmlDeviceGetGpuInstanceProfileInfo": (),
    "nvmlGpuInstanceGetComputeInstanceProfileInfo": (),
    "nvmlErrorString": (),
}
"""Call → the labels that its failure may cost. Init, count and handle cost the whole reading, or the device."""
WHOLE = {"nvmlInitWithFlags", "nvmlDeviceGetCount_v2", "hand_out", "nvmlShutdown"}
"""`hand_out` is how the library logs that it is asked for a handle."""


def plain(labels: Any) -> dict[str, str]:
    return {key.removeprefix("nvidia.com/"): value for key, value in labels.items() if key not in OF_THE_MOMENT}


def machine(call: str, code: int) -> dict[str, Any]:
    return {"devices": [GPU], "errors": {call: code}}


def test_the_table_knows_every_query(tmp_path: Path) -> None:
    with laid({"devices": [GPU]}, tmp_path) as one:
        scan(one.host, config=MIXED)
        asked = {call.function for call in one.libraries.calls()}
    known = {name + ending for name in COSTS for ending in ("", "_v2", "_v3", "V")} | WHOLE
    assert asked <= known


@pytest.mark.parametrize("call", COSTS)
def test_at_first_no_other_label_is_missing_or_another(call: str, tmp_path: Path) -> None:
    """And where one is missing, the source counts as failed: whatever stands on the Node stays."""
    with laid({"devices": [GPU]}, tmp_path) as one:
        well = plain(scan(one.host, config=MIXED).labels)
        for code in CODES:
            one.becomes(machine(call, code))
            found = scan(one.host, config=MIXED)
            labels = plain(found.labels)
            costly = [key for key in well.keys() | labels.keys() if well.get(key) != labels.get(key)]
            unexpected = [key for key in costly if not any(fnmatch.fnmatchcase(key, one) for one in COSTS[call])]
            if call == "nvmlDeviceGetMemoryInfo" and code == 3:
                unexpected.remove("gpu.memory.unified")
            assert not unexpected, f"{call} {code}: {unexpected}"
            missing = well.keys() - labels.keys()
            empty_slot = call == "nvmlDeviceGetMigDeviceHandleByIndex" and code in (2, 6)
            assert found.failed or not missing or code in answers(call), f"{call} {code}: {missing} may go"
            assert found.failed or not empty_slot, "MIG on and empty"


@pytest.mark.parametrize("call", [*COSTS, "nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"])
def test_later_all_is_held(call: str, tmp_path: Path) -> None:
    with laid({"devices": [GPU]}, tmp_path) as one:
        for code in CODES:
            if code in answers(call) and call not in ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"):
                continue
            one.becomes({"devices": [GPU]})
            last = scan(one.host, config=MIXED)
            well = plain(last.labels)
            one.becomes(machine(call, code))
            for _ in range(3):
                last = scan(one.host, last, MIXED)
                assert plain(last.labels) == well, f"{call} {code}"
                assert not last.failed, f"{call} {code}"


TEXTS = {
    "name": {"devices": [{**GPU, "name": "NVIDIA H100 80GB HBM3 \udcff\udcfe"}]},
    "uuid": {"devices": [{**GPU, "uuid": "GPU-\udcff"}]},
    "bus id": {"devices": [{**GPU, "pci": {**GPU["pci"], "bus_id": "00000000:01:00.0\udcff"}}]},
    "driver": {"devices": [GPU], "driver": "580.\udcff.04"},
    "profile": {"devices": [{**GPU, "mig": {"current": 1, "devices": [{**ONE_SLICE, "profile": "\udcff"}]}}]},
    "UUID of a MIG device": {"devices": [{**GPU, "mig": {"current": 1, "devices": [{**ONE_SLICE, "uuid": "\udcff"}]}}]},
}


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_that_are_no_utf_8(text: str, tmp_path: Path) -> None:
    with laid({"devices": [GPU]}, tmp_path) as one:
        well = plain(scan(one.host, config=MIXED).labels)
        one.becomes(TEXTS[text])
        found = scan(one.host, config=MIXED)
    labels = plain(found.labels)
    may_differ = {"name": "*.product", "driver": "cuda.driver*"}.get(text, "mig-*")
    assert not [key for key in well if labels.get(key) != well[key] and not fnmatch.fnmatchcase(key, may_differ)]
    assert labels["gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"
    assert not found.failed


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_a_gpu_that_refuses_its_memory_keeps_its_mig_labels(strategy: str, tmp_path: Path) -> None:
    """Drivers refuse it in MIG mode to whoever lacks the privilege (NVML API reference, `nvmlDeviceGetMemoryInfo`)."""
    config = Config(mig_strategy=strategy)  # type: ignore[arg-type]
    gpu = at(1, carved(H100, *[ONE_SLICE] * 7))
    refusing = {**gpu, "errors": {"nvmlDeviceGetMemoryInfo": 4}}
    with laid({"devices": [gpu]}, tmp_path) as one:
        well = plain(scan(one.host, config=config).labels)
        one.becomes({"devices": [refusing]})
        labels = plain(scan(one.host, config=config).labels)
    assert well["mig.strategy"] == strategy
    assert {key: value for key, value in well.items() if labels.get(key) != value}.keys() <= {"gpu.memory"}
    prefix = "gpu" if strategy == "single" else "mig-1g.10gb"
    assert labels[f"{prefix}.memory"] == "9984"
    assert labels[f"{prefix}.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"


def test_a_shutdown_that_fails_costs_nothing(tmp_path: Path) -> None:
    """In a process of its own: NVML stays initialised there."""
    found = []
    for number, errors in enumerate(({}, {"nvmlShutdown": 999})):
        case = {"machine": {"devices": [GPU], "errors": errors}, "flags": ["--mig-strategy=mixed"]}
        start = prepare(case, tmp_path / str(number))
        assert run_process(start).code == 0
        found.append(plain(read_labels(start.out.read_text())))
    assert found[0] == found[1]


def test_without_profile_names_the_device_says_its_own(tmp_path: Path) -> None:
    gpu = at(1, {**carved(H100, THREE), "errors": {"nvmlDeviceGetMemoryInfo": 4}})
    missing = ["nvmlDeviceGetGpuInstanceProfileInfoV"]
    with laid({"devices": [gpu], "missing": missing}, tmp_path) as one:
        labels = plain(scan(one.host, config=MIXED).labels)
    assert labels["mig-1c.3g.40gb.count"] == "1"
