"""Network interfaces: features `network.device` (with hardware behind them) and `network.virtual`.

And the ports of RDMA devices: feature `rdma.device`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels, printable
from nfd.host import Host
from nfd.host.pcie import read_roots
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, gather, is_positive, place

DEVICE, VIRTUAL = "network.device", "network.virtual"
RDMA = "rdma.device"

INTERFACES = "sys/class/net"
RDMA_DEVICES = "sys/class/infiniband"
_NAMED_AFTER_ADDRESS = re.compile(r"(?:en|wl|ww|ib)x[0-9a-f]{12,}", re.ASCII)
"""systemd.net-naming-scheme(7)"""
NO_INTERFACE = "bonding_masters"
"""A control file of the bonding driver, the one entry that is no interface."""

FILES = {"operstate": "operstate", "speed": "speed", "mtu": "mtu"}
HARDWARE_FILES = {"sriov_numvfs": "device/sriov_numvfs", "sriov_totalvfs": "device/sriov_totalvfs"}


def discover(host: Host, config: Section) -> Features | Partial:
    """List the interfaces of the network namespace that sysfs belongs to.

    Reads: sys/class/net/*/{operstate,speed,mtu}  (kernel ABI/testing/sysfs-class-net),
    device/sriov_{numvfs,totalvfs} beside  (ABI/testing/sysfs-bus-pci), device/numa_node and the links of the folder;
    sys/class/infiniband/*/{fw_ver,ports/*/{link_layer,state,rate}}  (ABI/stable/sysfs-class-infiniband)
    Absent: no such directory means no feature; a value that the driver does not have now is left out.
    """
    devices, virtual = (partial(read_interfaces, hardware=hardware) for hardware in (True, False))
    return gather(host, {DEVICE: devices, VIRTUAL: virtual, RDMA: read_rdma})


def read_interfaces(reader: FeatureReader, *, hardware: bool) -> Features:
    """Interfaces with a device behind them, or all others; a dangling device link counts as none.

    Beyond NFD, with a device: `numa_node`, and `pcie_root`, such as `pci0000:64`.
    """
    host, files = reader.host, FILES | HARDWARE_FILES if hardware else FILES
    if not host.exists(INTERFACES):
        return Features()
    feature = DEVICE if hardware else VIRTUAL
    found: dict[str, Sequence[Instance]] = {}
    roots = read_roots(host, INTERFACES) if hardware else {}
    for name, has_device in host.each(INTERFACES, partial(_has_device, reader), "device"):
        folder = f"{INTERFACES}/{name}"
        if has_device == hardware:
            with reader.device(name):
                where = place(reader, f"{folder}/device/numa_node", roots.get(name, "")) if hardware else {}
                found[name] = [{"name": printable(name), **dict(reader.values(folder, files)), **where}]
    found |= reader.last(feature, found)
    return Features(instances={feature: tuple(chain(*found.values()))})


def _has_device(reader: FeatureReader, name: str) -> bool | None:
    """Whether there is hardware behind an interface, which never changes; None for what is no interface or unknown."""
    with reader.device(name):
        return None if name == NO_INTERFACE else reader.exists(f"{INTERFACES}/{name}/device")


def read_rdma(reader: FeatureReader) -> Features:
    """One instance for each port, without GUIDs and addresses.

    Attributes: `port`, `link_layer` (InfiniBand, Ethernet), `state` (ACTIVE, DOWN …), `rate` in Gb/s, `firmware`,
    `numa_node`, `pcie_root`, and `netdev`, the network interface of the device, unless it is named after an address.
    Absent: no such class means no feature.
    """
    if not reader.host.exists(RDMA_DEVICES):
        return Features()
    roots = read_roots(reader.host, RDMA_DEVICES)
    found: dict[str, Sequence[Instance]] = {}
    for name in reader.host.names(RDMA_DEVICES):
        with reader.device(name):
            found[name] = list(read_ports(reader, name, roots.get(name, "")))
    found |= reader.last(RDMA, found)
    return Features(instances={RDMA: tuple(chain(*found.values()))})


def read_ports(reader: FeatureReader, name: str, root: str) -> Iterator[Instance]:
    folder = f"{RDMA_DEVICES}/{name}"
    device = dict(reader.values(folder, {"firmware": "fw_ver"})) | place(reader, f"{folder}/device/numa_node", root)
    netdevs = [one for one in reader.names(f"{folder}/device/net") if not _NAMED_AFTER_ADDRESS.fullmatch(one)]
    if len(netdevs) == 1:
        device["netdev"] = printable(netdevs[0])
    for port in reader.names(f"{folder}/ports"):
        values = dict(reader.values(f"{folder}/ports/{port}", {name: name for name in ("link_layer", "state", "rate")}))
        if "state" in values:  # `4: ACTIVE`
            values["state"] = values["state"].rpartition(" ")[2]
        if "rate" in values:  # `400 Gb/sec (4X NDR)`
            values["rate"] = values["rate"].partition(" ")[0]
        yield {"port": printable(port), **device, **values}


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
