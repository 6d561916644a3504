"""One reading of the devices through NVML: load, initialise, ask, shut down. The only package that imports pynvml.

Nothing of NVML is open between two readings, and no handle outlives one, so that reloading the driver or creating
MIG devices is never blocked (NVML API reference, "Initialization and Cleanup"). `events` alone keeps it open, as a
program of its own that is off by default.
"""

from __future__ import annotations

from contextlib import suppress

import pynvml

from gfd.inventory import Driver, Gpu, Inventory, MigDevice, Trouble
from gfd.nvml.device import Device
from gfd.nvml.library import LIBRARY, attempt, failure, load, read_text


class NvmlReading:
    """What has been read so far; `inventory` may be asked for while `run` is still at it."""

    def __init__(self, library: str = "") -> None:
        self._library = library or LIBRARY
        self._driver = Driver()
        self._count = 0
        self._gpus: dict[int, Gpu] = {}
        self._migs: dict[int, tuple[MigDevice, ...]] = {}
        self._trouble: tuple[Trouble, str] | None = None

    def run(self) -> None:
        """Read everything; one device that fails spoils only itself."""
        try:
            load(self._library)
            pynvml.nvmlInit()
        except (OSError, pynvml.NVMLError) as error:
            self._fail(error)
            return
        try:
            self._read()
        except pynvml.NVMLError as error:
            self._fail(error)
        finally:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()

    def inventory(self, unanswered: str = "") -> Inventory:
        """The devices read so far; of those that are missing, `unanswered` says why."""
        if self._trouble is not None:
            trouble, reason = self._trouble
            return Inventory("nvml", self._driver, trouble=trouble, reason=reason)
        gpus = tuple(self._gpus.get(index) or Gpu(index, failing=unanswered, mute=1) for index in range(self._count))
        migs = tuple(mig for index in range(self._count) for mig in self._migs.get(index, ()))
        return Inventory("nvml", self._driver, gpus, migs)

    def _fail(self, error: Exception) -> None:
        trouble, reason, self._driver = failure(self._library, self._driver, error)
        self._trouble = trouble, reason

    def _read(self) -> None:
        failing: list[str] = []
        size = pynvml.NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE
        version = attempt("driver version", failing, lambda: read_text("nvmlSystemGetDriverVersion", size))
        cuda = attempt("CUDA version", failing, pynvml.nvmlSystemGetCudaDriverVersion)
        self._driver = Driver(version or "", cuda, failing[0] if failing else "")
        self._count = pynvml.nvmlDeviceGetCount()
        for index in range(self._count):
            device = Device(index)
            self._migs[index] = device.migs
            self._gpus[index] = device.gpu
