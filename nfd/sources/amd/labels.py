"""The labels of AMD's node labeller, from features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from nfd.accelerators.vendors import clean_name
from nfd.features import Features, Instance, Labels
from nfd.sources.amd.gpus import AMDGPU, DRIVER, FIRMWARE, GPU, PARTITION, is_counted
from nfd.sources.device_labels import same

PREFIX, BETA = "amd.com/gpu.", "beta.amd.com/gpu."


def derive_labels(features: Features, config: Any) -> Labels:
    """`config` is that of the source: a property has the option of its name."""
    every = features.instances.get(GPU, ())
    gpus = [one for one in every if is_counted(one)]
    partitions = features.instances.get(PARTITION, ())
    found: dict[str, str] = {}
    for name, values in counted(gpus, partitions).items():
        if getattr(config, name.replace("-", "_")):
            found |= count_labels(name, Counter(values), beta=config.beta)
    for name, value in single(features, every, gpus).items():
        if getattr(config, name.replace("-", "_").replace("mode", "driver_type")) and value:
            found[f"{PREFIX}{name}"] = value
            if config.beta and name == "mode":
                found[f"{BETA}{name}"] = value
    return found | (firmware(gpus) if config.firmware else {})


def counted(gpus: Sequence[Instance], partitions: Sequence[Instance]) -> dict[str, list[str]]:
    """Property → the values that GPUs, or partitions, have; those that do not tell it are left out."""
    return {
        "device-id": values_of(gpus, "device"),
        "product-name": list(filter(None, map(clean_name, values_of(gpus, "product")))),
        "family": values_of(gpus, "family"),
        "vram": [f"{round(int(size) / 1024)}G" for size in values_of(partitions, "memory")],
        "simd-count": values_of(partitions, "simd.count"),
        "cu-count": values_of(partitions, "cu.count"),
    }


def values_of(instances: Iterable[Instance], name: str) -> list[str]:
    return [one[name] for one in instances if name in one]


def count_labels(name: str, values: Counter[str], *, beta: bool) -> dict[str, str]:
    """One value has a plain label; several have one each, with their number. The older names always have numbers."""
    counts = {f"{name}.{value}": str(number) for value, number in values.items()}
    plain = {name: next(iter(values))} if len(values) == 1 else {}
    found = {f"{PREFIX}{key}": value for key, value in (plain or counts).items()}
    return found | ({f"{BETA}{key}": value for key, value in {**plain, **counts}.items()} if beta else {})


def single(features: Features, every: Sequence[Instance], gpus: Sequence[Instance]) -> dict[str, str]:
    """Properties of the node; "" for one that is not known, or that GPUs have differently."""
    driver = features.attributes.get(DRIVER, {})
    layouts = {f"{one.get('compute.partition', '')}_{one.get('memory.partition', '')}".lower() for one in gpus}
    layout = layouts.pop() if len(layouts) == 1 else ""
    return {
        "driver-version": driver.get("version", ""),
        "driver-src-version": driver.get("srcversion", ""),
        "compute-memory-partition": "" if layout.startswith("_") or layout.endswith("_") else layout,
        "compute-partitioning-supported": same(gpus, "compute.partitioning"),
        "memory-partitioning-supported": same(gpus, "memory.partitioning"),
        "mode": mode(every),
    }


def mode(gpus: Sequence[Instance]) -> str:
    """Who gets the GPUs: containers, by the kernel's driver; virtual machines, whole (VFIO) or in parts (`gim`)."""
    drivers = {one.get("driver", "") for one in gpus}
    if AMDGPU in drivers:
        return "container"
    if "gim" in drivers:
        return "vf-passthrough"
    return "pf-passthrough" if any("passed" in one for one in gpus) else ""


def firmware(gpus: Sequence[Instance]) -> dict[str, str]:
    """Under the older name alone, as AMD's labeller has it; sysfs does not tell versions of features."""
    found: dict[str, str] = {}
    for name in FIRMWARE:
        for version, number in Counter(values_of(gpus, f"firmware.{name}")).items():
            found[f"{BETA}firmware.{name}.fw.{version}"] = str(number)
    return found
