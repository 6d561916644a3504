"""Reads the data file of each vendor of accelerators, VENDOR.yaml: a new PCI id or product belongs there.

A data file is YAML:

    name: Acme Tensor            # for people
    classes: ["1200"]            # beginnings of PCI classes: such a function counts although its id is not listed
    drivers: [acme]              # kernel drivers; without one of them a device is not usable
    version: sys/module/acme/version       # file with the driver's version
    memory: vram_total           # file below the PCI function, bytes of the whole device
    product: board_name          # file below the PCI function, the device's own name; `*` is any one name
    status: {files: [state], bad: [dead]}  # the first of these files, and its texts that mean a broken device
    resources: {acme.com/tensor: device}   # extended resources, and what one of each is: device, partition, share, or
                                 # view, which is a device or a part of one that another resource offers, too
    dra: [acme.com]              # DRA drivers
    labels: {acme.com/count: "{count}"}    # labels that the vendor's own labeller writes
    devices:
      a001: {product: Acme One, family: one, memory: 32768}   # by PCI device id; MiB of one whole device

A row may have `integrated: true` (it works in the memory of the machine), and `revisions`, which are rows by PCI
revision. `integrated: true` of the vendor is about devices that are not listed; with `vfio: true` a device that is
bound to VFIO is as it should be.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import yaml

GROUP = "nfd.accelerators"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Entry(NamedTuple):
    """Where a vendor's data is, and which PCI functions it may be about: the vendor id and beginnings of classes."""

    name: str
    pci: str
    classes: tuple[str, ...] = ("",)
    package: str = __package__ or ""


_NO_CARD = ("00", "03", "04", "05", "07", "08", "09", "0b", "0d", "0f", "10", "11", "12", "13", "40", "ff")
"""All but storage, network cards, bridges and USB: the class of such an accelerator is documented nowhere."""
BUILT_IN = (
    Entry("amd", "1002", ("03", "12")),
    Entry("amd-npu", "1022", ("11", "12")),
    Entry("aws", "1d0f", _NO_CARD),
    Entry("furiosa", "1ed2"),
    Entry("google", "1ae0", _NO_CARD),
    Entry("habana", "1da3"),
    Entry("huawei", "19e5", _NO_CARD),
    Entry("intel", "8086", ("03",)),
    Entry("intel-npu", "8086", ("12",)),
    Entry("nvidia", "10de", ("0300", "0302")),
    Entry("qualcomm", "17cb", _NO_CARD),
    Entry("rebellions", "1eff"),
    Entry("tenstorrent", "1e52"),
)
"""Classes keep a vendor's network cards and bridges, and the loading of its data for them, out."""


@dataclass(frozen=True, slots=True)
class Model:
    """One kind of device. `memory` is MiB of a whole device, 0 if it is not known; `chip` and `units` are AMD's."""

    product: str = ""
    family: str = ""
    memory: int = 0
    integrated: bool = False
    chip: str = ""
    """Version of the graphics core, such as `9.4.3`."""
    units: int = 0
    """Compute units of a whole device."""
    parts: int = 1
    """Partitions of a device that is divided as finely as possible."""
    revisions: Mapping[str, Model] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """Files of which the first says how a device is, and the texts, in lower case, that mean that it is broken."""

    files: tuple[str, ...]
    bad: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vendor:
    """The content of a data file."""

    name: str
    title: str = ""
    classes: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    version: str = ""
    memory: str = ""
    product: str = ""
    status: Status | None = None
    integrated: bool = False
    vfio: bool = False
    resources: Mapping[str, str] = field(default_factory=dict)
    dra: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, Model] = field(default_factory=dict)

    def model(self, device: str, revision: str = "") -> Model:
        """What is known of a PCI device id."""
        found = self.devices.get(device, Model(integrated=self.integrated))
        return found.revisions.get(revision, found)

    def has(self, device: str, pci_class: str) -> bool:
        """Whether a function of the vendor is an accelerator."""
        return device in self.devices or (bool(self.classes) and pci_class.startswith(self.classes))


@cache
def entries() -> tuple[Entry, ...]:
    """The vendors that we know and those of plug-ins, which take the place of built-in ones of the same name."""
    found = {entry.name: entry for entry in BUILT_IN}
    found.update((entry.name, entry) for entry in map(_entry, entry_points(group=GROUP)))
    return tuple(found.values())


def _entry(point: EntryPoint) -> Entry:
    """`1e60 = "acme_tables:acme"`: the PCI vendor, and `acme.yaml` in that package."""
    return Entry(point.attr or point.name, point.name.lower(), package=point.module)


@cache
def entries_of(pci: str, pci_class: str) -> tuple[Entry, ...]:
    """The vendors that a PCI function may be of."""
    return tuple(entry for entry in entries() if entry.pci == pci and pci_class.startswith(entry.classes))


@cache
def load(entry: Entry) -> Vendor:
    """A vendor's data file. Raises: ValueError saying what is wrong with it."""
    try:
        data = pkgutil.get_data(entry.package, f"{entry.name}.yaml")
        return parse(entry.name, yaml.load(data or b"", _LOADER))
    except (OSError, ImportError, yaml.YAMLError, TypeError, AttributeError) as error:
        raise ValueError(f"{entry.package}/{entry.name}.yaml: {type(error).__name__}: {error}") from error


def named(name: str) -> Vendor:
    """The vendor of that name. Raises: ValueError, StopIteration."""
    return load(next(entry for entry in entries() if entry.name == name))


def parse(name: str, data: Mapping[str, Any]) -> Vendor:
    """A vendor from the mapping that its file holds. Raises: TypeError, AttributeError."""
    known = dict(data)
    title, bad = known.pop("name", name), known.pop("status", None)
    lists: dict[str, Any] = {key: tuple(map(str, known.pop(key, ()))) for key in ("classes", "drivers", "dra")}
    devices = {str(key).lower(): _model(row) for key, row in known.pop("devices", {}).items()}
    status = Status(tuple(bad["files"]), tuple(bad["bad"])) if bad else None
    return Vendor(name, title, status=status, devices=devices, **lists, **known)


def _model(row: Mapping[str, Any], base: Model | None = None) -> Model:
    """A row; one of a revision begins with what its device has."""
    plain = {key: value for key, value in row.items() if key != "revisions"}
    model = replace(base or Model(), **plain)
    more = {str(key).lower(): _model(one, model) for key, one in (row.get("revisions") or {}).items()}
    return replace(model, revisions=more)


def clean_name(text: str) -> str:
    """A product's name as AMD's node labeller writes it: without parentheses, underscores between the words.

    Nothing else that is illegal in a label is left, so that it may be part of a key.
    """
    return re.sub(r"[^A-Za-z0-9.-]+", "_", re.sub(r"[()]", "", text), flags=re.ASCII).strip("_.-")
