"""Two NUMA nodes of four cores with two threads each, in sysfs as the kernel lays it out.

Kernel ABI/stable/sysfs-devices-node, ABI/testing/sysfs-kernel-mm-hugepages.
"""

from __future__ import annotations

from pathlib import Path

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

CPUS = {0: "0-3,8-11", 1: "4-7,12-15"}
DISTANCES = {0: "10 21", 1: "21 10"}
HUGEPAGES = {0: {2048: 512, 1048576: 4}, 1: {2048: 512, 1048576: 0}}


def write_machine(root: Path, *, numa: bool = True) -> Path:
    """The files below `root`; without `numa` as a kernel without CONFIG_NUMA has them."""
    files = {
        "sys/devices/system/cpu/online": "0-15\n",
        "proc/meminfo": f"MemTotal:       {64 * MIB} kB\nMemFree: 1 kB\n",
    }
    files |= {f"sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages": "8\n" for size in (2048, 1048576)}
    for number in CPUS if numa else ():
        node = f"sys/devices/system/node/node{number}"
        files[f"{node}/cpulist"] = f"{CPUS[number]}\n"
        files[f"{node}/distance"] = f"{DISTANCES[number]}\n"
        files[f"{node}/meminfo"] = f"\nNode {number} MemTotal:       {32 * MIB} kB\nNode {number} MemFree:  1 kB\n"
        for size, count in HUGEPAGES[number].items():
            files[f"{node}/hugepages/hugepages-{size}kB/nr_hugepages"] = f"{count}\n"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root
