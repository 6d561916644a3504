"""Network interfaces: features `network.device` (with hardware behind them) and `network.virtual`."""

from __future__ import annotations

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, gather, is_positive

DEVICE, VIRTUAL = "network.device", "network.virtual"

INTERFACES = "sys/class/net"
NO_INTERFACE = "bonding_masters"
"""A control file of the bonding driver, the one entry that is no interface."""

FILES = {"operstate": "operstate", "speed": "speed", "mtu": "mtu"}
HARDWARE_FILES = {"sriov_numvfs": "device/sriov_numvfs", "sriov_totalvfs": "device/sriov_totalvfs"}


def discover(host: Host, config: Section) -> Features | Partial:
    """List the interfaces of the network namespace that sysfs belongs to.

    Reads: sys/class/net/*/{operstate,speed,mtu}  (kernel ABI/testing/sysfs-class-net),
    device/sriov_{numvfs,totalvfs} beside  (ABI/testing/sysfs-bus-pci)
    Absent: no such directory means no feature; a value that the driver does not have now is left out.
    """
    return gather(host, {DEVICE: read_devices, VIRTUAL: read_virtual})


def read_devices(reader: FeatureReader) -> Features:
    """Interfaces with a device behind them."""
    return _read(reader, DEVICE, FILES | HARDWARE_FILES, hardware=True)


def read_virtual(reader: FeatureReader) -> Features:
    """All others; a dangling device link counts as none."""
    return _read(reader, VIRTUAL, FILES, hardware=False)


def _read(reader: FeatureReader, feature: str, files: dict[str, str], *, hardware: bool) -> Features:
    host = reader.host
    if not host.exists(INTERFACES):
        return Features()
    found: list[Instance] = []
    for name in host.names(INTERFACES):
        folder = f"{INTERFACES}/{name}"
        if name != NO_INTERFACE and reader.has(f"{folder}/device") == hardware:
            found.append({"name": printable(name), **dict(reader.values(folder, files))})
    return Features(instances={feature: tuple(found)})


def labels(features: Features, config: Section) -> Labels:
    """Each `true` or missing.

    Labels:
        sriov.capable = true: a network device can have virtual functions
        sriov.configured = true: a network device has virtual functions
    """
    devices = features.instances.get(DEVICE, ())
    files = {"sriov.capable": "sriov_totalvfs", "sriov.configured": "sriov_numvfs"}
    return {name: "true" for name, key in files.items() if any(is_positive(one.get(key)) for one in devices)}


SOURCE = Source("network", Section, discover, labels, wakes=frozenset({"net"}))
