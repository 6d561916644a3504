"""Everything that is read about a machine's NVIDIA devices in one pass."""

from __future__ import annotations

import _ctypes
import ctypes
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Thread, current_thread
from typing import Protocol

from gfd import cuda
from gfd.inventory import MISSING, Driver, Fact, Gpu, Inventory, Node, Trouble, from_json, join_facts, to_json
from gfd.pci import DEVICES as PCI_DEVICES
from gfd.pci import NVIDIA, Functions, display_devices, driver_of, read_passed_through, read_vgpu
from nfd.errors import HostError
from nfd.host import Host
from nfd.host.blanks_and_numbers import first_word, parse_natural
from nfd.host.pcie import is_vfio, numa_node, read_roots
from nfd.host.replay import LIBRARY_VARIABLE, Replay
from nfd.runtime.failures import failed
from nfd.runtime.threads import start_thread

MACHINE_TYPE_FILE = "/sys/class/dmi/id/product_name"
DMI_FILE = "/sys/devices/virtual/dmi/id/product_name"
"""The same file where the kernel has it; `/sys/class/dmi/id` is a link, which a hand-made machine may lack."""
RESTART = "restart the pod if it is older than the driver, or give it NVIDIA's container runtime"
MODULE_VERSION = "sys/module/nvidia/version"
UNKNOWN = "unknown"
TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What to read, and how."""

    strategy: str = "auto"
    machine_type_file: str = MACHINE_TYPE_FILE
    """Empty: the machine is not known."""
    timeout: float = TIMEOUT
    """Seconds that the driver has for one reading."""


def discover(host: Host, options: ReadSettings, functions: Functions) -> Inventory:
    """The devices, and what the machine says of them.

    `functions` are those that `gfd.pci.read_functions` has just found.

    Reads: the driver library; sys/bus/pci/devices; the machine-type file; proc/meminfo; sys/module/nvidia/version.
    Absent: a library that cannot be loaded is the inventory's `trouble`.  Raises: HostError, as `read_devices`.
    """
    inventory = read_devices(host, options.strategy, options.timeout, functions) or Inventory()
    total, problem = read_total(host) if inventory.gpus else (None, "")
    places = read_places(host, inventory, functions)
    gpus = tuple(complete(gpu, total, problem, places) for gpu in inventory.gpus)
    trouble, driver, reason = compare_versions(host, inventory)
    inventory = replace(inventory, gpus=gpus, trouble=trouble, driver=driver, reason=reason)
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


def compare_versions(host: Host, inventory: Inventory) -> tuple[Trouble | None, Driver, str]:
    """`trouble`, driver and reason; with the version of the kernel module where no library, or another one, is there.

    Reads: sys/module/nvidia/version (text, `580.95.05`).
    """
    trouble, driver, reason = inventory.trouble, inventory.driver, inventory.reason
    if trouble is Trouble.MISMATCH:
        module = host.value(MODULE_VERSION) or UNKNOWN
        versions = f"kernel module {module}, library {driver.library or UNKNOWN}"
        return trouble, replace(driver, module=module), f"{reason}: {versions}"
    if trouble is Trouble.NO_DRIVER and driver.library == MISSING:
        if module := host.value(MODULE_VERSION) or "":
            return (
                Trouble.LIBRARY_MISSING,
                replace(driver, module=module),
                f"kernel module {module}, {reason}; {RESTART}",
            )
        return trouble, replace(driver, library=""), reason
    return trouble, driver, reason


@dataclass(frozen=True, slots=True)
class Places:
    """Where the devices are in the machine: by PCI address, their class, NUMA node and PCIe root."""

    classes: Functions
    nodes: Mapping[str, int]
    roots: Mapping[str, str]
    switched: int
    """Devices that are connected by NVSwitches."""


def read_places(host: Host, inventory: Inventory, functions: Functions) -> Places:
    """Reads: the links in sys/bus/pci/devices, and numa_node of the devices."""
    addresses = [gpu.pci_address for gpu in inventory.gpus if gpu.pci_address in functions]
    nodes = {address: numa_node(host.value(f"{PCI_DEVICES}/{address}/numa_node")) for address in addresses}
    roots = read_roots(host, PCI_DEVICES, addresses) if addresses else {}
    switched = sum(gpu.nvlink_peer == "switch" for gpu in inventory.gpus)
    return Places(functions, {address: int(node) for address, node in nodes.items() if node}, roots, switched)


def complete(gpu: Gpu, total: int | None, reason: str, places: Places) -> Gpu:
    """A device with its place, and with the machine's memory where it has none of its own.

    `total` are that memory's MiB, `reason` says why they could not be read. Some drivers (GB10) give them as the
    device's.
    """
    address = gpu.pci_address
    gpu = replace(
        gpu,
        pci_class=gpu.pci_class or places.classes.get(address, ""),
        numa_node=places.nodes.get(address),
        pcie_root=places.roots.get(address, ""),
        nvlink_peers=places.switched - 1 if gpu.nvlink_peer == "switch" else gpu.nvlink_peers,
    )
    if gpu.memory is not None:
        unified = gpu.memory_unified or gpu.memory == total
        return gpu if unified == gpu.memory_unified else replace(gpu, memory_unified=unified)
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
        if name == "MemTotal" and (kib := parse_natural(first_word(rest))) is not None:
            return kib // 1024, ""
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


PROBE = "nvml"
NVML_LIBRARY = "libnvidia-ml.so.1"

_DXCORE = "libdxcore.so"
_TEGRA_NAMES = ("(nvgpu)", "NVIDIA Thor")
_TEGRA_RELEASE = "etc/nv_tegra_release"
_TEGRA_FAMILY = "sys/devices/soc0/family"

_late: list[Thread] = []
"""The reading in progress, perhaps after its time limit; until it ends, no other begins in this process.

