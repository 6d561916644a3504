"""A large machine as a directory: 192 CPUs in two sockets, 16 NUMA nodes, 400 PCI functions and 512 virtual ones.

What is not laid out here (os-release, modules, kernel configuration) is as on the machine that measures.
"""

from __future__ import annotations

import shutil
from pathlib import Path

CPUS, SOCKETS, NODES = 192, 2, 16
FUNCTIONS, VIRTUAL_FUNCTIONS = 400, 512
COPIED = ("etc/os-release", "proc/sys/kernel/osrelease", "proc/sys/kernel/hostname", "proc/modules", "proc/swaps")
_PER_SOCKET = CPUS // SOCKETS
_CLASSES = ("0x020000", "0x010802", "0x060400", "0x030200", "0x088000", "0x0b4000")


def lay_out(root: Path, *, large: bool = True) -> None:
    """The large machine; otherwise one like it of two CPUs, one NUMA node and 12 PCI functions."""
    for name in COPIED:
        if Path("/", name).exists():
            write(root / name, Path("/", name).read_text())
    config = Path(f"/boot/config-{Path('/proc/sys/kernel/osrelease').read_text().strip()}")
    if config.exists():
        (root / "boot").mkdir(parents=True)
        shutil.copy(config, root / "boot")
    lay_out_cpus(root / "sys/bus", CPUS if large else 2, NODES if large else 1)
    lay_out_pci(root / "sys", *((FUNCTIONS, VIRTUAL_FUNCTIONS) if large else (12, 0)))


def lay_out_cpus(bus: Path, cpus: int, nodes: int) -> None:
    for cpu in range(cpus):
        topology = bus / f"cpu/devices/cpu{cpu}/topology"
        socket = cpu % _PER_SOCKET // (_PER_SOCKET // SOCKETS)
        write(topology / "thread_siblings_list", f"{cpu % _PER_SOCKET},{cpu % _PER_SOCKET + _PER_SOCKET}\n")
        write(topology / "physical_package_id", f"{socket}\n")
        write(
            topology / "package_cpus_list", f"{socket * 48}-{socket * 48 + 47},{socket * 48 + 96}-{socket * 48 + 143}\n"
        )
    for node in range(nodes):
        (bus / f"node/devices/node{node}").mkdir(parents=True)


def lay_out_pci(sys: Path, functions: int, virtual: int) -> None:
    for at in range(functions + virtual):
        is_virtual = at >= functions
        device = sys / "bus/pci/devices" / address(at)
        write(device / "class", f"{_CLASSES[0] if is_virtual else _CLASSES[at % len(_CLASSES)]}\n")
        write(device / "vendor", "0x15b3\n" if is_virtual else f"{0x8086 + at % 7:#06x}\n")
        write(device / "device", "0x101e\n" if is_virtual else f"{0x1000 + at:#06x}\n")
        write(device / "subsystem_vendor", "0x15b3\n")
        write(device / "subsystem_device", f"{at % 5:#06x}\n")
        if at < 4:
            write(device / "sriov_totalvfs", "128\n")
        if _is_network(at, functions):
            lay_out_interface(sys / f"class/net/eth{at}", at)


def _is_network(at: int, functions: int) -> bool:
    return at >= functions or at % len(_CLASSES) == 0


def lay_out_interface(interface: Path, at: int) -> None:
    (interface / "device").mkdir(parents=True)
    for name, value in (("operstate", "up"), ("speed", "100000"), ("mtu", "9000")):
        write(interface / name, f"{value}\n")


def address(at: int) -> str:
    return f"{at >> 16:04x}:{at >> 8 & 0xFF:02x}:{at >> 3 & 0x1F:02x}.{at & 7}"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
