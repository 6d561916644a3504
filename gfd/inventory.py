"""What one reading of a machine's NVIDIA devices found, as frozen values with a JSON form and as features.

Texts are as the driver gives them, memory is in MiB (of MIG devices in MB, as NVML's `memorySizeMB`), "" and None stand
for what is not known.

Rules match on features: `nvidia.driver` and `nvidia.node` are attributes, `nvidia.gpu` and `nvidia.mig` instances. An
attribute is named after the field, with dots: `compute.major`, `mig.enabled`. What is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, NamedTuple

from nfd.features import Features

DISPLAY_ONLY = frozenset({"DGX Display", "NVIDIA DGX Display"})
"""Names of devices that drive a monitor and do not compute."""

_LONGEST = 500
"""Characters of a message about a recorded inventory that is none."""

LOST = 2
"""Readings in a row without an answer after which a device does not count any more."""


class Trouble(StrEnum):
    """Why the devices could not be read at all; the values are those of the label `gpu.state`."""

    NO_DRIVER = "no-driver"
    """The library is missing, or the kernel module is not loaded."""
    DRIVER_ERROR = "driver-error"
    """The library is there and does not work."""
    MISMATCH = "driver-mismatch"
    """The library is of another version than the loaded kernel module."""
    LIBRARY_MISSING = "library-missing"
    """The kernel module is loaded, and there is no library: that of a container comes with its creation."""


OF_LIBRARY = frozenset({Trouble.MISMATCH, Trouble.LIBRARY_MISSING})
"""What only a restart or a reboot cures: said also while the labels are those of the last good reading."""
MISSING = "missing"


class Fact(StrEnum):
    """What is asked of a device, each by a call of its own; the values are words in `Gpu.unread`."""

    NAME = "name"
    PCI = "pci"
    MEMORY = "memory"
    COMPUTE = "compute"
    MIG = "mig"
    """The MIG mode, and with it the MIG devices."""
    MIGS = "migs"
    """One of the MIG devices at least."""
    CLIQUE = "clique"
    """The fabric: clique, state and health."""
    RECOVERY = "recovery"
    REMAP = "remap"
    UNREPAIRABLE = "unrepairable"
    NVLINK = "nvlink"
    PCIE = "pcie"
    VBIOS = "vbios"
    GSP = "gsp"


_NOTHING: frozenset[str] = frozenset()


def join_facts(facts: Iterable[Fact]) -> str:
    """As `Gpu.unread` has them."""
    return " ".join(sorted(facts))


@dataclass(frozen=True, slots=True)
class Driver:
    """Versions; `cuda` is 1000 x major + 10 x minor."""

    version: str = ""
    cuda: int | None = None
    failing: str = ""
    """What the query of a version ended with that should not have failed."""
    module: str = ""
    """Version of the loaded kernel module, if the library is missing or of another one."""
    library: str = ""
    """Version of that library, or `missing`."""

    @property
    def is_complete(self) -> bool:
        return bool(self.version) and self.cuda is not None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One physical device."""

    index: int
    """Place in the driver's list."""
    name: str = ""
    uuid: str = ""
    pci_address: str = ""
    """As sysfs has it: `0000:3b:00.0`."""
    pci_class: str = ""
    """Class in sysfs, `0x030200`; empty if sysfs does not know the device."""
    memory: int | None = None
    memory_unified: bool = False
    """The memory is the system's; `memory` is None until that is known."""
    compute_major: int | None = None
    compute_minor: int | None = None
    mig_capable: bool | None = None
    mig_enabled: bool = False
    mig_changing: bool = False
    """The mode that is asked for is not the one in force."""
    mig_held: bool = False
    """It has no MIG devices now; those listed are of the last reading that had some."""
    clique: str = ""
    """`<cluster uuid>.<clique id>` once the fabric is up."""
    fabric_state: str = ""
    """not-started, in-progress, failed, completed; empty where there is no fabric."""
    fabric_health: str = ""
    """healthy, limited, recovering, misconfigured, unhealthy; empty if the driver does not report it."""
    recovery: str = ""
    """What the driver says has to be done to it: none, gpu-reset, node-reboot, drain-p2p, drain-and-reset, or a number
    from 5 on (`other` from 100 on); empty if the driver does not report it."""
    remap: str = ""
    """Rows of memory: none, pending, failed; empty if the driver does not report it."""
    unrepairable: bool | None = None
    """Whether it has memory that cannot be repaired; None if the driver does not report it."""
    nvlink_up: int | None = None
    nvlink_count: int | None = None
    nvlink_peer: str = ""
    """What its first link leads to: gpu, cpu, switch."""
    nvlink_version: str = ""
    """`4.0`."""
    nvlink_peers: int | None = None
    """GPUs of the machine that its NVLinks lead to, through switches too."""
    numa_node: int | None = None
    pcie_root: str = ""
    """`pci0000:64`."""
    vbios: str = ""
    gsp: str = ""
    """Version of the firmware of the GPU's system processor."""
    pcie_width: int | None = None
    """PCIe lanes in use."""
    pcie_width_max: int | None = None
    """PCIe lanes that both the device and its slot have."""
    xid: str = ""
    """Listed Xids that it had and that may still hold, between blanks; the first of the list first."""
    failing: str = ""
    """What a call ended with that should not have failed."""
    unread: str = ""
    """Facts that could not be read and are not known from before, as words between blanks."""
    mute: int = 0
    """For how many readings in a row it gave no handle, or not a single fact; more than `LOST` are not
    distinguished."""

    @property
    def counts(self) -> bool:
        """Whether the driver can use it, as far as one failed reading shows."""
        return self.mute < (LOST if self.name else 1)

    @property
    def display_only(self) -> bool:
        return self.name in DISPLAY_ONLY

    @property
    def unknown(self) -> frozenset[str]:
        """Facts that are not known, neither from this reading nor from one before."""
        if self.mute and not self.name:
            return frozenset(Fact)
        return frozenset(self.unread.split()) if self.unread else _NOTHING


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device; `gpu` is the index of the device it is a part of."""

    gpu: int
    profile: str
    """As labels have it: `1g.10gb.me`."""
    uuid: str = ""
    memory: int = 0
    multiprocessors: int = 0
    slices_gi: int = 0
    slices_ci: int = 0
    engines_copy: int = 0
    engines_decoder: int = 0
    engines_encoder: int = 0
    engines_jpeg: int = 0
    engines_ofa: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """What the machine shows of its devices without a driver."""

    machine: str = ""
    timestamp: int | None = None
    """Since when the labels are as they are, in seconds since the epoch; None if it is not wanted."""
    read_at: int | None = None
    """When this was read."""
    pci_gpus: int = 0
    """NVIDIA display controllers on PCI."""
    pci_passed: int = 0
    """Those of them that are bound to a driver of VFIO, for virtual machines."""
    pci_missing: int = 0
    """Those that are bound to the driver of NVIDIA, and that it does not list."""
    vgpu_present: bool | None = None
    """None: PCI configuration space cannot be read."""
    vgpu_version: str | None = None
    vgpu_branch: str | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """All of it. `trouble` says why there are no devices, or why they are those of the last good reading."""

    backend: str = ""
    """nvml, cuda or vfio."""
    driver: Driver = field(default_factory=Driver)
    gpus: tuple[Gpu, ...] = ()
    migs: tuple[MigDevice, ...] = ()
    node: Node = field(default_factory=Node)
    trouble: Trouble | None = None
    reason: str = ""
    """What the library said."""
    stale: bool = False
    """The devices are those of the last good reading."""

    @property
    def compute_gpus(self) -> tuple[Gpu, ...]:
        """The devices that labels are about: those of which anything is known."""
        return tuple(gpu for gpu in self.gpus if not gpu.display_only and (gpu.name or not gpu.mute))

    def migs_of(self, gpu: Gpu) -> tuple[MigDevice, ...]:
        return tuple(mig for mig in self.migs if mig.gpu == gpu.index)


def to_json(inventory: Inventory) -> dict[str, Any]:
    """Plain values, without those that are not known."""
    data = _without_unknown(asdict(inventory))
    return data | {name: [_without_unknown(one) for one in data[name]] for name in ("gpus", "migs")}


def _without_unknown(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != ""}


def from_json(data: Any) -> Inventory:
    """The inverse of `to_json`; unknown keys are ignored. Raises ValueError saying what does not fit."""
    try:
        return Inventory(
            **known(Inventory, data)
            | {
                "driver": Driver(**known(Driver, data.get("driver", {}))),
                "gpus": tuple(Gpu(**known(Gpu, one)) for one in data.get("gpus", ())),
                "migs": tuple(MigDevice(**known(MigDevice, one)) for one in data.get("migs", ())),
                "node": Node(**known(Node, data.get("node", {}))),
                "trouble": Trouble(data["trouble"]) if data.get("trouble") else None,
            }
        )
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"is not a GPU inventory: {str(error)[:_LONGEST]}") from error


def known(model: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are fields of the model. Raises TypeError for a plain one that is of another kind."""
    kinds = {one.name: str(one.type) for one in fields(model)}
    for name, value in values.items():
        if not _fits(kinds.get(name, ""), value):
            raise TypeError(f"{name}: {value!r} is not {kinds[name]}")
    return {name: value for name, value in values.items() if name in kinds}


