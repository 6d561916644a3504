"""GPU resources of a node: how they are shared, how much is offered, how much of it pods hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfd.fleet.accelerators import DEVICE, SHARE, Unit, unit_of
from nfd.fleet.gpu_labels import NVIDIA, number
from nfd.fleet.pods import GPU_COUNT, GPU_MEMORY, Ask, is_accelerator_resource, is_gpu_resource, whole

MOST_GPUS = 64
"""A status that says more of one node is not believed: no machine has as many, and each is an object here."""
NVIDIA_DEVICE = Unit(NVIDIA, DEVICE)
GPUSHARE = "gpu-mem"
"""How a GPU is shared whose memory is handed out in pieces."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of gpushare, in the units of the resource."""

    index: int
    total: int
    allocated: int


@dataclass(frozen=True, slots=True)
class Resource:
    """One of `nvidia.com/*`, `aliyun.com/gpu-mem`, or of another vendor's plug-in.

    `sharing` is `time-slicing`, `mps`, `gpu-mem` or "", with the number of `replicas` of each device. `devices` says
    where gpushare has placed what is allocated; `unplaced` is what it has yet to place.
    """

    name: str
    capacity: int = 0
    allocatable: int = 0
    allocated: int = 0
    sharing: str = ""
    replicas: int = 1
    devices: tuple[Device, ...] = ()
    unplaced: int = 0
    unit: Unit = NVIDIA_DEVICE

    @property
    def shared(self) -> str:
        """`time-slicing×4`, `gpu-mem`, or ""."""
        return f"{self.sharing}×{self.replicas}" if self.replicas > 1 else self.sharing

    def to_json(self) -> dict[str, Any]:
        """Amounts always, the rest where there is something to say."""
        found: dict[str, Any] = {
            "name": self.name,
            "capacity": self.capacity,
            "allocatable": self.allocatable,
            "allocated": self.allocated,
        }
        if self.unit.vendor != NVIDIA:
            found |= {"vendor": self.unit.vendor, "unit": self.unit.kind}
        if self.sharing:
            found |= {"sharing": self.sharing, "replicas": self.replicas}
        if self.devices:
            found["devices"] = [
                {"index": one.index, "total": one.total, "allocated": one.allocated} for one in self.devices
            ]
            found["unplaced"] = self.unplaced
        return found


def read_resources(status: Mapping[str, Any], labels: Mapping[str, str], asks: Sequence[Ask]) -> tuple[Resource, ...]:
    """By name: what the node offers, and what pods hold although it is not offered any more."""
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    held: dict[str, int] = {}
    for ask in asks:
        for name, amount in ask.resources.items():
            held[name] = held.get(name, 0) + amount
    wanted = sorted(name for name in {*capacity, *allocatable, *held} if is_accelerator_resource(name))
    found = []
    for name in wanted:
        total, offered = whole(capacity.get(name, "0")), whole(allocatable.get(name, "0"))
        if not total and not offered and not held.get(name):
            continue  # what a plug-in offered before it was set up otherwise stays in the status, with 0
        sharing, replicas = sharing_of(name, labels)
        count = whole(capacity.get(GPU_COUNT, "0")) if name == GPU_MEMORY else 0
        count = count if 0 < count <= MOST_GPUS else 0
        devices, unplaced = _devices(total, count, asks) if name == GPU_MEMORY else ((), 0)
        unit = NVIDIA_DEVICE if is_gpu_resource(name) else unit_of(name) or Unit("", SHARE)
        found.append(Resource(name, total, offered, held.get(name, 0), sharing, replicas, devices, unplaced, unit))
    return tuple(found)


def sharing_of(resource: str, labels: Mapping[str, str]) -> tuple[str, int]:
    """The strategy and the replicas of a resource, by the labels of the devices behind it."""
    if resource == GPU_MEMORY:
        return GPUSHARE, 1
    prefix = resource.removesuffix(".shared")
    strategy = labels.get(f"{prefix}.sharing-strategy", "none")
    return ("", 1) if strategy == "none" else (strategy, max(number(labels, f"{prefix}.replicas"), 1))


def _devices(total: int, count: int, asks: Sequence[Ask]) -> tuple[tuple[Device, ...], int]:
    """All GPUs of gpushare have the same memory; a pod whose GPU is not known, or is not there, is unplaced."""
    placed: dict[int, int] = {}
    unplaced = 0
    for ask in asks:
        amount = ask.resources.get(GPU_MEMORY, 0)
        if ask.gpu is not None and ask.gpu < count:
            placed[ask.gpu] = placed.get(ask.gpu, 0) + amount
        else:
            unplaced += amount
    return tuple(Device(index, total // count, placed.get(index, 0)) for index in range(count)), unplaced
