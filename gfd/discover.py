"""Everything that is read about a machine's NVIDIA devices in one pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gfd.backends import is_tegra, read_devices
from gfd.inventory import Fact, Gpu, Inventory, Node, join_facts
from gfd.pci import NVIDIA, Functions, display_devices, driver_of, is_vfio, read_vgpu
from nfd.errors import HostError
from nfd.host import Host
from nfd.host.replay import LIBRARY_VARIABLE

MACHINE_TYPE_FILE = "/sys/class/dmi/id/product_name"
DMI_FILE = "/sys/devices/virtual/dmi/id/product_name"
"""The same file where the kernel has it; `/sys/class/dmi/id` is a link, which a hand-made machine may lack."""
UNKNOWN = "unknown"
TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class Options:
    """What to read, and how."""

    strategy: str = "auto"
    machine_type_file: str = MACHINE_TYPE_FILE
    """Empty: the machine is not known."""
    timeout: float = TIMEOUT
    """Seconds that the driver has for one reading."""


def discover(host: Host, options: Options, functions: Functions) -> Inventory:
    """The devices, and what the machine says of them.

    `functions` are those that `gfd.pci.read_functions` has just found.

    Reads: the driver library; sys/bus/pci/devices; the machine-type file; proc/meminfo.
    Absent: a library that cannot be loaded is the inventory's `trouble`.  Raises: HostError, as `read_devices`.
    """
    inventory = read_devices(host, options.strategy, options.timeout, functions) or Inventory()
    total, reason = read_total(host) if inventory.gpus else (None, "")
    gpus = tuple(complete(gpu, total, reason, functions) for gpu in inventory.gpus)
    inventory = replace(inventory, gpus=gpus)
    return replace(inventory, node=read_node(host, inventory, options.machine_type_file, functions))


def is_worth_trying(host: Host, functions: Functions) -> bool:
    """Whether the machine may have a device: one on PCI, a loaded driver, WSL, Tegra, or a library that is named.

    Reads: proc/driver/nvidia, dev/dxg.
    """
    return bool(
        host.env(LIBRARY_VARIABLE)
        or display_devices(host, functions)
        or host.exists("proc/driver/nvidia")
        or host.exists("dev/dxg")
        or is_tegra(host)
    )


def complete(gpu: Gpu, total: int | None, reason: str, functions: Functions) -> Gpu:
    """A device with its class on PCI, and with the machine's memory where it has none of its own.

    `total` are that memory's MiB, `reason` tells why they could not be read. Some drivers (GB10) give them as the
    device's.
    """
    gpu = replace(gpu, pci_class=gpu.pci_class or functions.get(gpu.pci_address, ""))
    if gpu.memory is not None:
        return replace(gpu, memory_unified=gpu.memory_unified or gpu.memory == total)
    if not gpu.memory_unified:
        return gpu
    if not reason:
        return replace(gpu, memory=total)
    failing = gpu.failing or f"memory: {reason}"
    return replace(gpu, failing=failing, unread=join_facts({Fact.MEMORY, *map(Fact, gpu.unread.split())}))


def read_total(host: Host) -> tuple[int | None, str]:
    """The machine's memory in MiB, and why it cannot be read. Reads: proc/meminfo (proc(5)), MemTotal in kB."""
    try:
        text = host.text("proc/meminfo") or ""
    except HostError as error:
        return None, str(error)
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal" and rest.split() and rest.split()[0].isdigit():
            return int(rest.split()[0]) // 1024, ""
    return None, ""


def read_node(host: Host, inventory: Inventory, machine_type_file: str, functions: Functions) -> Node:
    drivers = {address: driver_of(host, address) for address in display_devices(host, functions)}
    present, vgpu = read_vgpu(host, functions)
    return Node(
        machine=read_machine(host, machine_type_file),
        pci_gpus=len(drivers),
        pci_passed=sum(map(is_vfio, drivers.values())),
        pci_missing=count_missing(inventory, drivers),
        vgpu_present=present,
        vgpu_version=vgpu.version,
        vgpu_branch=vgpu.branch,
    )


def count_missing(inventory: Inventory, drivers: Mapping[str, str]) -> int:
    """Devices bound to NVIDIA's driver that it does not list; listed ones without an address may be any of them."""
    if inventory.backend != "nvml" or inventory.trouble is not None:
        return 0
    listed = {gpu.pci_address for gpu in inventory.gpus}
    nameless = sum(not gpu.pci_address for gpu in inventory.gpus)
    missing = sum(driver == NVIDIA and address not in listed for address, driver in drivers.items())
    return max(0, missing - nameless)


def read_machine(host: Host, path: str) -> str:
    """The text of the machine-type file, `unknown` without one."""
    if not path:
        return UNKNOWN
    try:
        text = host.text(path.lstrip("/"))
        if text is None and path == MACHINE_TYPE_FILE:
            text = host.text(DMI_FILE.lstrip("/"))
    except HostError as error:
        host.note(error.path, error.reason)
        return UNKNOWN
    return UNKNOWN if text is None else text.strip()
