"""What the machine runs on: `hypervisor` of `cpu.model`, `none` on bare metal.

x86 asks the processor, s390x its system information, on all others the firmware's own data decide.
"""

from __future__ import annotations

import re

from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK
from nfd.sources.cpu.cpuid import EBX, ECX, EDX, HYPERVISOR_LEAF, VENDORS, Cpuid, text_of

FIRMWARE = (
    ("QEMU", "kvm"),
    ("KVM", "kvm"),
    ("KubeVirt", "kvm"),
    ("Google", "kvm"),
    ("VMware", "vmware"),
)
"""How DMI's vendor or product name begins in a virtual machine, as systemd-detect-virt reads it."""

DEVICE_TREE = (("linux,kvm", "kvm"), ("kvm", "kvm"), ("xen", "xenhvm"), ("vmware", "vmware"))
"""How a name in the device tree's `hypervisor/compatible` begins."""

NONE = "none"
UNKNOWN = "unknown"
_DMI = "sys/devices/virtual/dmi/id"
_TREES = ("proc/device-tree", "sys/firmware/devicetree/base")
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


def sanitize(text: str) -> str:
    """Each run of characters that no label value may hold becomes one `_`."""
    return _ILLEGAL.sub("_", text)


def read_x86(host: Host, cpuid: Cpuid) -> str:
    """Leaf 1 ECX bit 31 says that there is one, leaf 40000000 which; /proc/cpuinfo knows only the former."""
    if not cpuid.has(1) or not cpuid.bit(1, ECX, 31):
        return NONE
    if not cpuid.exact:
        evidence = read_evidence(host)
        return evidence if evidence and evidence != NONE else UNKNOWN
    registers = cpuid.registers(HYPERVISOR_LEAF)
    text = text_of(registers[EBX], registers[ECX], registers[EDX])
    return VENDORS.get(text, "").lower() or sanitize(text) or UNKNOWN


def read_s390x(host: Host) -> str | None:
    """The control program of the innermost virtual machine; None if there is no system information.

    Reads: proc/sysinfo
    """
    text = host.value("proc/sysinfo")
    if text is None:
        return None
    for line in text.split("\n"):
        if "Control Program:" in line:
            return sanitize(line.partition(":")[2].strip(BLANK)) or NONE
    return NONE


def read_evidence(host: Host) -> str | None:
    """None if it is unknown: no DMI, no Xen, no hypervisor node in the device tree.

    Reads: sys/devices/virtual/dmi/id/{sys_vendor,product_name}, sys/hypervisor/type (kernel
    ABI/stable/sysfs-hypervisor-xen), hypervisor/compatible of the device tree
    """
    vendor = host.value(f"{_DMI}/sys_vendor") or ""
    product = host.value(f"{_DMI}/product_name") or ""
    if found := _of_firmware(vendor, product):
        return found
    if host.value("sys/hypervisor/type") == "xen":
        return "xenhvm"
    if found := _of_device_tree(host):
        return found
    return NONE if vendor or product else None


def _of_firmware(vendor: str, product: str) -> str | None:
    if vendor.startswith("Microsoft") and product == "Virtual Machine":
        return "msvm"
    if "Amazon EC2" in (vendor, product):
        return None if product.endswith(".metal") else "kvm"
    return next((name for prefix, name in FIRMWARE if vendor.startswith(prefix) or product.startswith(prefix)), None)


def _of_device_tree(host: Host) -> str | None:
    for tree in _TREES:
        names = (host.value(f"{tree}/hypervisor/compatible") or "").split("\0")
        for prefix, name in DEVICE_TREE:
            if any(one.startswith(prefix) for one in names):
                return name
    return None
