"""NVIDIA devices as PCI shows them, through a Host: what is known without a driver.

Reads: sys/bus/pci/devices/*/{vendor,class,device,config,uevent,driver,physfn} (kernel ABI/testing/sysfs-bus-pci).

A vGPU shows its host driver in the vendor-specific capability (PCI Local Bus Specification 3.0, section 6.7 and
appendix H, id 0x09) of its configuration space: `VF` and a list of records. Record 0 has version and branch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from gfd.inventory import Gpu, Inventory
from nfd.config.option_values import parse_integer
from nfd.errors import HostError
from nfd.host import NO_VALUE, Host
from nfd.host.pcie import driver_in, is_vfio
from nfd.runtime import tsv_tables

DEVICES = "sys/bus/pci/devices"
NVIDIA = "nvidia"
VENDOR = "0x10de"
DISPLAY = "0x03"
GRAPHICS, COMPUTE = "0x030000", "0x030200"

Functions = Mapping[str, str]
"""NVIDIA's PCI functions: address → class, `0x030200`, empty if it may not be read."""

PCI_IDS = ("usr/share/misc/pci.ids", "usr/local/share/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids")
UNNAMED = "UNKNOWN_DEVICE"


def read_functions(host: Host) -> Functions:
    """NVIDIA's functions of any class; one whose vendor may not be read is left out, with a note.

    Raises: HostError if a vendor or class cannot be read for another reason. What the device is, is then unknown.
    """
    known = host.each(DEVICES, partial(_is_nvidia, host), "is NVIDIA's")
    addresses = (address for address, is_nvidia in known if is_nvidia)
    return {address: canonical(host.value(f"{DEVICES}/{address}/class") or "") for address in addresses}


def _is_nvidia(host: Host, address: str) -> bool | None:
    vendor = host.value(f"{DEVICES}/{address}/vendor")
    return None if vendor is None else vendor == VENDOR


def canonical(pci_class: str) -> str:
    """The class as the kernel writes it, `0x030200`, from any spelling of the number; other texts as they are."""
    try:
        return f"0x{parse_integer(pci_class):06x}"
    except ValueError:
        return pci_class


def display_devices(host: Host, functions: Functions) -> tuple[str, ...]:
    """Addresses of the GPUs: display controllers, so neither audio functions nor bridges nor virtual functions."""
    found = (address for address, pci_class in functions.items() if pci_class.startswith(DISPLAY))
    return tuple(address for address in found if not is_virtual(host, address))


def is_virtual(host: Host, address: str) -> bool:
    """Whether a device is a virtual function of another one (SR-IOV)."""
    return "physfn" in host.names(f"{DEVICES}/{address}")


def driver_of(host: Host, address: str) -> str:
    """The kernel driver that has the device, empty if none has."""
    uevent = host.value(f"{DEVICES}/{address}/uevent")
    if uevent is not None:
        return driver_in(uevent)
    try:
        folder = host.directory(f"{DEVICES}/{address}")
    except OSError:
        return ""
    try:
        return os.path.basename(os.readlink("driver", dir_fd=folder))  # noqa: PTH119  # pathlib takes no descriptor
    except OSError:
        return ""
    finally:
        os.close(folder)


def read_vgpu(host: Host, functions: Functions) -> tuple[bool | None, Vgpu]:
    """Whether a device is a vGPU (None: unknown), and what the last of those says of itself."""
    if not host.exists(DEVICES):
        return None, Vgpu()
    present: bool | None = False
    last = Vgpu()
    for address in functions:
        space = read_space(host, address)
        vgpu = parse_vgpu(space) if len(space) >= SPACE else None
        if vgpu is not None:
            present, last = True, vgpu
        elif len(space) < SPACE and not present:
            present = None
    return present, last


def read_space(host: Host, address: str) -> bytes:
    """The configuration space; empty without permission. Raises: HostError of any other failure."""
    try:
        return host.head(f"{DEVICES}/{address}/config", SPACE) or b""
    except HostError as error:
        if error.errno not in NO_VALUE:
            raise
        return b""


