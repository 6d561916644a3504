"""GPU resources of a node: how they are shared, how much is offered, how much of it pods hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nfd.fleet.accelerators import DEVICE, SHARE, Unit, unit_of
from nfd.fleet.gpu_labels import GPU, NVIDIA, number, read_gpus
from nfd.fleet.pods import GPU_COUNT, GPU_MEMORY, Ask, is_accelerator_resource, is_gpu_resource, whole
from nfd.names import NVIDIA_NS

MOST_GPUS = 64
"""A status that says more of one node is not believed: no machine has as many, and each is an object here."""
NVIDIA_DEVICE = Unit(NVIDIA, DEVICE)
SHARED = ".shared"
"""End of the name of a resource that the device plugin renamed because it is shared."""
_HAMI = "hami.io/"
_STRATEGY = f"{NVIDIA_NS}/mig.strategy"
_OF_AMOUNTS = ("count", "replicas", "sharing-strategy")
"""Ends of the labels that say how much of a resource there is."""
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
    contradiction: str = ""
    """How the labels of the node disagree."""
    by_claim: bool = False
    """Whether it is a DRA driver's, so that claims say what is allocated."""

    @property
    def shared(self) -> str:
        """`time-slicing×4`, `gpu-mem`, or ""."""
        return f"{self.sharing}×{self.replicas}" if self.replicas > 1 else self.sharing

    def to_json(self) -> dict[str, Any]:
        """Amounts always, the rest where there is something to say."""
        found = {name: getattr(self, name) for name in ("name", "capacity", "allocatable", "allocated")}
        if self.unit.vendor != NVIDIA:
            found |= {"vendor": self.unit.vendor, "unit": self.unit.kind}
        if self.sharing:
            found |= {"sharing": self.sharing, "replicas": self.replicas}
        if self.contradiction:
            found["contradiction"] = self.contradiction
        if self.devices:
            found["devices"] = list(map(asdict, self.devices))
            found["unplaced"] = self.unplaced
        return found


def read_resources(node: Mapping[str, Any], asks: Sequence[Ask]) -> tuple[Resource, ...]:
    """By name: what a v1 Node offers, and what pods hold although it is not offered any more."""
    status, labels = node.get("status") or {}, (node.get("metadata") or {}).get("labels") or {}
    wrong = compare_claims(node)
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    held = Counter[str]()
    for ask in asks:
        held.update(ask.resources)
    wanted = sorted(name for name in {*capacity, *allocatable, *held} if is_accelerator_resource(name))
    found = []
    for name in wanted:
        total, offered = whole(capacity.get(name, "0")), whole(allocatable.get(name, "0"))
        if not total and not offered and not held[name]:
            continue  # what a plug-in offered before it was set up otherwise stays in the status, with 0
        sharing, replicas = sharing_of(name, labels)
        count = whole(capacity.get(GPU_COUNT, "0")) if name == GPU_MEMORY else 0
        count = count if 0 < count <= MOST_GPUS else 0
        devices, unplaced = _devices(total, count, asks) if name == GPU_MEMORY else ((), 0)
        unit = NVIDIA_DEVICE if is_gpu_resource(name) else unit_of(name) or Unit("", SHARE)
        against = wrong.get(name.removesuffix(SHARED), "")
        found.append(Resource(name, total, offered, held[name], sharing, replicas, devices, unplaced, unit, against))
    return tuple(found)


def differing_resources(
    labels: Mapping[str, str], capacity: Mapping[str, str], allocatable: Mapping[str, str]
) -> list[str]:
    """GPU resources that a node offers in another amount than its labels say, shared ones under their own name.

    A resource that no device plug-in ever offered does not count: DRA or gpushare may hand out the GPUs. Where labels
    name MIG profiles, whole GPUs do not count, since labels do not say how many of them have no MIG devices.
    """
    gpus = read_gpus(labels)
    profiles = {f"{NVIDIA_NS}/mig-{name}" for name in gpus.mig} if f"{GPU}.count" in labels else set()
    counted = {name: number(labels, f"{name}.count") for name in profiles if f"{name}.count" in labels}
    counted = counted or ({GPU: gpus.usable} if f"{GPU}.count" in labels else {})
    has, offers = _whole_amounts(capacity), _whole_amounts(allocatable)
    return [
        name
        for name, count in sorted(counted.items())
        if has.get(name) and offers.get(name, 0) != count * max(number(labels, f"{name}.replicas"), 1)
    ]


