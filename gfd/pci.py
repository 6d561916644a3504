"""NVIDIA devices as PCI shows them, through a Host: what is known without a driver.

Reads: sys/bus/pci/devices/*/{vendor,class,device,config,uevent,driver,physfn} (kernel ABI/testing/sysfs-bus-pci).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from gfd.inventory import Gpu, Inventory
from gfd.vgpu import SPACE, Vgpu, parse_vgpu
from nfd.errors import HostError
from nfd.host import Host

DEVICES = "sys/bus/pci/devices"
VFIO = "vfio-pci"
VENDOR = "0x10de"
DISPLAY = "0x03"
GRAPHICS, COMPUTE = "0x030000", "0x030200"

PCI_IDS = ("usr/share/misc/pci.ids", "usr/local/share/pci.ids", "usr/share/hwdata/pci.ids", "usr/share/pci.ids")
UNNAMED = "UNKNOWN_DEVICE"


def nvidia_devices(host: Host) -> Iterator[str]:
    """Addresses of NVIDIA's devices of any class; one whose vendor cannot be read is left out, with a note."""
    for address in host.names(DEVICES):
        if host.value(f"{DEVICES}/{address}/vendor") == VENDOR:
            yield address


def display_devices(host: Host) -> tuple[str, ...]:
    """Addresses of the GPUs: display controllers, so neither audio functions nor bridges nor switches."""
    return tuple(one for one in nvidia_devices(host) if class_of(host, one).startswith(DISPLAY))


def class_of(host: Host, address: str) -> str:
    """`0x030200`, empty if it cannot be read."""
    return host.value(f"{DEVICES}/{address}/class") or ""


def gpu_class(host: Host, address: str) -> str:
    """The class of a device the driver named, empty if there is no such entry or it is another vendor's."""
    if not address or host.value(f"{DEVICES}/{address}/vendor") != VENDOR:
        return ""
    return class_of(host, address)


def is_bound(host: Host, address: str, driver: str) -> bool:
    """Whether the kernel driver of that name has the device."""
    uevent = host.value(f"{DEVICES}/{address}/uevent")
    if uevent is not None:
        return f"DRIVER={driver}" in uevent.splitlines()
    with suppress(OSError):  # either is missing: another driver, or none
        return same_directory(host, f"{DEVICES}/{address}/driver", f"sys/bus/pci/drivers/{driver}")
    return False


def same_directory(host: Host, one: str, other: str) -> bool:
    """Whether two paths lead to the same directory. Raises OSError unless both are there."""
    found: list[tuple[int, int]] = []
    for path in (one, other):
        descriptor = host.directory(path)
        try:
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        found.append((status.st_dev, status.st_ino))
    return found[0] == found[1]


def read_vgpu(host: Host) -> tuple[bool | None, Vgpu]:
    """Whether a device is a vGPU (None: cannot be told), and what the last of those says of itself."""
    if not host.is_dir(DEVICES):
        return None, Vgpu()
    present: bool | None = False
    last = Vgpu()
    for address in nvidia_devices(host):
        space = read_space(host, address)
        vgpu = parse_vgpu(space) if len(space) >= SPACE else None
        if vgpu is not None:
            present, last = True, vgpu
        elif len(space) < SPACE and not present:
            present = None
    return present, last


def read_space(host: Host, address: str) -> bytes:
    try:
        return host.data(f"{DEVICES}/{address}/config") or b""
    except HostError:
        return b""


def read_passed_through(host: Host) -> Inventory:
    """The GPUs that are bound to vfio-pci, in the order of their addresses; virtual functions are not among them.

    PCI tells neither memory nor compute capability of a device, nor is there a driver.
    """
    found: list[tuple[str, str]] = []
    for address in nvidia_devices(host):
        pci_class = class_of(host, address)
        if (
            pci_class[:6] in (GRAPHICS[:6], COMPUTE[:6])
            and not host.exists(f"{DEVICES}/{address}/physfn")
            and is_bound(host, address, VFIO)
        ):
            found.append((address, pci_class))
    names = read_names(host) if found else {}
    gpus = tuple(
        Gpu(index, names.get(device_id(host, address), UNNAMED), pci_address=address, pci_class=pci_class)
        for index, (address, pci_class) in enumerate(found)
    )
    return Inventory("vfio", gpus=gpus)


def device_id(host: Host, address: str) -> str:
    return (host.value(f"{DEVICES}/{address}/device") or "").removeprefix("0x")


def read_names(host: Host) -> dict[str, str]:
    """Device id → name, of NVIDIA's devices, from the first pci.ids there is (pciids.sourceforge.net)."""
    path = next((path for path in PCI_IDS if host.is_file(path)), None)
    return parse_names(host.text(path) or "") if path else {}


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