def read_passed_through(host: Host, functions: Functions) -> Inventory:
    """The GPUs bound to a driver of VFIO, in the order of their addresses; virtual functions are not among them.

    PCI shows neither memory nor compute capability of a device, and there is no driver.
    """
    found = {
        address: pci_class
        for address, pci_class in functions.items()
        if pci_class[:6] in (GRAPHICS[:6], COMPUTE[:6])
        and not is_virtual(host, address)
        and is_vfio(driver_of(host, address))
    }
    names = read_names(host) if found else {}
    gpus = tuple(
        Gpu(index, names.get(device_id(host, one), UNNAMED), pci_address=one, pci_class=pci_class, mig_capable=False)
        for index, (one, pci_class) in enumerate(found.items())
    )
    return Inventory("vfio", gpus=gpus)


def device_id(host: Host, address: str) -> str:
    return (host.value(f"{DEVICES}/{address}/device") or "").removeprefix("0x")


def read_names(host: Host) -> dict[str, str]:
    """Device id → name, of NVIDIA's devices, from the first pci.ids there is, else from the built-in list.

    Source: the PCI ID Repository, https://pci-ids.ucw.cz.
    """
    path = next((path for path in PCI_IDS if host.is_file(path)), None)
    return parse_names(host.text(path) or "") if path else built_in_names()


def built_in_names() -> dict[str, str]:
    """The table `pci_names.tsv`."""
    return {row[0]: row[1] for row in tsv_tables.rows("gfd", "pci_names.tsv")}


def parse_names(text: str) -> dict[str, str]:
    names: dict[str, str] = {}
    inside = False
    for line in text.splitlines():
        if line[:1] not in ("\t", "#", ""):
            inside = line.startswith("10de ")
        elif inside and line[:1] == "\t" and line[1:2] != "\t":
            device, _, name = line.strip().partition("  ")
            names[device.lower()] = name.strip()
    return names


SPACE = 256
"""Bytes that must be readable; without CAP_SYS_ADMIN the kernel shows 64."""

_STATUS, _HAS_LIST = 0x06, 0x10
_POINTER = 0x34
_VENDOR = 0x09
_END = 0xFF
_SIGNATURE = b"VF"
_RECORDS = 5
_TEXT = 10


class Vgpu(NamedTuple):
    """`version` and `branch` are None where the list of records does not have them."""

    version: str | None = None
    branch: str | None = None


def parse_vgpu(space: bytes) -> Vgpu | None:
    """The vGPU behind a configuration space of at least 256 bytes, None if it is none."""
    capability = vendor_capability(space[:SPACE])
    if len(capability) < _RECORDS or capability[3:5] != _SIGNATURE:
        return None
    at = _RECORDS
    while at + 2 <= len(capability):
        kind, length = capability[at], capability[at + 1]
        if kind == 0:
            return version_record(capability[at + 2 :])
        if length == 0:
            break
        at += length
    return Vgpu()


def version_record(data: bytes) -> Vgpu:
    """Version and branch, ten bytes each, padded with NULs."""
    if len(data) < 2 * _TEXT:
        return Vgpu()
    version, branch = (part.strip(b"\0").decode("latin-1") for part in (data[:_TEXT], data[_TEXT : 2 * _TEXT]))
    return Vgpu(version, branch)


def vendor_capability(space: bytes) -> bytes:
    """The first vendor-specific capability, its header included; empty if there is none."""
    for at in capabilities(space):
        if space[at] == _VENDOR:
            return space[at : at + space[at + 2]]
    return b""


def capabilities(space: bytes) -> Iterator[int]:
    """Offsets of the capabilities in the list; a broken list ends it."""
    if not space[_STATUS] & _HAS_LIST:
        return
    seen: set[int] = set()
    at = space[_POINTER]
    while at and at not in seen and at + 2 < len(space) and space[at] != _END:
        seen.add(at)
        yield at
        at = space[at + 1]
