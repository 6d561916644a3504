"""PCI functions of vendors of accelerators: what the sources accelerator, amd and intel share.

Reads: sys/bus/pci/devices, and of its entries {vendor,class,device}; of those asked for also {revision,uevent} and
whether there is a `physfn` (kernel ABI/testing/sysfs-bus-pci). The first three are read once for each entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from nfd.accelerators.vendors import Vendor
from nfd.host.blanks_and_numbers import parse_natural
from nfd.host.pcie import driver_in, is_vfio
from nfd.sources.feature_reader import FeatureReader

DEVICES = "sys/bus/pci/devices"
CLASS_DIGITS = 4
MIB = 1024 * 1024


class Ids(NamedTuple):
    """In lower case and without `0x`; `kind` is the first four digits of the class."""

    vendor: str
    device: str
    kind: str


class Function(NamedTuple):
    """`driver` is empty if none has it; `virtual` is for those of SR-IOV whose physical function is on this machine."""

    address: str
    ids: Ids
    revision: str = ""
    driver: str = ""
    virtual: bool = False

    @property
    def path(self) -> str:
        return f"{DEVICES}/{self.address}"

    @property
    def is_passed(self) -> bool:
        """Whether it is kept for a virtual machine: by VFIO, under any name its drivers have, or by pci-stub."""
        return is_vfio(self.driver) or self.driver == "pci-stub"


def read_functions(reading: FeatureReader, wanted: Callable[[Ids], bool]) -> list[Function]:
    """The functions that are wanted, by address, which is their name for `reading.device`.

    One whose ids cannot be read leaves the feature incomplete.
    """
    found = reading.host.each(DEVICES, partial(_read_ids, reading), "ids")
    return [_read_function(reading, address, ids) for address, ids in found if wanted(ids)]


def _read_ids(reading: FeatureReader, address: str) -> Ids | None:
    files = ("vendor", "device", "class")
    with reading.device(address):
        found = [reading.value(f"{DEVICES}/{address}/{name}") for name in files]
    vendor, device, kind = ((text or "").lower().removeprefix("0x") for text in found)
    return Ids(vendor, device, kind[:CLASS_DIGITS]) if vendor and device and kind else None


def _read_function(reading: FeatureReader, address: str, ids: Ids) -> Function:
    path = f"{DEVICES}/{address}"
    with reading.device(address):
        revision = (reading.value(f"{path}/revision") or "").lower().removeprefix("0x")
        driver = driver_in(reading.text(f"{path}/uevent") or "")
        return Function(address, ids, revision, driver, reading.has(f"{path}/physfn"))


def matching(reading: FeatureReader, folder: str, pattern: str) -> Iterator[str]:
    """Paths below a folder that fit a pattern in which `*` stands for any one name."""
    first, star, rest = pattern.partition("*")
    if not star:
        yield f"{folder}/{pattern}"
        return
    above = f"{folder}/{first}".rstrip("/")
    for name in reading.names(above):
        yield from matching(reading, f"{above}/{name}", rest.lstrip("/"))


def first_value(reading: FeatureReader, folder: str, pattern: str) -> str | None:
    """The first value that is there and not empty, of files that fit a pattern; None for an empty pattern."""
    values = (reading.value(path) or "" for path in (matching(reading, folder, pattern) if pattern else ()))
    return next(filter(None, values), None)


def read_memory(reading: FeatureReader, function: Function, vendor: Vendor) -> str:
    """MiB of the whole device that the driver tells, "" if it does not."""
    size = parse_natural(first_value(reading, function.path, vendor.memory) or "") or 0
    return str(size // MIB or "")
