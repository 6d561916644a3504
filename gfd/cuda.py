"""One reading of the devices through the CUDA driver library, for Tegra, where NVML reports little.

CUDA Driver API reference, "Initialization", "Device Management". The library has no call that closes it again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gfd.inventory import Driver, Fact, Gpu, Inventory, Trouble, join_facts

LIBRARY = "libcuda.so.1"
MIB = 1024 * 1024

_NAME_SIZE = 96
_MAJOR, _MINOR = 75, 76
_INTEGRATED = 18


class CudaError(Exception):
    """A call that did not succeed."""


class CudaReading:
    """As `gfd.nvml.NvmlReading`. CUDA does not report the driver's version, so that of NVML may be passed in."""

    def __init__(self, driver: str = "") -> None:
        self._driver = Driver(driver)
        self._count = 0
        self._gpus: dict[int, Gpu] = {}
        self._trouble: tuple[Trouble, str] | None = None

    def run(self) -> None:
        """Read everything; one device that fails spoils only itself."""
        try:
            library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            absent = LIBRARY in str(error) and "No such file or directory" in str(error)
            self._trouble = (Trouble.NO_DRIVER if absent else Trouble.DRIVER_ERROR, str(error))
            return
        try:
            self._read(library)
        except CudaError as error:
            self._trouble = (Trouble.DRIVER_ERROR, str(error))

    def inventory(self, unanswered: str = "") -> Inventory:
        """The devices read so far; of those that are missing, `unanswered` says why."""
        if self._trouble is not None:
            trouble, reason = self._trouble
            return Inventory("cuda", self._driver, trouble=trouble, reason=reason)
        gpus = tuple(self._gpus.get(index) or Gpu(index, failing=unanswered, mute=1) for index in range(self._count))
        return Inventory("cuda", self._driver, gpus)

    def _read(self, library: Any) -> None:
        call(library, "cuInit", 0)
        failing: list[str] = []
        cuda = attempt(failing, lambda out: call(library, "cuDriverGetVersion", out))
        self._driver = Driver(self._driver.version, cuda, failing[0] if failing else "")
        self._count = integer(lambda out: call(library, "cuDeviceGetCount", out))
        for index in range(self._count):
            try:
                self._gpus[index] = read_device(library, index)
            except CudaError as error:
                self._gpus[index] = Gpu(index, failing=str(error), mute=1)


def read_device(library: Any, index: int) -> Gpu:
    """One device, each fact by itself. Raises CudaError if there is no handle of it."""
    device = ctypes.c_int(integer(lambda out: call(library, "cuDeviceGet", out, index)))
    name, total = ctypes.create_string_buffer(_NAME_SIZE), ctypes.c_size_t()
    failing: list[str] = []
    unread: set[Fact] = set()

    def ask(fact: Fact, question: Callable[[Any], None]) -> int | None:
        answer = attempt(failing, question)
        if answer is None:
            unread.add(fact)
        return answer

    ask(Fact.NAME, lambda _: call(library, "cuDeviceGetName", name, _NAME_SIZE, device))
    ask(Fact.MEMORY, lambda _: call(library, "cuDeviceTotalMem_v2", ctypes.byref(total), device))
    unified = ask(Fact.MEMORY, lambda out: get_attribute(library, out, _INTEGRATED, device))
    return Gpu(
        index,
        name=name.value.decode("utf-8", "replace"),
        memory=total.value // MIB if total.value else None,
        memory_unified=bool(unified),
        compute_major=ask(Fact.COMPUTE, lambda out: get_attribute(library, out, _MAJOR, device)),
        compute_minor=ask(Fact.COMPUTE, lambda out: get_attribute(library, out, _MINOR, device)),
        mig_capable=False,
        failing=failing[0] if failing else "",
        unread=join_facts(unread),
    )


def get_attribute(library: Any, out: Any, attribute: int, device: Any) -> None:
    call(library, "cuDeviceGetAttribute", out, attribute, device)


def integer(ask: Callable[[Any], None]) -> int:
    """What a call leaves in the integer it is given."""
    value = ctypes.c_int()
    ask(ctypes.byref(value))
    return value.value


def attempt(failing: list[str], ask: Callable[[Any], None]) -> int | None:
    """As `integer`; None, and a reason in `failing`, if the call does not succeed."""
    try:
        return integer(ask)
    except CudaError as error:
        failing.append(str(error))
        return None


def call(library: Any, name: str, *arguments: Any) -> None:
    """Call a function. Raises CudaError unless it exists and succeeds."""
    function = getattr(library, name, None)
    if function is None:
        raise CudaError(f"CUDA: the library has no {name}")
    code = function(*arguments)
    if code != 0:
        raise CudaError(f"CUDA: {name} gives code {code}")
