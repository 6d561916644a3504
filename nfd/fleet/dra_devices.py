"""DRA devices on a node: what ResourceSlices offer (pools, which may be incomplete), and what ResourceClaims hold.

Kubernetes API reference, resource.k8s.io (v1, v1beta2 and v1beta1); Kubernetes documentation, "Dynamic Resource
Allocation". A pool counts only when all slices of its newest generation are there. Drivers are those that the vendors'
data names; attributes of partitions are those of NVIDIA's and AMD's drivers (kubernetes-sigs/dra-driver-nvidia-gpu;
ROCm/k8s-gpu-dra-driver, docs/driver-attributes.md). A device of another driver is one whole device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.fleet.accelerators import DEVICE, PARTITION, Unit, vendor_of_driver
from nfd.fleet.gpu_labels import NVIDIA
from nfd.fleet.gpu_resources import Device, Resource
from nfd.fleet.pods import Ask, whole
from nfd.names import NVIDIA_NS

DRIVER = "gpu.nvidia.com"
MEMORY, SHARES = "memory", "shares"
PARTITIONS = "partitions"
"""Capacity of a device that stands for all partitions of one kind on a GPU; each claim takes one of them or more."""
_MIB = 1 << 20
_ADDRESS = "resource.kubernetes.io/pciBusID"
_PARENT = (_ADDRESS, "parentUUID", "uuid", "pciAddr")
COUNTED = frozenset(("type", "profile", "computePartition", "memoryPartition", "partitionProfile", *_PARENT))
"""The attributes that counting needs."""
_REFUSED = ("NoSchedule", "NoExecute")

Json = Mapping[str, Any]
Key = tuple[str, str, str]
"""Driver, pool and device."""


@dataclass(frozen=True, slots=True)
class Offered:
    """One device of a slice. `attributes` have no domain where it is the driver's; capacities are whole numbers."""

    driver: str
    pool: str
    name: str
    node: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    consumes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(counter set, counter) → amount, of a partition."""
    tainted: bool = False
    shared: bool = False
    """Several claims may have parts of it."""

    @property
    def key(self) -> Key:
        return self.driver, self.pool, self.name

    @property
    def kind(self) -> str:
        """gpu, mig, vfio of NVIDIA's driver; amdgpu, amdgpu-partition, vfio of AMD's."""
        return self.attributes.get("type", "")

    @property
    def is_partition(self) -> bool:
        return self.kind in ("mig", "amdgpu-partition")

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole device, and given to one claim alone."""
        known = self.kind in ("gpu", "vfio") if self.driver == DRIVER else not self.is_partition
        return known and not self.is_shared

    @property
    def is_shared(self) -> bool:
        """Whether claims share its memory."""
        return self.shared and PARTITIONS not in self.capacity

    @property
    def resource(self) -> str:
        """How it is counted: by driver, and a partition by its profile, such as `cpx_nps4`."""
        if not self.is_partition:
            return self.driver
        if self.driver == DRIVER:
            return f"{DRIVER}/mig-{self.attributes.get('profile', '')}"
        modes = (self.attributes.get(f"{one}Partition", "") for one in ("compute", "memory"))
        return f"{self.driver}/{self.attributes.get('partitionProfile') or '_'.join(modes)}"

    @property
    def physical(self) -> str:
        """The GPU that it is, or is a part of."""
        named = (self.attributes.get(name) for name in _PARENT)
        return next(filter(None, named), "") or next((name for name, _ in self.consumes), self.name)


@dataclass(frozen=True, slots=True)
class Held:
    """A device, or a share of one, that a claim has been given."""

    driver: str
    pool: str
    device: str
    share: str = ""
    consumed: Mapping[str, int] = field(default_factory=dict)
    claim: str = ""
    """`namespace/name`."""
    pods: tuple[str, ...] = ()
    """`namespace/name` of those that may use it; a claim may stay allocated without one."""

    @property
    def key(self) -> Key:
        return self.driver, self.pool, self.device


