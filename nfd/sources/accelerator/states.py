"""What is wrong with accelerators, in the same words for all vendors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nfd.accelerators.vendors import Vendor
from nfd.features import Features, Instance
from nfd.sources.device_labels import whole_devices
from nfd.sources.feature_reader import FeatureReader
from nfd.sources.pci_functions import Function, first_value

DEVICE = "accelerator.device"
NO_DRIVER, DRIVER_ERROR, DEGRADED, VFIO = "no-driver", "driver-error", "degraded", "vfio"
LIVE = "live"


def read_state(reading: FeatureReader, function: Function, vendor: Vendor) -> str:
    """Of one device: `no-driver`, `driver-error`, `vfio`, or "" if it works.

    A device that has no driver, although the driver is there and has finished to look for devices, was refused by it.
    While the driver is being loaded, the device has none yet.
    """
    if function.is_passed:
        return "" if vendor.vfio else VFIO
    if not function.driver:
        return DRIVER_ERROR if any(_is_live(reading, one) for one in vendor.drivers) else NO_DRIVER
    return DRIVER_ERROR if vendor.status and _is_broken(reading, function, vendor) else ""


def _is_live(reading: FeatureReader, driver: str) -> bool:
    """Reads: sys/module/*/initstate (`coming`, `live`, `going`), which a driver that is built in does not have."""
    folder = f"sys/module/{driver.replace('-', '_')}"
    return reading.has_dir(folder) and reading.value(f"{folder}/initstate") in (None, LIVE)


def _is_broken(reading: FeatureReader, function: Function, vendor: Vendor) -> bool:
    if vendor.status is None:
        return False
    statuses = (first_value(reading, function.path, one) for one in vendor.status.files)
    return (next(filter(None, statuses), "") or "").lower() in vendor.status.bad


def state_of(devices: Sequence[Instance]) -> str:
    """Of a vendor's devices together; those that VFIO has are left to it unless it has all."""
    used = [one.get("state", "") for one in devices if one.get("state") != VFIO]
    if not used:
        return VFIO if devices else ""
    bad = [state for state in used if state]
    if not bad:
        return ""
    if len(bad) < len(used):
        return DEGRADED
    return NO_DRIVER if set(bad) == {NO_DRIVER} else DRIVER_ERROR


def count_failing(devices: Iterable[Instance]) -> int:
    return sum(one.get("state", "") in (NO_DRIVER, DRIVER_ERROR) for one in devices)


def count_devices(features: Features) -> dict[str, int]:
    """For metrics: devices on PCI, those that work, and those without a working driver."""
    devices = whole_devices(features.instances.get(DEVICE, ()))
    if not devices:
        return {}
    usable = sum(not one.get("state") for one in devices)
    return {"present": len(devices), "usable": usable, "failing": count_failing(devices)}
