"""Everything that is read about a machine's NVIDIA devices in one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gfd.backends import LIBRARY_VARIABLE, is_tegra, read_devices
from gfd.inventory import Gpu, Inventory, Node
from gfd.pci import VFIO, display_devices, gpu_class, is_bound, read_vgpu
from nfd.errors import HostError
from nfd.host import Host

MACHINE_TYPE_FILE = "/sys/class/dmi/id/product_name"
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


def discover(host: Host, options: Options, timestamp: int | None) -> Inventory:
    """The devices, and what the machine says of them.

    Reads: the driver library; sys/bus/pci/devices; the machine-type file; proc/meminfo, where memory is the system's.
    Absent: a library that cannot be loaded is the inventory's `trouble`.  Raises: HostError, as `read_devices`.
    """
    inventory = read_devices(host, options.strategy, options.timeout) or Inventory()
    gpus = tuple(complete(host, gpu) for gpu in inventory.gpus)
    inventory = replace(inventory, gpus=gpus)
    return replace(inventory, node=read_node(host, inventory, options.machine_type_file, timestamp))


def is_worth_trying(host: Host) -> bool:
    """Whether the machine may have a device: one on PCI, a loaded driver, WSL, Tegra, or a library that is named.

    Reads: proc/driver/nvidia, dev/dxg.
    """
    return bool(
        host.env(LIBRARY_VARIABLE)
        or display_devices(host)
        or host.exists("proc/driver/nvidia")
        or host.exists("dev/dxg")
        or is_tegra(host)
    )


def complete(host: Host, gpu: Gpu) -> Gpu:
    """A device with its class on PCI, and with the system's memory where it has none of its own."""
    memory = system_memory(host) if gpu.memory_unified and gpu.memory is None else gpu.memory
    return replace(gpu, pci_class=gpu.pci_class or gpu_class(host, gpu.pci_address), memory=memory)


def system_memory(host: Host) -> int | None:
    """MiB. Reads: proc/meminfo (proc(5)), MemTotal in kB."""
    for line in (host.value("proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal" and rest.split() and rest.split()[0].isdigit():
            return int(rest.split()[0]) // 1024
    return None


def read_node(host: Host, inventory: Inventory, machine_type_file: str, timestamp: int | None) -> Node:
    on_pci = display_devices(host)
    present, vgpu = read_vgpu(host)
    return Node(
        machine=read_machine(host, machine_type_file),
        timestamp=timestamp,
        pci_gpus=len(on_pci),
        pci_passed=sum(is_bound(host, address, VFIO) for address in on_pci),
        pci_missing=count_missing(host, inventory, on_pci),
        vgpu_present=present,
        vgpu_version=vgpu.version,
        vgpu_branch=vgpu.branch,
    )


def count_missing(host: Host, inventory: Inventory, on_pci: tuple[str, ...]) -> int:
    """Devices bound to NVIDIA's driver that it does not list; listed ones without an address may be any of them."""
    if inventory.backend != "nvml" or inventory.trouble is not None:
        return 0
    listed = {gpu.pci_address for gpu in inventory.gpus}
    nameless = sum(not gpu.pci_address for gpu in inventory.gpus)
    missing = sum(address not in listed and is_bound(host, address, "nvidia") for address in on_pci)
    return max(0, missing - nameless)


def read_machine(host: Host, path: str) -> str:
    """The text of the machine-type file, `unknown` without one."""
    if not path:
        return UNKNOWN
    try:
        text = host.text(path.lstrip("/"))
    except HostError as error:
        host.note(error.path, error.reason)
        return UNKNOWN
    return UNKNOWN if text is None else text.strip()
