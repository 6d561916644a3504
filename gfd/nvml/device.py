"""One GPU."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pynvml

from gfd.families import INTEGRATED
from gfd.inventory import Fact, Gpu, MigDevice, join_facts
from gfd.nvml.health_and_links import ABSENT, FAILED, PENDING, RECOVERY, FieldValues, read_fabric, read_links, read_pcie
from gfd.nvml.library import REPLACED, UNKNOWN_HERE, error_text, read_text, read_uuid, text_of
from gfd.nvml.mig import read_mig

T = TypeVar("T")

MIB = 1024 * 1024

_EMPTY_SLOT = frozenset({pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT})
_HERE = frozenset({pynvml.NVML_ERROR_NOT_SUPPORTED})
"""What a device may lack of that which every library can ask for."""
_VBIOS, _GSP = "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetGspFirmwareVersion"
_FIRMWARE = 64
"""Bytes of a text with a version of firmware; more than NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE."""
_NAME = pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE
_TELLING = ("name", "memory", "pci_address", "mig_capable")
"""A device that answers none of them, and has no compute capability, does not answer."""


class Device:
    """Reads one device, each fact by itself; `gpu` and `migs` are what came out."""

    def __init__(self, index: int) -> None:
        self._index = index
        self.gpu = Gpu(index)
        self.migs: tuple[MigDevice, ...] = ()
        self._failing: list[str] = []
        self._unread: set[Fact] = set()
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        except pynvml.NVMLError as error:
            self.gpu = Gpu(index, failing=error_text(error), mute=1)
            return
        memory_bytes, facts = self._read(handle)
        if not any(facts[name] for name in _TELLING) and facts["compute_major"] is None:
            self.gpu = Gpu(index, failing=self._failing[0] if self._failing else "no answer", mute=1)
            return
        facts |= self._read_health(handle)
        if facts["mig_enabled"]:
            self.migs = tuple(self._read_migs(handle, memory_bytes))
        failing = self._failing[0] if self._failing else ""
        self.gpu = Gpu(index, failing=failing, unread=join_facts(self._unread), **facts)

    def _read(self, handle: Any) -> tuple[int, dict[str, Any]]:
        """Its memory in bytes, 0 if that is not known, and what it is."""
        name = self._ask(Fact.NAME, "name", lambda: read_text("nvmlDeviceGetName", _NAME, handle), frozenset())
        mode = self._ask(Fact.MIG, "MIG mode", lambda: pynvml.nvmlDeviceGetMigMode(handle))
        current, pending = mode or (0, 0)
        compute = self._ask(
            Fact.COMPUTE, "compute capability", lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle), _HERE
        )
        memory, unified = self._memory(handle, compute is not None and tuple(compute) in INTEGRATED)
        return memory, {
            "name": name or "",
            "uuid": read_uuid(handle),
            "pci_address": self._ask(Fact.PCI, "PCI address", lambda: pci_address(handle), _HERE) or "",
            "memory": memory // MIB if memory else None,
            "memory_unified": unified,
            "compute_major": compute[0] if compute else None,
            "compute_minor": compute[1] if compute else None,
            "mig_capable": None if Fact.MIG in self._unread else mode is not None,
            "mig_enabled": bool(current),
            "mig_changing": current != pending,
            "vbios": self._ask(Fact.VBIOS, "VBIOS", lambda: read_text(_VBIOS, _FIRMWARE, handle), ABSENT) or "",
            "gsp": self._ask(Fact.GSP, "GSP firmware", lambda: read_text(_GSP, _FIRMWARE, handle), ABSENT) or "",
        }

    def _read_health(self, handle: Any) -> dict[str, Any]:
        """Whether it is well."""
        values = FieldValues(handle, RECOVERY, PENDING, FAILED)
        flag = pynvml.nvmlDeviceGetUnrepairableMemoryFlag_v1
        fabric = self._ask(Fact.CLIQUE, "fabric", lambda: read_fabric(handle)) or {}
        links = self._ask(Fact.NVLINK, "NVLink", lambda: read_links(handle), ABSENT) or {}
        unrepairable = self._ask(Fact.UNREPAIRABLE, "unrepairable memory", lambda: flag(handle), ABSENT)
        lanes = self._ask(Fact.PCIE, "PCIe", lambda: read_pcie(handle), ABSENT) or {}
        return {
            **fabric,
            **links,
            **lanes,
            "recovery": self._ask(Fact.RECOVERY, "recovery action", values.recovery, ABSENT) or "",
            "remap": self._ask(Fact.REMAP, "row remapping", values.remap, ABSENT) or "",
            "unrepairable": None if unrepairable is None else bool(unrepairable),
        }

    def _memory(self, handle: Any, integrated: bool) -> tuple[int, bool]:
        """Bytes (0: not known), and whether the memory is the machine's.

        For an integrated GPU drivers return Not Supported, a total of 0, or that of the machine.
        """
        try:
            total = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_SUPPORTED:
                return 0, True
            self._fails(Fact.MEMORY, f"memory: {error_text(error)}")
            return 0, integrated
        if not total and not integrated:
            self._fails(Fact.MEMORY, "memory: the driver reports 0 bytes")
        return total, integrated

    def _read_migs(self, handle: Any, memory_bytes: int) -> list[MigDevice]:
        found: list[MigDevice] = []
        slots = self._ask(Fact.MIGS, "MIG devices", lambda: pynvml.nvmlDeviceGetMaxMigDeviceCount(handle), frozenset())
        for slot in range(slots or 0):
            try:
                mig = self._mig_handle(handle, slot)
                if mig is None:
                    continue
                device, failing = read_mig(self._index, mig, memory_bytes)
            except (pynvml.NVMLError, LookupError) as error:
                self._fails(Fact.MIGS, f"MIG device {slot}: {error_text(error)}")
                continue
            found.append(device)
            self._failing += [f"MIG device {slot}: {one}" for one in failing]
        return found

    def _mig_handle(self, handle: Any, slot: int) -> Any | None:
        """The MIG device in a slot, None if that is empty."""
        try:
            mig = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
        except pynvml.NVMLError as error:
            if error.value in _EMPTY_SLOT:
                return None
            raise
        is_mig = self._ask(None, f"MIG device {slot}", lambda: pynvml.nvmlDeviceIsMigDeviceHandle(mig).value)
        return None if is_mig == 0 else mig

    def _ask(
        self, fact: Fact | None, what: str, call: Callable[[], T], unknown: frozenset[int] = UNKNOWN_HERE
    ) -> T | None:
        """The answer, None where there is no such thing; after an error that fact is unread, and the device failing."""
        try:
            return call()
        except pynvml.NVMLError as error:
            if error.value not in unknown:
                self._fails(fact, f"{what}: {error_text(error)}")
            return None

    def _fails(self, fact: Fact | None, reason: str) -> None:
        if fact is not None:
            self._unread.add(fact)
        self._failing.append(reason)


def pci_address(handle: Any) -> str:
    """The device's address as sysfs has it, empty if NVML's is none: `00000000:3B:00.0` is `0000:3b:00.0`.

    Where bytes of the text are wrong, its numbers stand beside it.
    """
    info = pynvml.nvmlDeviceGetPciInfo(handle)
    text = (text_of(info, "busId") or text_of(info, "busIdLegacy")).lower()
    if REPLACED in text:
        text = f"{info.domain:x}:{info.bus:02x}:{info.device:02x}.0"
    domain, colon, rest = text.partition(":")
    with suppress(ValueError):
        return f"{int(domain, 16):04x}:{rest}" if colon else ""
    return ""
