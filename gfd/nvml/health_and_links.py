"""Whether one GPU is well: recorded faults, fabric, NVLinks and PCIe link (NVML API reference, nvml.h).

Values are by the names of the fields of `gfd.inventory.Gpu`; those that are not known are left out.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pynvml

from gfd.nvml.library import UNKNOWN_HERE

T = TypeVar("T")

ABSENT = UNKNOWN_HERE | {
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
}
"""The device, the driver or the library has no such thing: a driver does not know the fields and structs of later
ones."""

ACTIONS = ("none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset")
"""Recovery actions by number; later ones have had different meanings in different drivers."""
LAST_ACTION = 99

RECOVERY = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
PENDING, FAILED = pynvml.NVML_FI_DEV_REMAPPED_PENDING, pynvml.NVML_FI_DEV_REMAPPED_FAILURE

_VALUES: Mapping[int, str] = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
"""Member of the union by type of the value."""


class FieldValues:
    """The fields of one device, asked for in one call."""

    def __init__(self, handle: Any, *fields: int) -> None:
        self._error: pynvml.NVMLError | None = None
        self._values: dict[int, Any] = {}
        try:
            self._values = {value.fieldId: value for value in pynvml.nvmlDeviceGetFieldValues(handle, list(fields))}
        except pynvml.NVMLError as error:
            self._error = error

    def get(self, field: int) -> int:
        """The value of one field. Raises: NVMLError, also where the driver has no such field."""
        if self._error is not None:
            raise self._error
        value = self._values[field]
        if value.nvmlReturn != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(value.nvmlReturn)
        return int(getattr(value.value, _VALUES.get(value.valueType, "uiVal")))

    def recovery(self) -> str:
        """What has to be done to the device: a word of `ACTIONS`, or the number. Raises: NVMLError."""
        action = self.get(RECOVERY)
        if 0 <= action < len(ACTIONS):
            return ACTIONS[action]
        return str(action) if 0 < action <= LAST_ACTION else "other"

    def remap(self) -> str:
        """Row remapping: none, pending (until the next reset), failed. Raises: NVMLError."""
        if self.get(FAILED):
            return "failed"
        return "pending" if self.get(PENDING) else "none"


_PEERS = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_GPU: "gpu",
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: "cpu",
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: "switch",
}
_VERSIONS = ("", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0")
"""By the number that NVML gives."""


def read_links(handle: Any) -> dict[str, int | str | None]:
    """The NVLinks; nothing for a device without. Peer and version are those of the first that is up; `nvlink_peers` are
    the GPUs that they lead to directly, None where they lead to switches. Raises: NVMLError.
    """
    states: list[int] = []
    state = pynvml.nvmlDeviceGetNvLinkState
    try:
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            states.append(state(handle, link))
    except pynvml.NVMLError as error:
        if error.value not in ABSENT:
            raise
    up = [link for link, active in enumerate(states) if active]
    if not up:
        return {"nvlink_up": 0, "nvlink_count": len(states)} if states else {}
    peer = _PEERS.get(_unless_absent(lambda: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, up[0])), "")
    number = _unless_absent(lambda: pynvml.nvmlDeviceGetNvLinkVersion(handle, up[0])) or 0
    version = _VERSIONS[number] if number < len(_VERSIONS) else ""
    peers = _unless_absent(lambda: count_peers(handle, up)) if peer == "gpu" else None
    found = {"nvlink_up": len(up), "nvlink_count": len(states), "nvlink_peers": peers}
    return {**found, "nvlink_peer": peer, "nvlink_version": version}


def count_peers(handle: Any, links: Sequence[int]) -> int:
    """How many devices these links lead to. Raises: NVMLError."""
    found = [pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link) for link in links]
    return len({type(info).busId.__get__(info) for info in found})


def _unless_absent(ask: Callable[[], T]) -> T | None:
    """The answer; None where there is no such thing. Raises: NVMLError."""
    try:
        return ask()
    except pynvml.NVMLError as error:
        if error.value in ABSENT:
            return None
        raise


def read_pcie(handle: Any) -> dict[str, int]:
    """Lanes in use, and lanes that device and slot have. Raises: NVMLError."""
    width = pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
    return {"pcie_width": width, "pcie_width_max": pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)}


_STATES = ("", "not-started", "in-progress", "completed")
_SUMMARY = {
    pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_HEALTHY: "healthy",
    pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY: "unhealthy",
    pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_LIMITED_CAPACITY: "limited",
}


def read_fabric(handle: Any) -> dict[str, str]:
    """The place of the device in an NVLink fabric; there is a clique once the fabric is up. Raises: NVMLError."""
    info = _fabric_info(handle)
    state = info.state & 0xFF
    if state != pynvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        return {"fabric_state": _STATES[state] if state < len(_STATES) else ""}
    if info.status != pynvml.NVML_SUCCESS:
        return {"fabric_state": "failed"}
    health = fabric_health(getattr(info, "healthMask", 0), int(getattr(info, "healthSummary", 0)) & 0xFF)
    return {"clique": _clique(info), "fabric_state": "completed", "fabric_health": health}


def _clique(info: Any) -> str:
    """Empty without a cluster: NVLink within one machine."""
    uuid = bytes(info.clusterUuid)
    text = uuid.hex()
    name = f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}.{info.cliqueId}"
    return name if any(uuid) else ""


def _fabric_info(handle: Any) -> Any:
    """The newest struct that library and driver know: version 3, 2 or 1."""
    for struct in (pynvml.c_nvmlGpuFabricInfo_v3_t, pynvml.c_nvmlGpuFabricInfoV_t):
        info = struct()
        try:
            pynvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
        except pynvml.NVMLError_FunctionNotFound:
            break
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH or struct is pynvml.c_nvmlGpuFabricInfoV_t:
                raise
        else:
            return info
    info = pynvml.c_nvmlGpuFabricInfo_t()
    pynvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(info))
    return info


def fabric_health(mask: int, summary: int) -> str:
    """What is worst: unhealthy, misconfigured, recovering, limited; healthy; empty if the driver says nothing.

    A summary is in version 3 of the struct only; the mask says more.
    """
    if summary == pynvml.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY or mask >> _UNHEALTHY & _TWO == _TRUE:
        return "unhealthy"
    if mask >> _CONFIGURATION & _FOUR > pynvml.NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE:
        return "misconfigured"
    if _TRUE in (mask >> _RECOVERY & _TWO, mask >> _TIMEOUT & _TWO):
        return "recovering"
    if mask >> _BANDWIDTH & _TWO == _TRUE:
        return "limited"
    return _SUMMARY.get(summary, "healthy" if mask else "")


_BANDWIDTH = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW
_RECOVERY = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY
_UNHEALTHY = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY
_TIMEOUT = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY
_CONFIGURATION = pynvml.NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION
_TWO, _FOUR = 0x3, 0xF
"""Masks of two and four bits."""
_TRUE = 1
"""In two bits; 0 is not supported, 2 is false."""
