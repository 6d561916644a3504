"""`cpu.rdt`: Intel Resource Director Technology, cache and memory bandwidth monitoring and allocation."""

from __future__ import annotations

from nfd.errors import HostError
from nfd.host import DENIED, Host
from nfd.host.blanks_and_numbers import parse_decimal
from nfd.sources.cpu.cpuid import EBX, EDX, Cpuid

_RESCTRL = "sys/fs/resctrl"
_MOUNTS = "proc/self/mountinfo"
_CLOSIDS = "info/L3/num_closids"


def read_rdt(host: Host, cpuid: Cpuid) -> dict[str, str]:
    """Elements are `true`, but for `RDTL3CA_NUM_CLOSID`: the classes of service besides the default one.

    Reads: CPUID leaves 7, F and 10; info/L3/num_closids of the resctrl file system (kernel arch/x86/resctrl.rst)
    """
    found = derive_rdt(cpuid)
    if "RDTL3CA" in found and (classes := _classes(host)) is not None:
        found["RDTL3CA_NUM_CLOSID"] = classes
    return found


def derive_rdt(cpuid: Cpuid) -> dict[str, str]:
    """Monitoring: leaf 7 EBX 12 and leaf F; allocation: leaf 7 EBX 15 and leaf 10."""
    monitoring = cpuid.bit(7, EBX, 12) and cpuid.bit(0xF, EDX, 1)
    allocation = cpuid.bit(7, EBX, 15)
    bandwidth = cpuid.bit(0xF, EDX, 1, subleaf=1) and cpuid.bit(0xF, EDX, 2, subleaf=1)
    present = {
        "RDTMON": monitoring,
        "RDTCMT": monitoring and cpuid.bit(0xF, EDX, 0, subleaf=1),
        "RDTMBM": monitoring and bandwidth,
        "RDTL3CA": allocation and cpuid.bit(0x10, EBX, 1),
        "RDTL2CA": allocation and cpuid.bit(0x10, EBX, 2),
        "RDTMBA": allocation and cpuid.bit(0x10, EBX, 3),
    }
    return {name: "true" for name, there in present.items() if there}


def _classes(host: Host) -> str | None:
    text = host.value(f"{_RESCTRL}/{_CLOSIDS}")
    if text is None and _is_known(host) and (mount := _mounted_elsewhere(host.value(_MOUNTS) or "")):
        text = host.value(f"{mount}/{_CLOSIDS}")
    classes = parse_decimal(text or "")
    return str(classes - 1) if classes and classes > 0 else None


def _is_known(host: Host) -> bool:
    """Whether the kernel has the file system; without permission to check, it cannot be read either."""
    try:
        return host.exists(_RESCTRL)
    except HostError as error:
        if error.errno not in DENIED:
            raise
        return False


def _mounted_elsewhere(mountinfo: str) -> str | None:
    """The first mount point of type resctrl (proc_pid_mountinfo(5): after ` - ` comes the type)."""
    for line in mountinfo.splitlines():
        mount, _, rest = line.partition(" - ")
        if rest.split(" ")[0] == "resctrl" and len(fields := mount.split(" ")) > 4:
            return fields[4]
    return None
