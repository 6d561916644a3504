"""What a Node must carry, written down by hand from the documentation of the labels; nothing of `nfd` is imported.

Keys of a Node are told apart by their first letter: labels as they are, `@` annotations, `#` capacities, `%` taints.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

F = "feature.node.kubernetes.io/"
LIST = "nfd.node.kubernetes.io/feature-labels"
TAINTS = "nfd.node.kubernetes.io/taints"
ORIGINS = "nfd.node.kubernetes.io/origins"
FOREIGN = "foreign"
"""In the name of every key that somebody else writes."""

CLASSES = ("030200", "120000", "0b4000")
"""Display controllers, accelerators and co-processors: the classes that are labelled (NFD documentation, "pci")."""
VENDORS = ("1eac", "1d0f", "1002", "8086", "1af4")
AMD, INTEL = "1002", "8086"
DEVICE = "0001"
"""The PCI device id of cards that no table knows."""
AMD_DEVICE = "740f"
"""That of an AMD Instinct MI210: 64 GiB, 104 compute units of four SIMD units (AMD's GPU specifications)."""
SOURCES = {
    "pci": frozenset({"pci", "accelerator", "amd", "intel"}),
    "system": frozenset({"system"}),
    "local": frozenset({"local"}),
}
"""Inputs that can be spoiled, and that change while a worker runs: the sources that read them."""

State = Mapping[str, str]
Wanted = Mapping[str, Mapping[str, str]]
"""Origin → keys and values."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What a machine has. `wave` is the value of all entries of its feature file, None if there is none."""

    boot: str
    kernel: tuple[int, int, int] = (6, 1, 20)
    release: tuple[int, int] = (12, 0)
    wave: int | None = 0
    devices: Mapping[str, tuple[str, str]] | None = None
    """Address → class and vendor."""

    def vendors(self) -> set[str]:
        return {vendor for _, vendor in (self.devices or {}).values()}


@dataclass(frozen=True, slots=True)
class Rule:
    """One NodeFeatureRule: nodes that have a device of `vendor` get labels, an annotation and a resource of `value`."""

    name: str
    vendor: str
    value: int

    def object(self) -> dict[str, Any]:
        term = {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": [self.vendor]}}}
        text = str(self.value)
        rule = {
            "name": "only",
            "labels": {f"{self.name}-a": text, f"{self.name}-b": text},
            "annotations": {f"{self.name}-note": text},
            "extendedResources": {f"{self.name}-amount": text},
            "matchFeatures": [term],
        }
        return {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeatureRule",
            "metadata": {"name": self.name},
            "spec": {"rules": [rule]},
        }

    def gives(self, truth: Truth) -> dict[str, str]:
        if self.vendor not in truth.vendors():
            return {}
        names = (f"{F}{self.name}-a", f"{F}{self.name}-b", f"@{F}{self.name}-note", f"#{F}{self.name}-amount")
        return dict.fromkeys(names, str(self.value))


CPU = {
    "cpuid.X87": "true",
    "model.family": "6",
    "model.hypervisor": "none",
    "model.id": "85",
    "model.vendor_id": "Intel",
}


def wanted_of(truth: Truth, rules: Iterable[Rule], foreign: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """All that a Node must carry, by origin."""
    major, minor, revision = map(str, truth.kernel)
    full = {"full": f"{major}.{minor}.{revision}-chaos", "major": major, "minor": minor, "revision": revision}
    first, second = map(str, truth.release)
    release = {"ID": "chaos", "VERSION_ID": f"{first}.{second}", "VERSION_ID.major": first, "VERSION_ID.minor": second}
    pci = [f"{kind[:4]}_{vendor}" for kind, vendor in (truth.devices or {}).values()] + list(truth.vendors())
    wave = {} if truth.wave is None else dict.fromkeys(wave_keys(), str(truth.wave))
    return {
        "cpu": {f"{F}cpu-{name}": value for name, value in CPU.items()},
        "kernel": {f"{F}kernel-version.{name}": value for name, value in full.items()},
        "system": {f"{F}system-os_release.{name}": value for name, value in release.items()},
        "local": wave,
        "pci": {f"{F}pci-{name}.present": "true" for name in pci},
        "accelerator": accelerator_keys(truth),
        "amd": amd_keys(truth),
        "intel": intel_keys(truth),
        FOREIGN: dict(foreign),
        **{f"rule {rule.name}": rule.gives(truth) for rule in rules},
    }


def gpus_of(truth: Truth, vendor: str) -> int:
    """Display controllers of the vendor; an accelerator of class 12 counts for AMD alone (docs/accelerators.md)."""
    kinds = ("0302", "1200") if vendor == AMD else ("0302",)
    return sum(one == vendor and kind[:4] in kinds for kind, one in (truth.devices or {}).values())


def accelerator_keys(truth: Truth) -> dict[str, str]:
    """AMD's cards have their driver and are known; Intel's have none, and work in the memory of the machine."""
    amd, intel = gpus_of(truth, AMD), gpus_of(truth, INTEL)
    found: dict[str, str] = {}
    if amd:
        found |= {"amd.present": "true", "amd.count": str(amd), "amd.driver": "amdgpu", "amd.memory": "65536"}
        found |= {"amd.product": "AMD_Instinct_MI210", "any.memory": "65536"}
    if intel:
        found |= {"intel.present": "true", "intel.count": str(intel)}
        found |= {"intel.state": "no-driver", "intel.count.failing": str(intel)}
    found |= {"any.present": "true"} if found else {}
    return {f"{F}accelerator-{name}": value for name, value in found.items()}


def amd_keys(truth: Truth) -> dict[str, str]:
    """What AMD's node labeller writes of such cards (ROCm/k8s-device-plugin, "Node labeller")."""
    values = {"device-id": AMD_DEVICE, "product-name": "AMD_Instinct_MI210", "family": "AI", "vram": "64G"}
    values |= {"cu-count": "104", "simd-count": "416"}
    return {f"amd.com/gpu.{name}": value for name, value in values.items()} if gpus_of(truth, AMD) else {}


def intel_keys(truth: Truth) -> dict[str, str]:
    """What Intel's rules give GPUs by their PCI ids (intel/intel-device-plugins-for-kubernetes, deployments/nfd)."""
    count = gpus_of(truth, INTEL)
    name = f"gpu.intel.com/device-id.0302-{DEVICE}"
    return {f"{name}.present": "true", f"{name}.count": str(count)} if count else {}


def wave_keys() -> tuple[str, ...]:
    return (f"{F}chaos-wave-a", f"{F}chaos-wave-b", "vendor.example/wave")


def state_of(node: Mapping[str, Any]) -> dict[str, str]:
    """What a Node carries, bookkeeping and what every Node has from its API server left out."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    state = dict(metadata.get("labels") or {})
    state |= {f"@{key}": text for key, text in (metadata.get("annotations") or {}).items() if not _is_kept_by_us(key)}
    state |= {f"#{key}": text for key, text in (status.get("capacity") or {}).items() if "/" in key}
    taints = spec.get("taints") or ()
    return state | {f"%{one['key']}": one.get("value", "") for one in taints if FOREIGN in one["key"]}


def listed_of(node: Mapping[str, Any]) -> set[str]:
    """The labels that the list annotation names, in full (NFD documentation, "Node annotations")."""
    text = (node["metadata"].get("annotations") or {}).get(LIST, "")
    return {item if "/" in item else F + item for item in text.split(",") if item}


def boot_of(node: Mapping[str, Any]) -> str:
    """The boot id that our bookkeeping names."""
    text = (node["metadata"].get("annotations") or {}).get(ORIGINS, "{}")
    try:
        return str(json.loads(text).get("boot", ""))
    except ValueError:  # somebody has written it
        return ""


def _is_kept_by_us(key: str) -> bool:
    return key.startswith("nfd.node.kubernetes.io/")
