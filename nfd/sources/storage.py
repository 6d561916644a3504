"""Block devices: feature `storage.block`, one instance per device, loop and RAM devices included."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels, printable
from nfd.host import Host
from nfd.host.blanks_and_numbers import parse_decimal
from nfd.host.pcie import of_links
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, gather

BLOCK = "storage.block"

DEVICES = "sys/block"
FILES = {name: f"queue/{name}" for name in ("dax", "rotational", "nr_zones", "zoned")}

DISK_FILES = {"size": "size", "removable": "removable", "model": "device/model"}
SECTOR = 512
"""Bytes of a sector in `size`, whatever the disk has."""
NVME, UNKNOWN = "nvme", "unknown"
TRANSPORTS = {
    "/usb": "usb",
    "/ata": "sata",
    "/end_device-": "sas",
    "/session": "iscsi",
    "/rport-": "fc",
    "/virtio": "virtio",
    "/vbd-": "xen",
    "/mmc": "mmc",
    "/VMBUS:": "hyperv",
}
"""Parts of the path of a disk in sys/devices, the first that is in it counts (kernel driver-api/scsi.rst)."""


def discover(host: Host, config: Section) -> Features | Partial:
    """List the block devices.

    Reads: sys/block/*/queue/{dax,rotational,nr_zones,zoned}, and the links in the folder; of those that are no virtual
    devices also size, removable and device/{model,transport}  (kernel ABI/stable/sysfs-block)
    Absent: no such directory means no feature; a value that is not there is left out.
    """
    return gather(host, {BLOCK: read_devices})


def read_devices(reader: FeatureReader) -> Features:
    """`name`, and the attributes of its queue.

    Beyond NFD, of disks: `size` in bytes, `removable` (0, 1), `model`, and `transport` (nvme, nvme-tcp, sata, sas, usb,
    virtio …).
    """
    if not reader.host.exists(DEVICES):
        return Features()
    transports = of_links(reader.host, "transports", DEVICES, transport_of)
    found: dict[str, Sequence[Instance]] = {}
    for name in reader.host.names(DEVICES):
        with reader.device(name):
            queue = dict(reader.values(f"{DEVICES}/{name}", FILES))
            disk = read_disk(reader, name, transports[name]) if name in transports else {}
            found[name] = [{"name": printable(name), **queue, **disk}]
    found |= reader.last(BLOCK, found)
    return Features(instances={BLOCK: tuple(chain(*found.values()))})


def read_disk(reader: FeatureReader, name: str, transport: str) -> dict[str, str]:
    """What only a disk has."""
    disk = dict(reader.values(f"{DEVICES}/{name}", DISK_FILES))
    sectors = parse_decimal(disk.pop("size", ""))
    if sectors is not None:
        disk["size"] = str(sectors * SECTOR)
    if transport == NVME and (fabric := reader.value(f"{DEVICES}/{name}/device/transport")) not in (None, "pcie"):
        transport = f"{NVME}-{fabric}"
    return disk if transport == UNKNOWN else {**disk, "transport": transport}


def transport_of(name: str, target: str) -> str:
    """How a disk is attached, by where its link leads; empty for a virtual device."""
    if name.startswith(NVME):
        return NVME
    if "/devices/virtual/" in target or "/" not in target:
        return ""
    return next((transport for part, transport in TRANSPORTS.items() if part in target), UNKNOWN)


def labels(features: Features, config: Section) -> Labels:
    """When any device says rotational=0.

    Labels:
        nonrotationaldisk = true: a block device does not rotate, such as an SSD
    """
    still = any(device.get("rotational") == "0" for device in features.instances.get(BLOCK, ()))
    return {"nonrotationaldisk": "true"} if still else {}


SOURCE = Source("storage", Section, discover, labels, wakes=frozenset({"block"}))
