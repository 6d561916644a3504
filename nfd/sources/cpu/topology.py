"""`cpu.topology` and `cpu.coretype`: threads per core, sockets, and the kinds of cores of a hybrid processor."""

from __future__ import annotations

import re

from nfd.features import printable
from nfd.host import Host

DEVICES = "sys/bus/cpu/devices"
MONITORS = "sys/devices"
CORE_TYPE = "cpu_"
_NUMBER = re.compile(r"cpu(\d{1,6})", re.ASCII)
_RANGE = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?", re.ASCII)

Ranges = tuple[tuple[int, int], ...]


def read_topology(host: Host) -> dict[str, str]:
    """Elements `hardware_multithreading` (true, false) and `socket_count`; none if no CPU reports it.

    A CPU that is offline has no topology and is left out. One package's list of CPUs spares reading the package of
    each of them, and one core with two threads settles the first question, so a large machine costs a few files.

    Reads: sys/bus/cpu/devices/cpu*/topology/{thread_siblings_list,physical_package_id,package_cpus_list} (kernel
    Documentation/admin-guide/cputopology.rst)
    """
    if not host.exists(DEVICES):
        return {}
    names = host.names(DEVICES)
    threads, packages = False, dict[str, Ranges]()
    for name in names:
        package = _package_of(name, packages)
        if package is not None and threads:
            continue
        path = f"{DEVICES}/{name}/topology"
        siblings = host.value(f"{path}/thread_siblings_list")
        identity = package if package is not None else host.value(f"{path}/physical_package_id")
        if siblings is None or identity is None:
            continue
        threads = threads or "," in siblings or "-" in siblings
        if identity not in packages:
            packages[identity] = parse_ranges(host.value(f"{path}/package_cpus_list") or "")
    if names and not packages:
        return {}
    return {"hardware_multithreading": str(threads).lower(), "socket_count": str(len(packages))}


def read_core_types(host: Host) -> frozenset[str]:
    """`cpu_core`, `cpu_atom`, `cpu_lowpower` …: the performance monitors of a hybrid processor's kinds of cores.

    Reads: sys/devices/cpu_*/cpus (kernel ABI/testing/sysfs-bus-event_source-devices)
    """
    names = (printable(name) for name in host.names(MONITORS) if name.startswith(CORE_TYPE))
    return frozenset(name for name in names if host.value(f"{MONITORS}/{name}/cpus") is not None)


def parse_ranges(text: str) -> Ranges:
    """The kernel's list of CPUs (`0-3,8`) as inclusive ranges; what is no range is ignored."""
    found = (_RANGE.fullmatch(part) for part in text.split(","))
    return tuple((int(one[1]), int(one[2] or one[1])) for one in found if one)


def _package_of(name: str, packages: dict[str, Ranges]) -> str | None:
    """The package whose list has this CPU."""
    found = _NUMBER.fullmatch(name)
    if found is None:
        return None
    number = int(found[1])
    return next((key for key, ranges in packages.items() if any(low <= number <= high for low, high in ranges)), None)
