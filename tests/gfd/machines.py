"""Machines for tests, in the shape of tests/cases/gfd/README.md, and a Host over one of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nfd.host import Host
from tests.nvml.library import Libraries, build, write_machine
from tests.nvml.machines import lay_out

Device = dict[str, Any]

H100: Device = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory_bytes": 85520809984,
    "compute": "9.0",
    "pci": {"bus_id": "00000000:00:06.0", "device": "0x2330", "class": "0x030200"},
    "mig": {"current": 0},
}
H200: Device = {
    **H100,
    "name": "NVIDIA H200",
    "memory_bytes": 150754820096,
    "pci": {"bus_id": "00000000:00:06.0", "device": "0x2335", "class": "0x030200"},
}
A100: Device = {
    "name": "NVIDIA A100-SXM4-80GB",
    "memory_mib": 81920,
    "compute": "8.0",
    "pci": {"device": "0x20B2", "class": "0x030200"},
    "mig": {"current": 0},
}
DGX_DISPLAY: Device = {
    "name": "NVIDIA DGX Display",
    "memory_mib": 3911,
    "compute": "7.5",
    "pci": {"device": "0x1FB0", "class": "0x030000"},
}
GEFORCE: dict[str, Device] = {
    "3080": {"name": "NVIDIA GeForce RTX 3080", "memory_mib": 10240, "compute": "8.6"},
    "3090": {"name": "NVIDIA GeForce RTX 3090", "memory_mib": 24576, "compute": "8.6"},
    "4090": {"name": "NVIDIA GeForce RTX 4090", "memory_mib": 24564, "compute": "8.9"},
}
ONE_SLICE: Device = {
    "profile": "1g.10gb",
    "gi_enum": 0,
    "gi_profile_id": 19,
    "gi_slices": 1,
    "ci_profile_id": 0,
    "multiprocessors": 16,
    "memory_mb": 9984,
    "engines": {"copy": 1, "decoder": 1, "encoder": 0, "jpeg": 1, "ofa": 0},
}


def at(bus: int, device: Mapping[str, Any], **more: Any) -> Device:
    """The device on a PCI bus of its own."""
    pci = {**device.get("pci", {}), "bus_id": f"00000000:{bus:02X}:00.0"}
    return {**device, "pci": pci, "uuid": f"GPU-00000000-0000-4000-8000-{bus:012x}", **more}


def carved(device: Mapping[str, Any], *migs: Device) -> Device:
    """The device in MIG mode, with these MIG devices."""
    return {**device, "mig": {"current": 1, "devices": [{**mig, "gi": n} for n, mig in enumerate(migs, 1)]}}


@dataclass(frozen=True)
class Laid:
    """A machine that this process sees: its root, its libraries, a Host over them."""

    root: Path
    libraries: Libraries
    host: Host

    def becomes(self, machine: Mapping[str, Any]) -> None:
        """From the next init on."""
        write_machine(machine, self.libraries.machine)


@contextmanager
def laid(machine: Mapping[str, Any], folder: Path, files: Mapping[str, Any] | None = None) -> Iterator[Laid]:
    """The library is loaded into this process when it is read."""
    libraries = build(machine, folder / "machine")
    root = lay_out({"machine": machine, "files": files or {}}, folder / "root")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in libraries.env.items():
            patch.setenv(name, value)
        yield Laid(root, libraries, Host(root))
