"""Who has which accelerators: products × memory × MIG layout × sharing × driver, over all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd.fleet.accelerators import DEVICE
from nfd.fleet.gpu_labels import NVIDIA, Gpus
from nfd.fleet.gpu_resources import Resource
from nfd.fleet.node_summary import NodeSummary


@dataclass(frozen=True, slots=True)
class Amount:
    """Of one resource: what is offered, and what of it pods hold."""

    allocatable: int = 0
    allocated: int = 0
    unit: str = DEVICE
    """Amounts of different units are never added."""

    def plus(self, one: Resource) -> Amount:
        return Amount(self.allocatable + one.allocatable, self.allocated + one.allocated, one.unit.kind)

    def to_json(self) -> dict[str, Any]:
        unit = {} if self.unit == DEVICE else {"unit": self.unit}
        return {"allocatable": self.allocatable, "allocated": self.allocated, **unit}


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes whose accelerators of one vendor are alike.

    `memory` is in MiB of one device, of the greatest where there are several kinds. `usable` and `present` count
    devices over all of the nodes, as `Gpus` does for one.
    """

    product: str
    memory: int = 0
    mig: str = ""
    sharing: str = ""
    driver: str = ""
    nodes: tuple[str, ...] = ()
    usable: int = 0
    present: int = 0
    resources: Mapping[str, Amount] = field(default_factory=dict)
    vendor: str = NVIDIA
    title: str = "GPU"

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in ("product", "memory", "mig", "sharing", "driver", "usable", "present")
        }
        found["vendor"] = "" if self.vendor == NVIDIA else self.vendor
        return {key: value for key, value in found.items() if value not in ("", None)} | {
            "nodes": list(self.nodes),
            "resources": {name: one.to_json() for name, one in self.resources.items()},
        }


def group(nodes: Iterable[NodeSummary]) -> list[Group]:
    """Nodes with accelerators, the most numerous products first. A node with those of two vendors is in two groups."""
    found: dict[tuple[str, ...], list[tuple[str, Gpus, tuple[Resource, ...]]]] = {}
    for node in nodes:
        for gpus, resources in _by_vendor(node):
            found.setdefault(_key(gpus, resources), []).append((node.name, gpus, resources))
    groups = [_join(members) for members in found.values()]
    return sorted(groups, key=lambda one: (-one.present, one.product, one.memory, one.mig, one.sharing, one.driver))


def sharing_of(node: NodeSummary) -> str:
    """How the GPUs of a node are shared; several ways where its resources differ."""
    return _sharing(node.resources)


def _sharing(resources: Iterable[Resource]) -> str:
    return " ".join(dict.fromkeys(one.shared for one in resources if one.shared))


def _by_vendor(node: NodeSummary) -> Iterator[tuple[Gpus, tuple[Resource, ...]]]:
    """What the node has of each vendor, and what it offers of that. Resources without labels are a vendor, too."""
    known = {gpus.vendor: gpus for gpus in node.accelerators}
    for vendor in dict.fromkeys([*known, *(one.unit.vendor for one in node.resources)]):
        gpus = known.get(vendor) or Gpus(vendor=vendor)
        yield gpus, tuple(one for one in node.resources if one.unit.vendor == vendor)


def _key(gpus: Gpus, resources: Iterable[Resource]) -> tuple[str, ...]:
    return gpus.vendor, gpus.product, str(_memory(gpus)), gpus.layout, _sharing(resources), gpus.driver


def _memory(gpus: Gpus) -> int:
    return max((model.memory for model in gpus.models), default=0)


def _join(members: list[tuple[str, Gpus, tuple[Resource, ...]]]) -> Group:
    amounts: dict[str, Amount] = {}
    for _, _, resources in members:
        for one in resources:
            amounts[one.name] = amounts.get(one.name, Amount()).plus(one)
    _, gpus, resources = members[0]
    return Group(
        gpus.product,
        _memory(gpus),
        gpus.layout,
        _sharing(resources),
        gpus.driver,
        tuple(sorted(name for name, _, _ in members)),
        sum(one.usable for _, one, _ in members),
        sum(one.present for _, one, _ in members),
        dict(sorted(amounts.items())),
        gpus.vendor,
        gpus.title,
    )
