"""NUMA nodes of the machine, from sysfs (kernel ABI/stable/sysfs-devices-node)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nfd.errors import HostError
from nfd.host import Host
from nfd.host.blanks_and_numbers import parse_natural

NODES = "sys/devices/system/node"
CPUS = "sys/devices/system/cpu/online"
MEMINFO = "proc/meminfo"
HUGEPAGES = "sys/kernel/mm/hugepages"
HYBRID = "sys/devices"

_NODE = re.compile(r"node(\d{1,5})", re.ASCII)
_HUGEPAGES = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)
_MEM_TOTAL = re.compile(r"MemTotal:\s+(\d{1,15}) kB", re.ASCII)
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_PREFIXES = ("Ki", "Mi", "Gi", "Ti")


@dataclass(frozen=True, slots=True)
class NumaNode:
    """`distances` to other nodes by their number, `memory` in bytes by resource (`memory`, `hugepages-2Mi`)."""

    number: int
    cpus: frozenset[int] = frozenset()
    distances: Mapping[int, int] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)


def read_nodes(host: Host) -> tuple[NumaNode, ...]:
    """The nodes, by number.

    Reads: sys/devices/system/node/node<N>/{cpulist,distance,meminfo}, …/hugepages/hugepages-<KiB>kB/nr_hugepages.
    Absent: a kernel without NUMA has all in one node 0, as for the kubelet. Raises: HostError.
    """
    numbers = sorted(int(found[1]) for name in host.names(NODES) if (found := _NODE.fullmatch(name)))
    if not numbers:
        memory = _memory(host, MEMINFO, HUGEPAGES)
        return (NumaNode(0, cpu_list(host.text(CPUS) or "", CPUS), {0: 10}, memory),)
    return tuple(_read_node(host, number, numbers) for number in numbers)


def read_hybrid(host: Host) -> dict[str, str]:
    """CPU lists of the kinds of cores where there are several: `cpu_core` → `0-15`, `cpu_atom` → `16-23`.

    Reads: sys/devices/cpu_*/cpus  (kernel ABI/testing/sysfs-devices-system-cpu, hybrid PMUs)
    """
    names = (name for name in host.names(HYBRID) if name.startswith("cpu_"))
    found = {name: host.value(f"{HYBRID}/{name}/cpus") for name in names}
    return {name: cpus for name, cpus in found.items() if cpus}


def cpu_list(text: str, path: str) -> frozenset[int]:
    """`0-3,8` as a set (kernel core-api/printk-formats, `%*pbl`). Raises: HostError."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        found = _RANGE.fullmatch(part)
        if found is None:
            raise HostError(path, f"{part[:40]!r} is no CPU number or range")
        cpus |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(cpus)


def _read_node(host: Host, number: int, numbers: list[int]) -> NumaNode:
    """The distances are those to the nodes that are online, in their order."""
    folder = f"{NODES}/node{number}"
    cpus = cpu_list(host.text(f"{folder}/cpulist") or "", f"{folder}/cpulist")
    words = (host.text(f"{folder}/distance") or "").split()
    distances = [found for word in words if (found := parse_natural(word)) is not None]
    if len(distances) != len(words) or len(words) not in (0, len(numbers)):
        raise HostError(f"{folder}/distance", f"are not {len(numbers)} numbers")
    memory = _memory(host, f"{folder}/meminfo", f"{folder}/hugepages")
    return NumaNode(number, cpus, dict(zip(numbers, distances, strict=False)), memory)


def _memory(host: Host, meminfo: str, hugepages: str) -> dict[str, int]:
    """Bytes by resource."""
    memory: dict[str, int] = {}
    if (text := host.text(meminfo)) is not None:
        found = _MEM_TOTAL.search(text)
        if found is None:
            raise HostError(meminfo, "has no MemTotal")
        memory["memory"] = int(found[1]) * 1024
    for name in host.names(hugepages):
        if (size := _HUGEPAGES.fullmatch(name)) is None:
            continue
        path = f"{hugepages}/{name}/nr_hugepages"
        text = (host.text(path) or "0").strip()
        if (count := parse_natural(text)) is None:
            raise HostError(path, f"{text[:40]!r} is no number")
        memory[hugepage_resource(int(size[1]))] = count * int(size[1]) * 1024
    return memory


def hugepage_resource(kib: int) -> str:
    """`hugepages-2Mi` for 2048: the size as Kubernetes writes it, in the greatest unit that divides it."""
    unit = 0
    while kib and kib % 1024 == 0 and unit < len(_PREFIXES) - 1:
        kib, unit = kib // 1024, unit + 1
    return f"hugepages-{kib}{_PREFIXES[unit]}"
