"""Memory: NUMA nodes, tiers, swap, persistent memory and huge pages.

Features `memory.numa`, `memory.swap`, `memory.hugepages` (attributes), `memory.nv` and `memory.tier` (instances).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels, printable
from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK
from nfd.quantity import scaled
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, attributes, gather, is_positive

NUMA, SWAP, NV, HUGEPAGES = "memory.numa", "memory.swap", "memory.nv", "memory.hugepages"
TIER = "memory.tier"

NODES = "sys/bus/node/devices"
NVDIMMS = "sys/bus/nd/devices"
TIERS = "sys/devices/virtual/memory_tiering"
PAGE_SIZES = "sys/kernel/mm/hugepages"

_LARGEST = (1 << 63) - 1
"""Bytes that a quantity of Kubernetes can hold."""
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def discover(host: Host, config: Section) -> Features | Partial:
    """Read what the kernel reports about memory."""
    parts = {NUMA: read_numa, SWAP: read_swap, NV: read_nvdimms, HUGEPAGES: read_hugepages, TIER: read_tiers}
    return gather(host, parts)


def read_numa(reader: FeatureReader) -> Features:
    """`is_numa` and `node_count`.

    Reads: sys/bus/node/devices, one entry per memory node  (kernel ABI/stable/sysfs-devices-node)
    Absent: a kernel without NUMA has no such directory, and then there is no feature.
    """
    if not reader.host.exists(NODES):
        return Features()
    count = len(reader.host.names(NODES))
    return attributes(NUMA, {"is_numa": _flag(count > 1), "node_count": str(count)})


def read_swap(reader: FeatureReader) -> Features:
    """`enabled`: whether any swap area is in use. Beyond NFD `kind`: partition, file, zram, or mixed.

    Reads: proc/swaps, a header and one line per area  (proc(5))
    """
    text = reader.host.text("proc/swaps")
    if text is None:
        return Features()
    lines = [line for line in text.split("\n") if line.strip(BLANK)]
    kinds = {swap_kind(line) for line in lines[1:]}
    kind = {"kind": kinds.pop() if len(kinds) == 1 else "mixed"} if kinds else {}
    return attributes(SWAP, {"enabled": _flag(len(lines) > 1), **kind})


def swap_kind(line: str) -> str:
    """The kind of one area: `/dev/zram0  partition  8388604  0  100`."""
    name, kind = [*line.split(), "", ""][:2]
    return "zram" if name.startswith("/dev/zram") else kind


def read_tiers(reader: FeatureReader) -> Features:
    """Memory by speed, such as DRAM and CXL memory: `name`, `memory_tier4`, and `nodes`, the NUMA nodes of the tier.

    Reads: sys/devices/virtual/memory_tiering/memory_tier*/nodelist  (kernel ABI/testing/sysfs-kernel-mm-memory-tiers)
    Absent: a kernel without tiers has no such directory, and then there is no feature.
    """
    if not reader.host.exists(TIERS):
        return Features()
    names = [name for name in reader.host.names(TIERS) if name.startswith("memory_tier")]
    return Features(instances={TIER: read_named(reader, TIER, TIERS, names, {"nodes": "nodelist"})})


def read_nvdimms(reader: FeatureReader) -> Features:
    """Every device of the NVDIMM bus, regions and buses too: `name`, and `devtype`, `mode` where it has them.

    Reads: sys/bus/nd/devices/*/{devtype,mode}  (kernel ABI/removed/sysfs-bus-nfit, driver-api/nvdimm)
    Absent: no such bus is an empty list.
    """
    files = {"devtype": "devtype", "mode": "mode"}
    return Features(instances={NV: read_named(reader, NV, NVDIMMS, reader.host.names(NVDIMMS), files)})


def read_named(
    reader: FeatureReader, feature: str, folder: str, names: Iterable[str], files: Mapping[str, str]
) -> tuple[Instance, ...]:
    """`name`, and the values of these files, of these entries of a folder."""
    found: dict[str, Sequence[Instance]] = {}
    for name in names:
        with reader.device(name):
            found[name] = [{"name": printable(name), **dict(reader.values(f"{folder}/{name}", files))}]
    found |= reader.last(feature, found)
    return tuple(chain(*found.values()))


def read_hugepages(reader: FeatureReader) -> Features:
    """`enabled`, and the number of reserved pages of each size as `hugepages-<size>` (`2Mi`, `1Gi`).

    Reads: sys/kernel/mm/hugepages/hugepages-<n>kB/nr_hugepages  (kernel ABI/testing/sysfs-kernel-mm-hugepages)
    Absent: a kernel without huge pages says enabled=false; a size without a count has an empty one.
    """
    counts: dict[str, str] = {}
    enabled = False
    for name in reader.host.folders(PAGE_SIZES):
        folder = f"{PAGE_SIZES}/{name}"
        size = page_size(name)
        if size is None:
            reader.host.note(printable(folder), "is not named after a page size")
            continue
        count = counts[f"hugepages-{size}"] = reader.value(f"{folder}/nr_hugepages") or ""
        enabled = enabled or is_positive(count)
    return attributes(HUGEPAGES, {"enabled": _flag(enabled), **counts})


def page_size(name: str) -> str | None:
    """The size in a directory's name as Kubernetes writes quantities (`hugepages-2048kB` → `2Mi`), None without one."""
    amount = scaled(f"{name.removeprefix('hugepages-').rstrip('kB') or 0}Ki")
    if amount is None or not amount.is_whole:
        return None
    size, unit = min((amount.digits << amount.twos) // 10**-amount.tens, _LARGEST), 0
    while size and size % 1024 == 0 and unit < len(_UNITS) - 1:
        size, unit = size // 1024, unit + 1
    return f"{size}{_UNITS[unit]}" if size else "0"


def labels(features: Features, config: Section) -> Labels:
    """Each `true` or missing.

    Labels:
        numa = true: the machine has several NUMA nodes
        swap = true: swap space is in use
        nv.present = true: a non-volatile memory device is there
        nv.dax = true: a non-volatile memory device is set up for direct access
    """
    devices: tuple[Instance, ...] = features.instances.get(NV, ())
    conditions = {
        "numa": features.attributes.get(NUMA, {}).get("is_numa") == "true",
        "swap": features.attributes.get(SWAP, {}).get("enabled") == "true",
        "nv.present": bool(devices),
        "nv.dax": any(device.get("devtype") == "nd_dax" for device in devices),
    }
    return {name: "true" for name, holds in conditions.items() if holds}


def _flag(value: bool) -> str:
    return "true" if value else "false"


SOURCE = Source("memory", Section, discover, labels, wakes=frozenset({"memory", "nd"}))
