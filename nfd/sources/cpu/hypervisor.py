"""What the machine runs on: `hypervisor` of `cpu.model`, `none` on bare metal.

x86 asks the processor, s390x its system information, on all others the firmware's own data decide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK
from nfd.sources.cpu.cpuid import EBX, ECX, EDX, HYPERVISOR_LEAF, VENDORS, Cpuid, text_of

UNNAMED = ""
"""Of a virtual machine whose hypervisor has no name in NFD."""
FIRMWARE = {
    "KVM": "kvm",
    "OpenStack": "kvm",
    "KubeVirt": "kvm",
    "Amazon EC2": "kvm",
    "QEMU": "kvm",
    "Google Compute Engine": "kvm",
    "VMware": "vmware",
    "VMW": "vmware",
    "Xen": "xenhvm",
    "BHYVE": "bhyve",
    "Hyper-V": "msvm",
    "Apple Virtualization": "apple",
    "innotek GmbH": UNNAMED,
    "VirtualBox": UNNAMED,
    "Bochs": UNNAMED,
    "Parallels": UNNAMED,
}
"""How a text of DMI begins in a virtual machine (systemd src/basic/virt.c, `dmi_vendor_table`), and NFD's name."""
DMI_TEXTS = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")
"""Those that systemd looks at, in its order."""
_METAL = re.compile(r"\.metal(?:-|$)", re.ASCII)
"""In the product name of an EC2 instance without a hypervisor, such as `c8g.metal-24xl`."""

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
    """`none` if DMI describes a machine and nothing says that it is a virtual one.

    None if it is unknown: no DMI, no Xen, no hypervisor node in the device tree, or a hypervisor without a name.
    Reads: sys/devices/virtual/dmi/id/{product_name,product_version,sys_vendor,board_vendor,bios_vendor},
    sys/hypervisor/type (kernel ABI/stable/sysfs-hypervisor-xen), hypervisor/compatible of the device tree
    """
    dmi = {name: host.value(f"{_DMI}/{name}") or "" for name in DMI_TEXTS}
    found = [_of_firmware(dmi), _of_kernel(host), _of_device_tree(host)]
    if named := next(filter(None, found), None):
        return named
    return NONE if UNNAMED not in found and (dmi["sys_vendor"] or dmi["product_name"]) else None


def _of_firmware(dmi: Mapping[str, str]) -> str | None:
    """None if that does not say that the machine is virtual, as for the two functions below."""
    if dmi["sys_vendor"].startswith("Microsoft") and dmi["product_name"] == "Virtual Machine":
        return "msvm"
    texts = [dmi[name] for name in DMI_TEXTS]
    found = next((name for text in texts for start, name in FIRMWARE.items() if text.startswith(start)), None)
    return None if _is_metal(dmi) else found


def _is_metal(dmi: Mapping[str, str]) -> bool:
    """Whether it is an instance of EC2 without a hypervisor."""
    return "Amazon EC2" in dmi.values() and _METAL.search(dmi["product_name"]) is not None


def _of_kernel(host: Host) -> str | None:
    kind = host.value("sys/hypervisor/type")
    return "xenhvm" if kind == "xen" else UNNAMED if kind else None


def _of_device_tree(host: Host) -> str | None:
    texts = [host.value(f"{tree}/hypervisor/compatible") or "" for tree in _TREES]
    names = list(filter(None, "\0".join(texts).split("\0")))
    found = (name for start, name in DEVICE_TREE if any(one.startswith(start) for one in names))
    return next(found, UNNAMED if names else None)