def sharing_of(resource: str, labels: Mapping[str, str]) -> tuple[str, int]:
    """The strategy and the replicas of a resource, by the labels of the devices behind it."""
    if resource == GPU_MEMORY:
        return GPUSHARE, 1
    prefix = resource.removesuffix(SHARED)
    strategy = labels.get(f"{prefix}.sharing-strategy", "none")
    return ("", 1) if strategy == "none" else (strategy, max(number(labels, f"{prefix}.replicas"), 1))


@dataclass(frozen=True, slots=True)
class Claim:
    """What labels say of a resource: `count` devices with `replicas` of each."""

    resource: str
    count: int
    replicas: int = 1

    @property
    def amount(self) -> int:
        return self.count * self.replicas

    @property
    def text(self) -> str:
        """`8 (2 with 4 replicas each)`."""
        replicas = f" ({self.count} with {self.replicas} replicas each)" if self.replicas > 1 else ""
        return f"{self.amount}{replicas}"


def read_claims(labels: Mapping[str, str]) -> Iterator[Claim]:
    """What a device plug-in would offer that is configured as the labels say; nothing where they leave that open.

    With the strategy `mixed`, labels do not tell how many GPUs are whole, unless none is: then `replicas` is 0.
    """
    gpus, replicas = read_gpus(labels), labels.get(f"{GPU}.replicas")
    if not gpus.models or gpus.state or gpus.failing or replicas is None:
        return
    profiles = [profile for profile in gpus.mig if f"{NVIDIA_NS}/mig-{profile}.count" in labels]
    for profile in profiles:
        name = f"{NVIDIA_NS}/mig-{profile}"
        yield Claim(name, gpus.mig[profile], max(number(labels, f"{name}.replicas"), 1))
    if not profiles:
        yield Claim(GPU, gpus.usable, max(number(labels, f"{GPU}.replicas"), 1))
    elif replicas == "0":
        yield Claim(GPU, 0)


def is_hami(annotations: Iterable[str]) -> bool:
    """Whether HAMi's plug-in serves the node: it offers pieces of each GPU, of which the labels say nothing."""
    return any(key.startswith(_HAMI) for key in annotations)


def compare_claims(node: Mapping[str, Any]) -> dict[str, str]:
    """Resource → how what a v1 Node has of it contradicts its labels.

    Unhealthy devices are in the capacity, so they are no contradiction. HAMi's plug-in offers pieces of each GPU.
    """
    metadata, status = node.get("metadata") or {}, node.get("status") or {}
    if is_hami(metadata.get("annotations") or {}):
        return {}
    has = _whole_amounts(status.get("capacity") or {})
    claims = {claim.resource: claim for claim in read_claims(metadata.get("labels") or {})}
    if not claims or not any(has.values()):
        return {}
    wrong = {name: claim for name, claim in claims.items() if claim.amount != has.get(name, 0)}
    found = {name: f"labels say {claim.text}, the node offers {has.get(name, 0)}" for name, claim in wrong.items()}
    unsaid = {name: amount for name, amount in has.items() if amount and name != GPU and name not in claims}
    return found | {name: f"the node offers {amount}, no label says so" for name, amount in unsaid.items()}


def explain_offer(key: str, node: Mapping[str, Any]) -> Iterator[str]:
    """What a v1 Node offers of the resource that a label is about, and whether that contradicts the labels."""
    status, labels = node.get("status") or {}, (node.get("metadata") or {}).get("labels") or {}
    offers, has = _whole_amounts(status.get("allocatable") or {}), _whole_amounts(status.get("capacity") or {})
    wrong, prefix, word = compare_claims(node), *key.rpartition(".")[::2]
    for name in sorted({*has, *(claim.resource for claim in read_claims(labels))}):
        if key != _STRATEGY and (name != prefix or word not in _OF_AMOUNTS):
            continue
        offered = offers.get(name, 0)
        unhealthy = f", {has[name] - offered} unhealthy" if has.get(name, 0) > offered else ""
        against = f", which contradicts the labels: {wrong[name]}" if name in wrong else ""
        yield f"allocatable: {offered} {name}{unhealthy}{against}"


def _whole_amounts(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Of whole GPUs and MIG devices; a shared resource may have the end `.shared`."""
    found: dict[str, int] = {}
    for name, amount in amounts.items():
        base = name.removesuffix(SHARED)
        if base == GPU or base.startswith(f"{NVIDIA_NS}/mig-"):
            found[base] = found.get(base, 0) + whole(amount)
    return found


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