@dataclass(frozen=True, slots=True)
class Slice:
    """One ResourceSlice; `of` is how many slices this generation of the pool has."""

    driver: str
    pool: str
    generation: int = 0
    of: int = 1
    node: str = ""
    devices: tuple[Offered, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pool:
    """The newest generation of a pool; `problem` says why it cannot be counted, "" if it can."""

    driver: str
    name: str
    devices: tuple[Offered, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    problem: str = ""
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class OnNode:
    """What DRA has on one node."""

    resources: tuple[Resource, ...] = ()
    held: tuple[Held, ...] = ()
    devices: tuple[Offered, ...] = ()
    problems: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    """Those that have a pool here, also one that cannot be counted."""

    def has(self, vendor: str) -> bool:
        """Whether a driver of that vendor is here."""
        return any(vendor_of_driver(one) == vendor for one in self.drivers)


NOTHING = OnNode()


@dataclass(frozen=True, slots=True)
class Dra:
    """Node → its part, None if that may not be read; `note` says why nothing is counted, "" if all is."""

    nodes: Mapping[str, OnNode] | None = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod and what it holds: an amount of a resource, or a device or share that a claim has been given.

    `pod` is `namespace/name`, "" for a claim that no pod uses at the moment.
    """

    pod: str
    resource: str
    amount: int = 1
    device: str = ""
    claim: str = ""

    def to_json(self) -> dict[str, Any]:
        """What is known."""
        found = {name: getattr(self, name) for name in ("pod", "resource", "amount", "device", "claim")}
        return {name: value for name, value in found.items() if value}


def read_holders(asks: Sequence[Ask], dra: OnNode) -> Iterator[Holder]:
    """Who holds the GPUs of a node, through the device plugin or through DRA."""
    for ask in asks:
        for resource, amount in sorted(ask.resources.items()):
            yield Holder(f"{ask.namespace}/{ask.name}", resource, amount)
    devices = {device.key: device for device in dra.devices}
    for held in dra.held:
        for pod in held.pods or ("",):
            yield Holder(pod, *_holding(held, devices[held.key]), held.device, held.claim)


def _holding(held: Held, device: Offered) -> tuple[str, int]:
    """The resource, and how much of it."""
    if device.is_shared and (shares := held.consumed.get(SHARES)):
        return f"{device.driver}/{SHARES}", shares
    if device.is_shared:
        return f"{device.driver}/{MEMORY}", -(-held.consumed.get(MEMORY, 0) // _MIB)
    return device.resource, _partitions_in(held.consumed) if device.is_partition else 1


def _partitions_in(amounts: Mapping[str, int]) -> int:
    """How many partitions a device stands for, or a claim takes of it."""
    return amounts.get(PARTITIONS) or 1


def by_node(slices: Iterable[Slice], held: Iterable[Held]) -> dict[str, OnNode]:
    """Node → its part, of all drivers of accelerators."""
    holding: dict[Key, dict[str, Held]] = {}
    for one in held:
        holding.setdefault(one.key, {})[one.share] = one
    found: dict[str, list[OnNode]] = {}
    for pool in read_pools(slices):
        if pool.problem:
            text = f"DRA pool {pool.name} of {pool.driver} {pool.problem}"
            for node in pool.nodes:
                found.setdefault(node, []).append(OnNode(problems=(text,), drivers=(pool.driver,)))
            continue
        on_node: dict[str, list[Offered]] = {}
        for device in pool.devices:
            on_node.setdefault(device.node, []).append(device)
        for node, devices in on_node.items():
            if node:
                found.setdefault(node, []).append(_on_node(devices, pool, holding))
    return {node: _joined(parts) for node, parts in found.items()}


def _joined(parts: Sequence[OnNode]) -> OnNode:
    def all_of(name: str) -> tuple[Any, ...]:
        return tuple(one for part in parts for one in getattr(part, name))

    return OnNode(*(all_of(name) for name in ("resources", "held", "devices", "problems", "drivers")))


def read_slice(item: Json, attributes: Container[str] | None = None) -> Slice | None:
    """A ResourceSlice of any version of the API, with these attributes of its devices (None: all).

    None if its driver is not one of accelerators that is known here.
    """
    spec = item.get("spec") or {}
    driver, pool = str(spec.get("driver", "")), spec.get("pool") or {}
    if not vendor_of_driver(driver):
        return None
    counters = {
        (str(one["name"]), counter): whole(amount.get("value"))
        for one in spec.get("sharedCounters") or ()
        for counter, amount in (one.get("counters") or {}).items()
    }
    name, node = str(pool.get("name", "")), str(spec.get("nodeName") or "")
    numbers = int(pool.get("generation") or 0), int(pool.get("resourceSliceCount") or 1)
    return Slice(driver, name, *numbers, node, tuple(_devices(name, spec, attributes)), counters)


def read_pools(slices: Iterable[Slice]) -> list[Pool]:
    """Pools of accelerators, by driver and name."""
    by_pool: dict[tuple[str, str], list[Slice]] = {}
    for one in slices:
        by_pool.setdefault((one.driver, one.pool), []).append(one)
    return [_pool(driver, name, parts) for (driver, name), parts in sorted(by_pool.items())]


def _pool(driver: str, name: str, slices: Sequence[Slice]) -> Pool:
    newest = max(one.generation for one in slices)
    current = [one for one in slices if one.generation == newest]
    nodes = frozenset(one.node for one in slices if one.node)
    wanted = max(one.of for one in current)
    if len(current) < wanted:
        return Pool(driver, name, problem=f"is incomplete: {len(current)} of {wanted} slices", nodes=nodes)
    devices = tuple(device for one in current for device in one.devices)
    if len({device.name for device in devices}) < len(devices):
        return Pool(driver, name, problem="is invalid: two devices have one name", nodes=nodes)
    counters = {key: amount for one in current for key, amount in one.counters.items()}
    return Pool(driver, name, devices, counters, nodes=nodes)


def _devices(pool: str, spec: Json, attributes: Container[str] | None) -> Iterator[Offered]:
    """The devices of one slice."""
    driver = str(spec.get("driver", ""))
    own = f"{driver}/"
    for one in spec.get("devices") or ():
        facts = one.get("basic") or one  # v1beta1
        named = ((key.removeprefix(own), value) for key, value in (facts.get("attributes") or {}).items())
        yield Offered(
            driver,
            pool,
            str(one.get("name", "")),
            str(spec.get("nodeName") or facts.get("nodeName") or ""),
            {key: _text(value) for key, value in named if attributes is None or key in attributes},
            _amounts(facts.get("capacity"), own),
            {
                (str(part.get("counterSet", "")), counter): whole(amount.get("value"))
                for part in facts.get("consumesCounters") or ()
                for counter, amount in (part.get("counters") or {}).items()
            },
            any(taint.get("effect") in _REFUSED for taint in facts.get("taints") or ()),
            bool(facts.get("allowMultipleAllocations")),
        )


def read_claim(claim: Json) -> Iterator[Held]:
    """What an allocated claim holds of accelerators. Access of an administrator takes nothing."""
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    namespace = metadata.get("namespace", "")
    users = status.get("reservedFor") or ()
    pods = tuple(f"{namespace}/{one.get('name', '')}" for one in users if one.get("resource") == "pods")
    for result in ((status.get("allocation") or {}).get("devices") or {}).get("results") or ():
        driver = str(result.get("driver", ""))
        if vendor_of_driver(driver) and not result.get("adminAccess"):
            consumed = {name: whole(amount) for name, amount in (result.get("consumedCapacity") or {}).items()}
            name = f"{namespace}/{metadata.get('name', '')}"
            share = str(result.get("shareID") or "")
            yield Held(driver, str(result.get("pool", "")), str(result.get("device", "")), share, consumed, name, pods)


def _on_node(devices: Sequence[Offered], pool: Pool, holding: Mapping[Key, Mapping[str, Held]]) -> OnNode:
    mine = tuple(one for device in devices for one in holding.get(device.key, {}).values())
    unit = Unit(vendor_of_driver(pool.driver), DEVICE)
    rows = [
        *_whole_devices(devices, {one.key for one in mine}, unit),
        *_shares(devices, mine, unit),
        *_partitions(devices, mine, pool.counters, unit),
    ]
    return OnNode(tuple(rows), mine, tuple(devices), drivers=(pool.driver,))


def _whole_devices(devices: Sequence[Offered], taken: set[Key], unit: Unit) -> Iterator[Resource]:
    """Physical devices. One is taken if it is, or if anything else that is made of it is; then it counts as offered."""
    carved = {device.physical for device in devices if device.is_partition and not device.consumes}
    whole = {device.physical: device for device in devices if device.is_whole and device.physical not in carved}
    if whole:
        used = {device.physical for device in devices if device.key in taken} & whole.keys()
        offered = used | {name for name, device in whole.items() if not device.tainted}
        yield Resource(devices[0].driver, len(whole), len(offered), len(used), unit=unit, by_claim=True)


def _shares(devices: Sequence[Offered], held: Sequence[Held], unit: Unit) -> Iterator[Resource]:
    """Devices that several claims may have parts of: their memory in MiB, and their shares where they have a number."""
    shared = [device for device in devices if device.is_shared]
    for name, size in ((MEMORY, _MIB), (SHARES, 1)):
        having = [device for device in shared if device.capacity.get(name)]
        parts: list[Device] = []
        for index, device in enumerate(having):
            used = sum(one.consumed.get(name, 0) for one in held if one.key == device.key)
            parts.append(Device(index, device.capacity[name] // size, -(-used // size)))
        if parts:
            total, used = sum(part.total for part in parts), sum(part.allocated for part in parts)
            offered = sum(part.total for part, one in zip(parts, having, strict=True) if not one.tainted)
            yield Resource(
                f"{shared[0].driver}/{name}", total, offered, used, "shared", 1, tuple(parts), unit=unit, by_claim=True
            )


def _partitions(
    devices: Sequence[Offered], held: Sequence[Held], counters: Mapping[tuple[str, str], int], unit: Unit
) -> Iterator[Resource]:
    """Partitions by profile. Of those that are made on demand, as many as still fit beside what is taken."""
    left, used = Counter(counters), Counter[Key]()
    for one in held:
        used[one.key] += _partitions_in(one.consumed)
    for device in devices:
        if device.key in used:
            left.subtract(device.consumes)
    by_resource: dict[str, list[Offered]] = {}
    for device in devices:
        if device.is_partition:
            by_resource.setdefault(device.resource, []).append(device)
    unit = unit if unit.vendor == NVIDIA else Unit(unit.vendor, PARTITION)
    for name, parts in sorted(by_resource.items()):
        taken = [device for device in parts if device.key in used]
        there = [*taken, *_fitting([device for device in parts if device.key not in used], left)]
        held_here = sum(used[device.key] for device in taken)
        counted = [(device, _partitions_in(device.capacity)) for device in there]
        offered = sum(count for device, count in counted if device.key in used or not device.tainted)
        yield Resource(name, sum(count for _, count in counted), offered, held_here, unit=unit, by_claim=True)


def _fitting(devices: Sequence[Offered], left: Mapping[tuple[str, str], int]) -> list[Offered]:
    """As many of these as fit at the same time, one after the other as they are listed."""
    rest = Counter(left)
    found: list[Offered] = []
    for device in devices:
        if all(rest[counter] >= amount for counter, amount in device.consumes.items()):
            rest.subtract(device.consumes)
            found.append(device)
    return found


def _text(value: Any) -> str:
    """An attribute: `{string: x}`, `{int: 1}`, `{version: 1.0.0}`, `{bool: true}`."""
    if not isinstance(value, Mapping):
        return ""
    plain = next((value[kind] for kind in ("string", "version", "int", "bool") if kind in value), "")
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


def _amounts(capacity: Any, own: str) -> dict[str, int]:
    found = capacity if isinstance(capacity, Mapping) else {}
    return {
        name.removeprefix(own): whole(amount.get("value") if isinstance(amount, Mapping) else amount)
        for name, amount in found.items()
    }


def compare(key: str, value: str | None, devices: Sequence[Offered]) -> Iterator[str]:
    """What the devices of a node say where a label of NVIDIA's says something, and whether that contradicts."""
    name = key.removeprefix(f"{NVIDIA_NS}/")
    gpus = [device for device in devices if device.driver == DRIVER and device.kind == "gpu"]
    if name == "gpu.count" and gpus:
        found = Counter([str(len(gpus))])
        what = "devices of type gpu"
    elif name in _SAME:
        what, read = _SAME[name]
        found = Counter(text for device in gpus if (text := read(device)))
    else:
        return
    for text, count in sorted(found.items()):
        where = "" if name == "gpu.count" else f" on {count} of {len(gpus)} GPUs"
        against = "" if value is None or _agrees(name, value, text) else ", which contradicts the label"
        yield f"ResourceSlices of {DRIVER}: {what} {text}{where}{against}"


def _agrees(name: str, label: str, text: str) -> bool:
    """A product may have an end of its own; a version has no leading zeros in a slice."""
    if name == "gpu.product":
        return label == text or label.startswith((f"{text}-SHARED", f"{text}-MIG-"))
    if name.startswith("cuda."):
        return _numbers(label) == _numbers(text)
    return label == text


def _numbers(version: str) -> list[str]:
    parts = [part.lstrip("0") for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _part(number: int) -> Callable[[Offered], str]:
    return lambda device: [*device.attributes.get("cudaComputeCapability", "").split("."), "", ""][number]


_SAME: Mapping[str, tuple[str, Callable[[Offered], str]]] = {
    "gpu.product": ("productName", lambda device: "-".join(device.attributes.get("productName", "").split())),
    "gpu.memory": ("memory in MiB", lambda device: str(device.capacity.get(MEMORY, 0) // _MIB or "")),
    "gpu.family": ("architecture", lambda device: "-".join(device.attributes.get("architecture", "").lower().split())),
    "gpu.compute.major": ("cudaComputeCapability", _part(0)),
    "gpu.compute.minor": ("cudaComputeCapability", _part(1)),
    "cuda.driver-version.full": ("driverVersion", lambda device: device.attributes.get("driverVersion", "")),
    "cuda.runtime-version.full": ("cudaDriverVersion", lambda device: device.attributes.get("cudaDriverVersion", "")),
}
"""Label → what is named in a slice, and its value as the label has it."""
