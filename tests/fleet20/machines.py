"""The nodes of fleet.yaml as machines in directories: recorded hosts with the GPUs of GFD's cases in them."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gfd.inventory import Driver, Gpu, Inventory, MigDevice, to_json
from tests.gfd.cases import FOLDER, load_cases
from tests.nvml.machines import PCI_DEVICES, address, write_pci_device

HOSTS = Path(__file__).parents[1] / "hosts"
SPEC = Path(__file__).with_name("fleet.yaml")
ARM = ("arm64", "aarch64")
Json = dict[str, Any]


@dataclass(frozen=True)
class FleetNode:
    """One entry of fleet.yaml."""

    name: str
    host: str
    gpus: str = ""
    broken: Mapping[int, str] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    offers: Mapping[str, int] | str = field(default_factory=dict)
    pods: tuple[Mapping[str, int], ...] = ()
    taints: tuple[Mapping[str, str], ...] = ()
    unschedulable: bool = False
    ready: bool = True
    worker: bool = True

    @property
    def case(self) -> Json:
        return dict(cases()[self.gpus]) if self.gpus else {}

    @property
    def arch(self) -> str:
        file = HOSTS / self.host / "proc/sys/kernel/arch"
        return "arm64" if file.exists() and file.read_text().strip() in ARM else "amd64"

    @property
    def worker_config(self) -> Json:
        """How the worker of the node is told what its device plug-in does."""
        strategies = [flag.partition("=")[2] for flag in self.case.get("flags") or () if "mig-strategy" in flag]
        nvidia: Json = {"migStrategy": strategies[-1]} if strategies else {}
        sharing = (yaml.safe_load(self.case.get("config", "")) or {}).get("sharing")
        return {"sources": {"nvidia": nvidia | ({"sharing": sharing} if sharing else {})}}

    @property
    def setup(self) -> str:
        """Some nodes without a configuration of their own are `plain`, enough to show every kind of machine."""
        own = bool(self.worker_config["sources"]["nvidia"])
        return self.gpus if own else "plain" if self.name.endswith("-1") and self.worker else "other"

    @property
    def offered(self) -> dict[str, int]:
        """What the device plug-in offers: `auto` is every MIG device of the case under its profile."""
        if isinstance(self.offers, Mapping):
            return dict(self.offers)
        found: dict[str, int] = {}
        for mig in inventory_of(self.case["machine"]).migs:
            found[f"nvidia.com/mig-{mig.profile}"] = found.get(f"nvidia.com/mig-{mig.profile}", 0) + 1
        return found


def load_fleet() -> list[FleetNode]:
    entries = yaml.safe_load(SPEC.read_text())
    return [FleetNode(**{**one, **{name: tuple(one.get(name, ())) for name in ("pods", "taints")}}) for one in entries]


@cache
def cases() -> Mapping[str, Any]:
    return load_cases(FOLDER)


def build_machine(node: FleetNode, root: Path) -> Path:
    """A directory that `--replay` takes; the GPUs of the case instead of those that the host was recorded with."""
    shutil.copytree(HOSTS / node.host, root, symlinks=True)
    shutil.rmtree(root / "expected", ignore_errors=True)
    boot = root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True, exist_ok=True)
    boot.write_text(f"{boot_id(node)}\n")
    (root / "proc/stat").write_text("btime 1735689600\n")
    record = json.loads((root / "host.json").read_text()) if (root / "host.json").exists() else {}
    record |= {"environment": {"NODE_NAME": node.name}}
    if node.gpus:
        _unplug(root)
        for device in node.case["machine"]["devices"]:
            write_pci_device({**device["pci"], "bus_id": _bus(device)}, root)
        inventory = inventory_of(node.case["machine"], node.broken)
        record["probes"] = {**record.get("probes", {}), "nvml": json.dumps(to_json(inventory))}
    (root / "host.json").write_text(json.dumps(record))
    return root


def boot_id(node: FleetNode) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{node.name}.boot"))


def _bus(device: Mapping[str, Any]) -> str:
    """In a PCI domain of their own, where the host has nothing yet."""
    return "0000000f:" + str(device["pci"]["bus_id"]).partition(":")[2]


def _unplug(root: Path) -> None:
    """Take NVIDIA's display devices off the PCI bus."""
    for device in sorted((root / PCI_DEVICES).iterdir()):
        vendor, kind = device / "vendor", device / "class"
        if vendor.read_text().strip() == "0x10de" and kind.read_text().startswith("0x03"):
            device.unlink() if device.is_symlink() else shutil.rmtree(device)


def inventory_of(machine: Mapping[str, Any], broken: Mapping[int, str] | None = None) -> Inventory:
    """What the driver tells of a case's machine; `broken` names GPUs that do not answer any more, and why."""
    broken = broken or {}
    devices = list(enumerate(machine["devices"]))
    gpus = tuple(_gpu(index, one, broken.get(index, "")) for index, one in devices)
    migs = tuple(mig for index, one in devices for mig in _migs(index, one))
    return Inventory("nvml", Driver(str(machine["driver"]), machine["cuda"]), gpus, migs)


def _gpu(index: int, device: Mapping[str, Any], failing: str) -> Gpu:
    major, minor = map(int, str(device["compute"]).split("."))
    mig = device.get("mig")
    memory = device.get("memory_mib") or device["memory_bytes"] >> 20
    known: Json = {"memory": memory, "compute_major": major, "compute_minor": minor}
    return Gpu(
        index,
        name=device["name"],
        uuid=f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, str(index))}",
        pci_address=address(_bus(device)),
        mig_capable=mig is not None,
        mig_enabled=bool(mig and mig["current"]),
        mig_changing=bool(mig and mig["current"] != mig.get("pending", mig["current"])),
        failing=failing,
        mute=3 if failing else 0,
        **known,
    )


def _migs(gpu: int, device: Mapping[str, Any]) -> Iterator[MigDevice]:
    for one in (device.get("mig") or {}).get("devices") or ():
        engines = {f"engines_{name}": count for name, count in one["engines"].items()}
        yield MigDevice(
            gpu,
            one["profile"],
            uuid=f"MIG-{uuid.uuid5(uuid.NAMESPACE_DNS, str((gpu, one['gi'])))}",
            memory=one["memory_mb"],
            multiprocessors=one["multiprocessors"],
            slices_gi=one["gi_slices"],
            slices_ci=one.get("ci_slices", one["gi_slices"]),
            **engines,
        )
