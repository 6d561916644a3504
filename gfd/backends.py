"""Which library is asked for the devices, and for how long.

The choice is that of GPU feature discovery (k8s-device-plugin, `internal/resource` and go-nvlib `pkg/nvlib/info`):
NVML where there is `libdxcore.so` (WSL), the CUDA driver library on Tegra, else NVML.
"""

from __future__ import annotations

import _ctypes
import ctypes
import json
from threading import Thread
from typing import Protocol

from gfd import cuda
from gfd.inventory import Inventory, Trouble, from_json, to_json
from gfd.pci import Functions, read_passed_through
from nfd.errors import HostError
from nfd.failures import failed
from nfd.host import Host
from nfd.host.replay import LIBRARY_VARIABLE, Replay
from nfd.threads import start_thread

STRATEGIES = ("auto", "nvml", "tegra", "vfio")
PROBE = "nvml"
NVML_LIBRARY = "libnvidia-ml.so.1"

_DXCORE = "libdxcore.so"
_TEGRA_NAMES = ("(nvgpu)", "NVIDIA Thor")
_TEGRA_RELEASE = "etc/nv_tegra_release"
_TEGRA_FAMILY = "sys/devices/soc0/family"

_late: list[Thread] = []
"""A reading that is still at it after its time was over; as long as it is, no other one is begun in this process."""


class Reading(Protocol):
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
    text = host.probe(PROBE, lambda: json.dumps(to_json(within(timeout, chosen))))
    if text is None:
        return None
    try:
        return from_json(json.loads(text))
    except ValueError as error:
        raise HostError(f"probe {PROBE}", str(error)) from error


def is_tegra(host: Host) -> bool:
    """Reads: etc/nv_tegra_release, sys/devices/soc0/family."""
    family = host.value(_TEGRA_FAMILY) or ""
    return host.is_file(_TEGRA_RELEASE) or family.lower().startswith("tegra")


class Chosen:
    """A reading of the library that fits; only running it tells which that is."""

    def __init__(self, strategy: str, library: str, *, tegra: bool = False) -> None:
        self._strategy = strategy
        self._library = library
        self._tegra = tegra
        self._reading: Reading | None = None

    def run(self) -> None:
        auto = self._strategy == "auto" and not is_loadable(_DXCORE)
        if self._strategy == "tegra" or (auto and self._tegra and not is_loadable(self._library or NVML_LIBRARY)):
            self._go(cuda.Reading())
            return
        from gfd import nvml  # NVML's binding is imported on machines with a GPU only

        found = self._go(nvml.Reading(self._library))
        if auto and any(part in gpu.name for gpu in found.gpus for part in _TEGRA_NAMES):
            self._go(cuda.Reading(found.driver.version))

    def inventory(self, unanswered: str = "") -> Inventory:
        return Inventory() if self._reading is None else self._reading.inventory(unanswered)

    def _go(self, reading: Reading) -> Inventory:
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


def within(timeout: float, reading: Reading) -> Inventory:
    """Run a reading for at most `timeout` seconds; devices that did not get their turn count as failing."""
    _late[:] = [thread for thread in _late if thread.is_alive()]
    if _late:
        return Inventory(trouble=Trouble.DRIVER_ERROR, reason="a call into the driver has not come back yet")
    defects: list[Exception] = []

    def run() -> None:
        try:
            reading.run()
        except Exception as error:
            failed("gpu reading", error)
            defects.append(error)

    thread = start_thread("gpu reading", run)
    thread.join(timeout)
    if defects:
        return Inventory(trouble=Trouble.DRIVER_ERROR, reason=f"{type(defects[0]).__name__}: {defects[0]}")
    if not thread.is_alive():
        return reading.inventory()
    _late.append(thread)
    reason = f"the driver did not answer within {timeout:g} s"
    found = reading.inventory(reason)
    return found if found.gpus else Inventory(found.backend, trouble=Trouble.DRIVER_ERROR, reason=reason)
