"""Lays a case's machine out as a directory tree: the sysfs folders of its GPUs, and its `files`.

The tree is all there is: nothing of the real machine is in it. Formats are the kernel's (ABI/testing/sysfs-bus-pci).
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PCI_DEVICES = "sys/bus/pci/devices"
PCI_DRIVERS = "sys/bus/pci/drivers"

CONFIG_SIZE = 256
RESOURCES = 13
"""Lines of a `resource` file: six BARs, the ROM, and what SR-IOV adds."""


def lay_out(case: Mapping[str, Any], directory: Path) -> Path:
    """Make the root of the case's machine in `directory`: /sys/bus/pci/devices, then what `files` says.

    Returns: the root, `directory` itself.
    """
    machine = case.get("machine") or {}
    (directory / PCI_DEVICES).mkdir(parents=True, exist_ok=True)
    for device in devices_of(machine):
        pci = device.get("pci")
        if pci and pci.get("class") is not None:
            write_pci_device(pci, directory)
    files: Mapping[str, Any] = case.get("files") or {}
    # What is removed goes first: a file may then stand where a folder was.
    for path, content in sorted(files.items(), key=lambda item: item[1] is not None):
        write_file(directory / path.lstrip("/"), content)
    return directory


def devices_of(machine: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The GPUs in the machine: its own list, or that of its first state."""
    first: Mapping[str, Any] = next(iter(machine.get("states") or ()), {})
    devices: Sequence[Mapping[str, Any]] = machine.get("devices") or first.get("devices") or ()
    return devices


def write_pci_device(pci: Mapping[str, Any], root: Path) -> None:
    """The folder the kernel makes for a PCI device, and the driver it is bound to."""
    folder = root / PCI_DEVICES / address(pci["bus_id"])
    folder.mkdir(parents=True)
    vendor, device = hex_number(pci.get("vendor", 0x10DE)), hex_number(pci.get("device", 0))
    subsystem_vendor, subsystem_device = subsystem(pci, vendor)
    for name, text in {
        "vendor": f"0x{vendor:04x}",
        "device": f"0x{device & 0xFFFF:04x}",
        "class": pci["class"] if isinstance(pci["class"], str) else f"0x{pci['class']:06x}",
        "subsystem_vendor": f"0x{subsystem_vendor:04x}",
        "subsystem_device": f"0x{subsystem_device:04x}",
        "numa_node": str(pci.get("numa_node", 0)),
        "resource": resource_lines(pci.get("bars")),
    }.items():
        (folder / name).write_text(text + "\n")
    (folder / "config").write_bytes(config_space(pci, vendor, device & 0xFFFF, (subsystem_vendor, subsystem_device)))
    driver = pci.get("driver", "nvidia")
    if driver:
        (root / PCI_DRIVERS / driver).mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(Path("../../drivers", driver))


def address(bus_id: str) -> str:
    """A bus id of NVML's, `00000000:3B:00.0`, as sysfs has it: `0000:3b:00.0`. The domain keeps what it needs."""
    domain, rest = bus_id.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def hex_number(value: str | int) -> int:
    """`0x10DE`, or the number itself."""
    return value if isinstance(value, int) else int(value, 16)


def subsystem(pci: Mapping[str, Any], vendor: int) -> tuple[int, int]:
    """Vendor and device of the board; `subsystem` is the device's 16 bits, or both as NVML has them: 0x16C110DE."""
    given = hex_number(pci.get("subsystem", 0))
    return (given & 0xFFFF, given >> 16) if given > 0xFFFF else (vendor, given)


def resource_lines(bars: Sequence[Sequence[int]] | None) -> str:
    """Start, end and flags of each region; by default 13 unused ones."""
    regions = bars if bars is not None else [(0, 0, 0)] * RESOURCES
    return "\n".join(" ".join(f"0x{number:016x}" for number in region) for region in regions)


def config_space(pci: Mapping[str, Any], vendor: int, device: int, board: tuple[int, int]) -> bytes:
    """The standard header; its status word names no capability list."""
    space = bytearray(CONFIG_SIZE)
    space[0x00:0x04] = vendor.to_bytes(2, "little") + device.to_bytes(2, "little")
    with contextlib.suppress(ValueError):  # a class that is no number is for whoever reads the `class` file
        space[0x09:0x0C] = (hex_number(pci["class"]) & 0xFFFFFF).to_bytes(3, "little")
    space[0x2C:0x30] = board[0].to_bytes(2, "little") + board[1].to_bytes(2, "little")
    return bytes(space)


def write_file(path: Path, content: str | Mapping[str, Any] | None) -> None:
    """One entry of `files`: text, `{hex: …}`, `{link: target}`, `{dir: true}`; None removes what is there."""
    if content != {"dir": True}:  # a folder may hold other entries already
        remove(path)
    if content is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    match content:
        case str():
            path.write_bytes(content.encode())
        case {"hex": digits}:
            path.write_bytes(bytes.fromhex(digits))
        case {"link": target}:
            path.symlink_to(target)
        case {"dir": True}:
            path.mkdir(exist_ok=True)
        case _:
            raise ValueError(f"{path}: not a file's content: {content!r}")


def remove(path: Path) -> None:
    """Make way at `path`, whatever stands there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
