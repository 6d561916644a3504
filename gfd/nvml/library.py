"""NVML's library: which file it is, what old ones lack, what its errors mean for the driver, when it is loaded anew."""

from __future__ import annotations

import _ctypes
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pynvml

from gfd.inventory import MISSING, Driver, Trouble

T = TypeVar("T")

LIBRARY = "libnvidia-ml.so.1"

_OLDER = {
    "nvmlInitWithFlags": ("nvmlInit_v2", "nvmlInit"),
    "nvmlDeviceGetCount_v2": ("nvmlDeviceGetCount",),
    "nvmlDeviceGetHandleByIndex_v2": ("nvmlDeviceGetHandleByIndex",),
    "nvmlDeviceGetPciInfo_v3": ("nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"),
    "nvmlDeviceGetAttributes_v2": ("nvmlDeviceGetAttributes",),
    "nvmlEventSetWait_v2": ("nvmlEventSetWait",),
}
"""Names that old libraries have for what pynvml asks for; the C signatures agree as far as they go."""

REPLACED = "\ufffd"
"""Stands for bytes that are no UTF-8."""

UNKNOWN_HERE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND})
"""The device or the library has no such thing: an answer, not a failure."""

_UUID = pynvml.NVML_DEVICE_UUID_V2_BUFFER_SIZE
_NO_DRIVER = frozenset({pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_LIBRARY_NOT_FOUND})


def load(library: str) -> None:
    """Load the library for pynvml, by path or soname. Raises OSError if that cannot be done."""
    loaded = pynvml.nvmlLib
    if loaded is not None and loaded._name == library:
        return
    if loaded is not None:
        unload()
    fresh = ctypes.CDLL(library)
    for name, older in _OLDER.items():
        found = next((one for one in (name, *older) if hasattr(fresh, one)), None)
        if found is not None and found != name:
            setattr(fresh, name, getattr(fresh, found))
    pynvml.nvmlLib = fresh


def unload() -> None:
    """Forget the library. To be called only when NVML is shut down."""
    loaded = pynvml.nvmlLib
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    if loaded is not None:
        _ctypes.dlclose(loaded._handle)


def is_replaced() -> bool:
    """Whether the file of the loaded library is gone, or another one, as after a driver upgrade."""
    path, inode = loaded_file()
    try:
        return bool(path) and Path(path).stat().st_ino != inode
    except OSError:
        return True


def loaded_version() -> str:
    """The version in the file name of the loaded library, `libnvidia-ml.so.580.95.05`; empty if there is none."""
    version = loaded_file()[0].removesuffix(" (deleted)").rpartition("/libnvidia-ml.so.")[2]
    return version if "." in version else ""


def loaded_file() -> tuple[str, int]:
    """Path and inode of the loaded library; empty and 0 if none is loaded, or if that is unknown (proc(5), "maps")."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        _, _, _, _, inode, *path = line.split(maxsplit=5)
        if path and "/libnvidia-ml.so" in path[0]:
            return path[0], int(inode)
    return "", 0


def failure(library: str, known: Driver, error: Exception) -> tuple[Trouble, str, Driver]:
    """What an error of loading, initialising or counting means: a state with its reason, and the driver.

    `known` is the driver as read so far.
    The library is unloaded if its file has been replaced, so that the next reading loads that of the new driver.
    """
    if isinstance(error, OSError):
        absent = is_absent(library, error)
        trouble = Trouble.NO_DRIVER if absent else Trouble.DRIVER_ERROR
        return trouble, str(error), Driver(library=MISSING if absent else "")
    code = getattr(error, "value", None)
    reason = f"NVML: {error_text(error)}"
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        driver = Driver(library=loaded_version())
        if is_replaced():
            unload()
        return Trouble.MISMATCH, reason, driver
    return Trouble.NO_DRIVER if code in _NO_DRIVER else Trouble.DRIVER_ERROR, reason, known


def is_absent(library: str, error: OSError) -> bool:
    """Whether loading it failed since it is not there, rather than that it or what it needs cannot be loaded."""
    reason = str(error)
    return library in reason and "No such file or directory" in reason


def attempt(what: str, failing: list[str], call: Callable[[], T]) -> T | None:
    """The answer to what every library and driver must know; None, and a reason in `failing`, after any error."""
    try:
        return call()
    except pynvml.NVMLError as error:
        failing.append(f"{what}: {error_text(error)}")
        return None


def optional(call: Callable[[], T], otherwise: T) -> T:
    """The answer, or `otherwise` after any error."""
    try:
        return call()
    except pynvml.NVMLError:
        return otherwise


def error_text(error: Exception) -> str:
    """The text of an error; that of a code that only the library knows need not be UTF-8."""
    try:
        return str(error)
    except UnicodeDecodeError:
        return f"NVML error {getattr(error, 'value', '')}"


def read_text(function: str, size: int, *handle: Any) -> str:
    """What a function writes into a buffer of so many bytes; bytes that are no UTF-8 become U+FFFD.

    The binding's own functions decode strictly. Raises NVMLError.
    """
    buffer = ctypes.create_string_buffer(size)
    call = pynvml._nvmlGetFunctionPointer(function)
    pynvml._nvmlCheckReturn(call(*handle, buffer, ctypes.c_uint(size)))
    return buffer.value.decode("utf-8", "replace")


def read_uuid(handle: Any, otherwise: str = "") -> str:
    """The UUID of a GPU or MIG device; `otherwise` where it cannot be read, as of a GPU that has fallen off the bus."""
    return optional(lambda: read_text("nvmlDeviceGetUUID", _UUID, handle), "") or otherwise


def text_of(struct: ctypes.Structure, name: str) -> str:
    """A text in a struct of the binding, which decodes strictly too."""
    value: bytes = getattr(type(struct), name).__get__(struct)
    return value.decode("utf-8", "replace")
