"""Nodes that differ from most nodes of their group: driver, kernel, system, and firmware.

Some firmware is in labels, most of it in features alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nfd.features import Features
from nfd.fleet.node_template import labels_of
from nfd.names import FEATURE_NS, NVIDIA_NS

Json = Mapping[str, Any]
_INFO = {
    "kernel": "kernelVersion",
    "system": "osImage",
    "container runtime": "containerRuntimeVersion",
    "kubelet": "kubeletVersion",
}
_LABELS = {
    "driver": f"{NVIDIA_NS}/cuda.driver-version.full",
    "CUDA": f"{NVIDIA_NS}/cuda.runtime-version.full",
    "AMD driver": "amd.com/gpu.driver-version",
    "AMD firmware": "amd.com/gpu.firmware",
}
_NAMED = ("microcode", "vbios", "firmware", "bios")
"""Labels of rules whose name ends with one of these are compared, too."""


_ATTRIBUTES = {"microcode": ("cpu.microcode", "version"), "BIOS": ("system.dmiid", "bios_version")}
_DEVICES = {
    "VBIOS": ("nvidia.gpu", "vbios"),
    "GSP firmware": ("nvidia.gpu", "gsp"),
    "RDMA firmware": ("rdma.device", "firmware"),
}
"""Features that no label has, by what they are."""
UNKNOWN = "(unknown)"
"""A value that is not compared."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A node, and what is not as on `count` of the `size` nodes of its group. "" stands for a value that is absent."""

    node: str
    group: str
    what: str
    value: str
    usual: str
    count: int
    size: int

    def to_json(self) -> dict[str, Any]:
        names = {"count": "nodesWithUsual", "size": "nodesInGroup"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


def versions_of(node: Json) -> dict[str, str]:
    """What can drift, by name; what the node does not have is left out."""
    labels = labels_of(node)
    info = (node.get("status") or {}).get("nodeInfo") or {}
    found = {what: str(info.get(name, "")) for what, name in _INFO.items()}
    found |= {what: labels.get(key, "") for what, key in _LABELS.items()}
    found["kernel"] = labels.get(f"{FEATURE_NS}/kernel-version.full") or found["kernel"]
    found |= {
        key.rpartition("/")[2]: value
        for key, value in labels.items()
        if key.lower().endswith(_NAMED) and key not in _LABELS.values()
    }
    return {what: value for what, value in found.items() if value}


def firmware_of(features: Features | None) -> dict[str, str]:
    """What can drift and only features say; of several devices all different values. Without features it is UNKNOWN."""
    if features is None:
        return dict.fromkeys((*_ATTRIBUTES, *_DEVICES), UNKNOWN)
    found = {what: features.attributes.get(feature, {}).get(name, "") for what, (feature, name) in _ATTRIBUTES.items()}
    for what, (feature, name) in _DEVICES.items():
        values = {one[name] for one in features.instances.get(feature, ()) if one.get(name)}
        found[what] = ", ".join(sorted(values))
    return {what: value for what, value in found.items() if value}


def deviations(
    groups: Mapping[str, Sequence[Json]], versions: Callable[[Json], Mapping[str, str]] = versions_of
) -> list[Deviation]:
    """By group and node. In a group of two that differ, the second one by name deviates."""
    return [one for name, nodes in groups.items() for one in _in_group(name, nodes, versions)]


def _in_group(name: str, nodes: Sequence[Json], versions: Callable[[Json], Mapping[str, str]]) -> Iterator[Deviation]:
    ordered = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    found = [(str(node["metadata"]["name"]), versions(node)) for node in ordered]
    usual = {what: _most_common(one.get(what, "") for _, one in found) for what in _names(found)}
    for node, values in found:
        for what, (value, count) in usual.items():
            if values.get(what, "") not in (value, UNKNOWN):
                yield Deviation(node, name, what, values.get(what, ""), value, count, len(found))


def _names(found: Iterable[tuple[str, Mapping[str, str]]]) -> list[str]:
    return list(dict.fromkeys(what for _, values in found for what, value in values.items() if value != UNKNOWN))


def _most_common(values: Iterable[str]) -> tuple[str, int]:
    return Counter(value for value in values if value != UNKNOWN).most_common(1)[0]
