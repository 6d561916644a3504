"""AMD's GPUs as PCI and the kernel's driver show them, and their families.

Reads: sys/bus/pci/devices/*/{product_name,mem_info_vram_total,current_compute_partition,current_memory_partition,
available_compute_partition,available_memory_partition} (kernel gpu/amdgpu/driver-misc), ip_discovery/die/0/GC/0/{major,
minor,revision} and fw_version/*_fw_version below it; sys/module/amdgpu/{version,srcversion}.
"""

from __future__ import annotations

import re

from nfd.accelerators.vendors import Model, named
from nfd.features import Instance, printable
from nfd.sources.feature_reader import FeatureReader
from nfd.sources.pci_functions import Function, Ids, read_memory

GPU, PARTITION, DRIVER = "amd.gpu", "amd.partition", "amd.driver"
VENDOR, KINDS = "1002", ("0300", "0302", "0380", "1200")
AMDGPU = "amdgpu"
MODULE = f"sys/module/{AMDGPU}"
FIRMWARE = {name.upper(): f"{name}_fw_version" for name in ("vce", "uvd", "mc", "me", "pfp", "ce", "rlc", "mec", "smc")}
FIRMWARE["SDMA0"] = "sdma_fw_version"
_UNKNOWN = "UNKNOWN"
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)
_PARTS = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}

FAMILIES = {
    "8.": "VI",
    "9.0.1": "AI",
    "9.2.1": "AI",
    "9.4.": "AI",
    "9.5.": "AI",
    "9.1.": "RV",
    "9.2.2": "RV",
    "9.3.": "RV",
    "10.1.": "NV",
    "10.3.1": "VGH",
    "10.3.3": "YC",
    "10.3.6": "GC_10_3_6",
    "10.3.7": "GC_10_3_7",
    "10.3.": "NV",
    "11.0.1": "GC_11_0_1",
    "11.0.4": "GC_11_0_1",
    "11.0.": "GC_11_0_0",
    "11.5.": "GC_11_5_0",
    "12.0.": "GC_12_0_0",
}
"""By the beginning of the graphics core's version, the first that fits (Linux amdgpu/amdgpu_discovery.c)."""


def is_gpu(ids: Ids) -> bool:
    return ids.vendor == VENDOR and ids.kind in KINDS


def read_gpu(reading: FeatureReader, function: Function, *, firmware: bool = False) -> Instance:
    """`address`, `device`, and as far as they are known `product`, `family`, `chip`, `memory` (MiB of the whole GPU),
    `units` (its compute units), `driver`, `compute.partition`, `memory.partition`, whether they can be changed, and
    the number of `parts`; `virtual` and `passed` are `true` or missing.
    """
    vendor = named("amd")
    model, path = vendor.model(function.ids.device, function.revision), function.path
    chip = read_chip(reading, path) or model.chip
    compute = read_partition(reading, f"{path}/current_compute_partition")
    gpu = {
        "address": printable(function.address),
        "device": function.ids.device,
        "product": reading.value(f"{path}/{vendor.product}") or model.product,
        "family": family_of(chip),
        "chip": chip,
        "memory": read_memory(reading, function, vendor) or str(model.memory or ""),
        "units": str(model.units or ""),
        "driver": function.driver,
        "compute.partition": compute,
        "memory.partition": read_partition(reading, f"{path}/current_memory_partition"),
        "parts": str(_parts(compute, model)),
        "virtual": "true" if function.virtual else "",
        "passed": "true" if function.is_passed else "",
    }
    if function.driver == AMDGPU:
        gpu |= {f"{one}.partitioning": _can_change(reading, path, one) for one in ("compute", "memory")}
        gpu |= read_firmware(reading, path) if firmware else {}
    return {key: value for key, value in gpu.items() if value}


def is_counted(gpu: Instance) -> bool:
    """Whether it is one that AMD's labeller would count, or will once the driver is there."""
    return gpu.get("driver", AMDGPU) == AMDGPU and "virtual" not in gpu


def family_of(chip: str) -> str:
    return next((family for start, family in FAMILIES.items() if chip.startswith(start)), "")


def read_chip(reading: FeatureReader, path: str) -> str:
    """Version of the graphics core, `9.4.3`; "" where the GPU has no table of its parts."""
    folder = f"{path}/ip_discovery/die/0/GC/0"
    parts = [reading.value(f"{folder}/{name}") for name in ("major", "minor", "revision")]
    return ".".join(part for part in parts if part) if all(parts) else ""


def read_partition(reading: FeatureReader, path: str) -> str:
    """`SPX`, `NPS1` …; "" if the driver does not know, or cannot divide the GPU."""
    text = (reading.value(path) or "").upper()
    return "" if text == _UNKNOWN else text


def _can_change(reading: FeatureReader, path: str, what: str) -> str:
    return "true" if reading.has(f"{path}/available_{what}_partition") else "false"


def _parts(compute: str, model: Model) -> int:
    return model.parts if compute == "CPX" else _PARTS.get(compute, 1)


def read_firmware(reading: FeatureReader, path: str) -> dict[str, str]:
    """`firmware.MEC` and so on, decimal; 0 is that of a part that the GPU does not have."""
    found = {}
    for name, file in FIRMWARE.items():
        if version := _HEX.fullmatch(reading.value(f"{path}/fw_version/{file}") or ""):
            found[f"firmware.{name}"] = str(int(version[1], 16) or "")
    return found


def read_driver(reading: FeatureReader) -> dict[str, str]:
    """`version` and `srcversion`, if the module tells them; the kernel's own driver has no version."""
    return dict(reading.values(MODULE, {"version": "version", "srcversion": "srcversion"}))
