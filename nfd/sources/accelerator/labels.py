"""Labels of accelerators, from the feature `accelerator.device` and, for NVIDIA's memory, from `nvidia.gpu`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from nfd.accelerators.vendors import clean_name, named
from nfd.features import Features, Instance, Labels
from nfd.sources.accelerator.states import DEVICE, VFIO, count_failing, state_of
from nfd.sources.device_labels import same, whole_devices

NVIDIA, NVIDIA_GPU = "nvidia", "nvidia.gpu"
_BLANK = re.compile(r"\{(\w+)\}")
_VERSION = re.compile(r"(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?(?:[-+~.](?P<revision>.+))?", re.ASCII)


def derive_labels(features: Features, exclude: Collection[str], *, vendor_labels: bool) -> Labels:
    """Keys without a namespace are those of the source."""
    by_vendor: dict[str, list[Instance]] = {}
    for one in features.instances.get(DEVICE, ()):
        by_vendor.setdefault(one["vendor"], []).append(one)
    if NVIDIA in by_vendor:
        by_vendor[NVIDIA] = with_readings(by_vendor[NVIDIA], features.instances.get(NVIDIA_GPU, ()))
    found: dict[str, str] = {}
    for name, devices in sorted(by_vendor.items()):
        if name not in exclude:
            found.update({f"{name}.{key}": value for key, value in common(devices).items()})
            found.update(own(name, devices) if vendor_labels else {})
    if by_vendor:
        found["any.present"] = "true"
        found.update(least([one for devices in by_vendor.values() for one in devices], "any.memory"))
    return found


def with_readings(devices: Iterable[Instance], gpus: Iterable[Instance]) -> list[Instance]:
    """NVIDIA's devices with the name and memory that the source nvidia has read of them."""
    known = {gpu.get("pci.address", ""): gpu for gpu in gpus}
    found: list[Instance] = []
    for one in devices:
        gpu = known.get(one["address"], {})
        reading = {"product": gpu.get("name", "").replace(" ", "-")}
        reading["memory"] = "" if gpu.get("memory.unified") == "true" else gpu.get("memory", "")
        found.append({**one, **{key: value for key, value in reading.items() if value}})
    return found


def common(devices: Sequence[Instance]) -> dict[str, str]:
    """The labels that every vendor has."""
    whole = whole_devices(devices)
    found = {"present": "true", "count": str(len(whole)), **products(whole), **least(whole, "memory")}
    found["driver"] = same(whole, "driver")
    found["state"] = state_of(whole)
    counts = {
        "failing": count_failing(whole),
        "vfio": sum(one.get("state") == VFIO for one in whole),
        "virtual": len(devices) - len(whole),
    }
    found.update({f"count.{name}": str(count) for name, count in counts.items() if count})
    return {key: value for key, value in found.items() if value}


def products(devices: Sequence[Instance]) -> dict[str, str]:
    """The product that all have; or how many there are of each."""
    counted = Counter(clean_name(one.get("product", "")) for one in devices)
    del counted[""]
    if len(counted) == 1 and counted.total() == len(devices):
        return {"product": next(iter(counted))}
    return {f"product.{name}": str(count) for name, count in counted.items()}


def least(devices: Iterable[Instance], key: str) -> dict[str, str]:
    """The memory of the smallest device whose own memory is known."""
    sizes = [int(one["memory"]) for one in devices if "memory" in one]
    return {key: str(min(sizes))} if sizes else {}


def own(name: str, devices: Sequence[Instance]) -> dict[str, str]:
    """The labels of the vendor's own labeller, as its data says; one of which a part is not known is left out."""
    whole = whole_devices(devices)
    known = {key: same(whole, key) for key in ("product", "family", "memory", "driver", "version")}
    version = _VERSION.fullmatch(known["version"])
    known |= version.groupdict("") if version else {}
    known["count"] = str(len(whole))
    filled = {key: fill(template, known) for key, template in named(name).labels.items()}
    return {key: value for key, value in filled.items() if value}


def fill(template: str, known: Mapping[str, str]) -> str:
    """A template with its blanks filled; "" if one of them is not known."""
    if not all(known.get(name) for name in _BLANK.findall(template)):
        return ""
    return _BLANK.sub(lambda found: known[found[1]], template)
