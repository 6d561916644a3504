"""Block devices: feature `storage.block`, one instance per device, loop and RAM devices included."""

from __future__ import annotations

from nfd.config.section import Section
from nfd.features import Features, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, gather

BLOCK = "storage.block"

DEVICES = "sys/block"
FILES = {name: f"queue/{name}" for name in ("dax", "rotational", "nr_zones", "zoned")}


def discover(host: Host, config: Section) -> Features | Partial:
    """List the block devices.

    Reads: sys/block/*/queue/{dax,rotational,nr_zones,zoned}  (kernel ABI/stable/sysfs-block)
    Absent: no such directory means no feature; a value that is not there is left out.
    """
    return gather(host, {BLOCK: read_devices})


def read_devices(reader: FeatureReader) -> Features:
    """`name`, and the attributes of its queue."""
    if not reader.host.exists(DEVICES):
        return Features()
    found = (
        {"name": printable(name), **dict(reader.values(f"{DEVICES}/{name}", FILES))}
        for name in reader.host.names(DEVICES)
    )
    return Features(instances={BLOCK: tuple(found)})


def labels(features: Features, config: Section) -> Labels:
    """When any device says rotational=0.

    Labels:
        nonrotationaldisk = true: a block device does not rotate, such as an SSD
    """
    still = any(device.get("rotational") == "0" for device in features.instances.get(BLOCK, ()))
    return {"nonrotationaldisk": "true"} if still else {}


SOURCE = Source("storage", Section, discover, labels, wakes=frozenset({"block"}))