Its thread keeps the list: whoever waits for it may be asked to end, and `Thread.join` then takes it for ended.
"""


class LibraryReading(Protocol):
    """A reading of one library, which may be looked at while it runs."""

    def run(self) -> None: ...

    def inventory(self, unanswered: str = "") -> Inventory: ...


def read_devices(host: Host, strategy: str, timeout: float, functions: Functions) -> Inventory | None:
    """Driver and devices; None for a recorded machine of which no inventory is known.

    Raises: HostError if a recorded inventory is none.
    """
    if strategy == "vfio":
        return read_passed_through(host, functions)
    library = host.env(LIBRARY_VARIABLE)
    if isinstance(host, Replay):
        if library:
            return within(timeout, Chosen("nvml", library))
        strategy = "nvml"
    chosen = Chosen(strategy, library, tegra=is_tegra(host))
    return host.probe_value(
        PROBE,
        lambda: within(timeout, chosen),
        lambda inventory: json.dumps(to_json(inventory)),
        lambda text: from_json(json.loads(text)),
    )


def is_tegra(host: Host) -> bool:
    """Reads: etc/nv_tegra_release, sys/devices/soc0/family."""
    family = host.value(_TEGRA_FAMILY) or ""
    return host.is_file(_TEGRA_RELEASE) or family.lower().startswith("tegra")


class Chosen:
    """A reading with the matching library, which is chosen when it runs."""

    def __init__(self, strategy: str, library: str, *, tegra: bool = False) -> None:
        self._strategy = strategy
        self._library = library
        self._tegra = tegra
        self._reading: LibraryReading | None = None

    def run(self) -> None:
        auto = self._strategy == "auto" and not is_loadable(_DXCORE)
        if self._strategy == "tegra" or (auto and self._tegra and not is_loadable(self._library or NVML_LIBRARY)):
            self._go(cuda.CudaReading())
            return
        from gfd import nvml  # NVML's binding is imported on machines with a GPU only

        found = self._go(nvml.NvmlReading(self._library))
        if auto and any(part in gpu.name for gpu in found.gpus for part in _TEGRA_NAMES):
            self._go(cuda.CudaReading(found.driver.version))

    def inventory(self, unanswered: str = "") -> Inventory:
        return Inventory() if self._reading is None else self._reading.inventory(unanswered)

    def _go(self, reading: LibraryReading) -> Inventory:
        self._reading = reading
        reading.run()
        return reading.inventory()


def is_loadable(library: str) -> bool:
    """Whether a library can be loaded. It is let go of again: one that stays could not be replaced by a newer one."""
    try:
        found = ctypes.CDLL(library)
    except OSError:
        return False
    _ctypes.dlclose(found._handle)
    return True


def within(timeout: float, reading: LibraryReading) -> Inventory:
    """Run a reading for at most `timeout` seconds; devices that did not get their turn count as failing."""
    if _late:
        return Inventory(trouble=Trouble.DRIVER_ERROR, reason="a call into the driver has not returned yet")
    defects: list[Exception] = []

    def run() -> None:
        _late.append(current_thread())
        try:
            reading.run()
        except Exception as error:
            failed("gpu reading", error)
            defects.append(error)
        finally:
            _late.remove(current_thread())

    thread = start_thread("gpu reading", run)
    thread.join(timeout)
    if defects:
        return Inventory(trouble=Trouble.DRIVER_ERROR, reason=f"{type(defects[0]).__name__}: {defects[0]}")
    if not thread.is_alive():
        return reading.inventory()
    reason = f"the driver did not answer within {timeout:g} s"
    found = reading.inventory(reason)
    return found if found.gpus else Inventory(found.backend, trouble=Trouble.DRIVER_ERROR, reason=reason)