def _fits(kind: str, value: Any) -> bool:
    plain, _, absent = kind.partition(" | ")
    wanted = {"str": str, "int": int, "bool": bool}.get(plain)
    return wanted is None or type(value) is wanted or (value is None and absent == "None")


DRIVER = "nvidia.driver"
NODE = "nvidia.node"
GPU = "nvidia.gpu"
MIG = "nvidia.mig"


def to_features(inventory: Inventory) -> Features:
    """`nvidia.node` always; the others as far as a driver was asked."""
    reading = {
        "backend": inventory.backend,
        "trouble": str(inventory.trouble or ""),
        "reason": inventory.reason,
        "stale": "true" if inventory.stale else "",
    }
    driver = {**{key: value for key, value in reading.items() if value}, **_texts(inventory.driver)}
    devices = {
        GPU: tuple(_texts(gpu) for gpu in inventory.gpus),
        MIG: tuple(_texts(mig) for mig in inventory.migs),
    }
    return Features(
        attributes={NODE: _texts(inventory.node), **({DRIVER: driver} if driver else {})},
        instances=devices if driver else {},
    )


def from_features(features: Features) -> Inventory | None:
    """The inventory behind the features, None if there is none in them."""
    node = features.attributes.get(NODE)
    if node is None:
        return None
    reading = features.attributes.get(DRIVER, {})
    return Inventory(
        backend=reading.get("backend", ""),
        driver=_value(Driver, tuple(reading.items())),
        gpus=tuple(_value(Gpu, tuple(one.items())) for one in features.instances.get(GPU, ())),
        migs=tuple(_value(MigDevice, tuple(one.items())) for one in features.instances.get(MIG, ())),
        node=_value(Node, tuple(node.items())),
        trouble=Trouble(reading["trouble"]) if "trouble" in reading else None,
        reason=reading.get("reason", ""),
        stale=reading.get("stale") == "true",
    )


class Column(NamedTuple):
    """A field of a model, and the attribute of a feature that holds it."""

    field: str
    attribute: str
    kind: str


@cache
def _columns(model: type[Any]) -> tuple[Column, ...]:
    return tuple(Column(one.name, one.name.replace("_", "."), str(one.type)) for one in fields(model))


def _texts(value: Any) -> dict[str, str]:
    """The fields that are known, as texts."""
    known = ((column.attribute, getattr(value, column.field)) for column in _columns(type(value)))  # type: ignore[arg-type]  # types are hashable
    return {attribute: _text(found) for attribute, found in known if found is not None and found != ""}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=512)
def _value(model: type[Any], texts: tuple[tuple[str, str], ...]) -> Any:
    """One scan makes the same devices of the same texts several times; they are frozen."""
    known = dict(texts)
    columns = (column for column in _columns(model) if column.attribute in known)  # type: ignore[arg-type]  # as above
    return model(**{column.field: _parsed(column.kind, known[column.attribute]) for column in columns})


def _parsed(kind: str, text: str) -> Any:
    if kind.startswith("bool"):
        return text == "true"
    return int(text) if kind.startswith("int") else text
