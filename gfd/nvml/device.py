"""One GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import pynvml

from gfd.inventory import Gpu, MigDevice
from gfd.nvml.library import UNKNOWN_HERE, optional
from gfd.nvml.mig import read_mig

T = TypeVar("T")

MIB = 1024 * 1024

_EMPTY_SLOT = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})
_FABRIC_COMPLETED = 3
_HERE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED})
"""What a device may lack of that which every library can ask for."""


class Device:
    """Reads one device; `gpu` and `migs` are what came out."""

    def __init__(self, index: int) -> None:
        self.gpu = Gpu(index)
        self.migs: tuple[MigDevice, ...] = ()
        self._failing: list[str] = []
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            self.gpu = replace(self.gpu, name=pynvml.nvmlDeviceGetName(handle))
        except (pynvml.NVMLError, UnicodeDecodeError) as error:
            self.gpu = Gpu(index, failing=str(error), mute=1)
            return
        memory_bytes = self._read(handle)
        if self.gpu.mig_enabled:
            self.migs = tuple(self._read_migs(handle, memory_bytes))
        self.gpu = replace(self.gpu, failing=self._failing[0] if self._failing else "")

    def _read(self, handle: Any) -> int:
        memory, unified = self._memory(handle)
        capable, mode = self._mig_mode(handle)
        compute = self._ask("compute capability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle), _HERE)
        self.gpu = replace(
            self.gpu,
            uuid=optional(lambda: pynvml.nvmlDeviceGetUUID(handle), "") or "",
            pci_address=self._ask("PCI address", lambda: pci_address(handle), _HERE) or "",
            memory=memory // MIB if memory else None,
            memory_unified=unified,
            compute_major=compute[0] if compute else None,
            compute_minor=compute[1] if compute else None,
            mig_capable=capable,
            mig_enabled=bool(mode[0]),
            mig_changing=mode[0] != mode[1],
            clique=self._ask("fabric", lambda: read_clique(handle)) or "",
        )
        return memory

    def _mig_mode(self, handle: Any) -> tuple[bool | None, tuple[int, int]]:
        """Whether the device is capable of MIG (None: not known), current and pending mode."""
        try:
            current, pending = pynvml.nvmlDeviceGetMigMode(handle)
        except pynvml.NVMLError as error:
            if error.value in UNKNOWN_HERE:
                return False, (0, 0)
            self._failing.append(f"MIG mode: {error}")
            return None, (0, 0)
        return True, (current, pending)

    def _memory(self, handle: Any) -> tuple[int, bool]:
        """Bytes (0: not known), and whether the device says that it has none of its own."""
        try:
            return int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), False
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return 0, True
            self._failing.append(f"memory: {error}")
            return 0, False

    def _read_migs(self, handle: Any, memory_bytes: int) -> list[MigDevice]:
        found: list[MigDevice] = []
        slots = self._ask("MIG devices", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle))
        if slots is None:
            self._failing.append("MIG devices cannot be listed")
        for slot in range(slots or 0):
            try:
                mig = self._mig_handle(handle, slot)
                if mig is not None:
                    found.append(read_mig(self.gpu.index, mig, memory_bytes))
            except (pynvml.NVMLError, LookupError) as error:
                self._failing.append(f"MIG device {slot}: {error}")
        return found

    def _mig_handle(self, handle: Any, slot: int) -> Any | None:
        """The MIG device in a slot, None if that is empty."""
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except pynvml.NVMLError as error:
            if error.value in _EMPTY_SLOT:
                return None
            raise
        return mig if pynvml.nvmlDeviceIsMigDeviceHandle(mig).value else None

    def _ask(self, what: str, call: Callable[[], T], unknown: frozenset[int] = UNKNOWN_HERE) -> T | None:
        """The answer, None where there is no such thing; after an error the device counts as failing."""
        try:
            return call()
        except (pynvml.NVMLError, UnicodeDecodeError) as error:
            if getattr(error, "value", None) not in unknown:
                self._failing.append(f"{what}: {error}")
            return None


def pci_address(handle: Any) -> str:
    """The device's address as sysfs has it, empty if NVML's is none: `00000000:3B:00.0` is `0000:3b:00.0`."""
    info = pynvml.nvmlDeviceGetPciInfo(handle)
    text = str(info.busId or info.busIdLegacy).lower()
    domain, colon, rest = text.partition(":")
    with suppress(ValueError):
        return f"{int(domain, 16):04x}:{rest}" if colon else ""
    return ""


def read_clique(handle: Any) -> str:
    """`<cluster uuid>.<clique id>` of a device whose fabric is up, else empty."""
    newer = pynvml.c_nvmlGpuFabricInfoV_t()
    try:
        pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(newer))
        info: Any = newer
    except pynvml.NVMLError_FunctionNotFound:
        info = pynvml.c_nvmlGpuFabricInfo_t()
        pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    uuid = bytes(info.clusterUuid)
    if info.state & 0xFF != _FABRIC_COMPLETED or info.status != pynvml.NVML_SUCCESS or not any(uuid):
        return ""
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}.{info.cliqueId}"
