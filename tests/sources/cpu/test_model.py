"""Who made the processor, and what the machine runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.sources.cpu import SOURCE, hypervisor, model
from nfd.sources.cpu.cpuid import HYPERVISOR_LEAF, VENDORS, Cpuid, format_cpuid, text_of
from tests.sources.cpu.machines import machine, signature, vendor_leaf
from tests.sources.hosts import make_host

DMI = "sys/devices/virtual/dmi/id"
MIDR = "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
GUEST = {(1, 0): (0, 0, 1 << 31, 0)}


def model_of(root: Path, files: dict[str, str]) -> dict[str, str]:
    host = make_host(root, files)
    return dict(SOURCE.discover(host, SOURCE.config()).attributes["cpu.model"])


@pytest.mark.parametrize(
    ("text", "name"),
    [*VENDORS.items(), ("  Shanghai  ", "VendorUnknown"), ("genuineintel", "VendorUnknown"), ("", "VendorUnknown")],
)
def test_vendor(text: str, name: str) -> None:
    assert Cpuid({(0, 0): vendor_leaf(text, 1)}).vendor == name


def test_vendor_names() -> None:
    processors = {"Intel", "AMD", "Hygon", "VIA", "Transmeta", "NSC", "SiS", "RDC"}
    hypervisors = {"KVM", "QEMU", "MSVM", "VMware", "XenHVM", "Bhyve", "QNX", "ACRN", "SRE", "Apple"}
    assert set(VENDORS.values()) == processors | hypervisors


@pytest.mark.parametrize(
    ("eax", "family", "id_"),
    [
        (0x000806F8, 6, 143),
        (0x00000F61, 15, 6),
        (0x00A00F11, 25, 1),
        (0x00B10F10, 26, 17),
        (0x000F0673, 6, 247),
        (0x000F0773, 7, 7),
        (0x00000543, 5, 4),
        (0x0FF00F00, 270, 0),
        (0xFFFFFFFF, 270, 255),
    ],
)
def test_family_and_model(eax: int, family: int, id_: int) -> None:
    found = Cpuid({(0, 0): (1, 0, 0, 0), (1, 0): (eax, 0, 0, 0)})
    assert (found.family, found.model) == (family, id_)
    without = Cpuid({(1, 0): (eax, 0, 0, 0)})
    assert (without.family, without.model) == (0, 0)


@given(st.integers(0, 270), st.integers(0, 255))
def test_signature(family: int, id_: int) -> None:
    found = Cpuid({(0, 0): (1, 0, 0, 0), (1, 0): (signature(family, id_), 0, 0, 0)})
    assert found.family == family
    assert found.model == (id_ if family == 6 or family >= 15 else id_ & 0xF)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("KVMKVMKVM", "kvm"),
        ("Linux KVM Hv", "kvm"),
        ("TCGTCGTCGTCG", "qemu"),
        ("Microsoft Hv", "msvm"),
        ("VMwareVMware", "vmware"),
        ("XenVMMXenVMM", "xenhvm"),
        ("bhyve bhyve ", "bhyve"),
        ("QNXQVMBSQG", "qnx"),
        ("ACRNACRNACRN", "acrn"),
        ("SRESRESRESRE", "sre"),
        ("Apple VZ", "apple"),
        ("GenuineIntel", "intel"),
        ("", "unknown"),
        ("Cloud HV 2", "Cloud_HV_2"),
        ("///", "_"),
        ("Jailhouse\0\0\0", "Jailhouse"),
        ("\xff\xfe", "_"),
    ],
)
def test_hypervisor_of_x86(tmp_path: Path, text: str, name: str) -> None:
    data = text.encode("latin-1").ljust(12, b"\0")
    ebx, ecx, edx = (int.from_bytes(data[start : start + 4], "little") for start in (0, 4, 8))
    guest = machine(leaves={**GUEST, (HYPERVISOR_LEAF, 0): (0x40000001, ebx, ecx, edx)})
    assert model_of(tmp_path, {"cpuid": format_cpuid(guest)})["hypervisor"] == name
    bare = machine(leaves={(HYPERVISOR_LEAF, 0): (0x40000001, ebx, ecx, edx)})
    assert hypervisor.read_x86(make_host(tmp_path, {}), bare) == "none"


def test_text_of_registers() -> None:
    assert text_of(0x4B4D564B, 0x564B4D56, 0x0000004D) == "KVMKVMKVM"
    assert text_of() == ""


CPUINFO_GUEST = "vendor_id\t: GenuineIntel\nflags\t\t: fpu hypervisor\n\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/cpuinfo": CPUINFO_GUEST}, "unknown"),
        ({"proc/cpuinfo": CPUINFO_GUEST, f"{DMI}/sys_vendor": "QEMU\n"}, "kvm"),
        ({"proc/cpuinfo": CPUINFO_GUEST, f"{DMI}/sys_vendor": "Dell Inc.\n"}, "unknown"),
        ({"proc/cpuinfo": "vendor_id\t: GenuineIntel\nflags\t\t: fpu\n", f"{DMI}/sys_vendor": "QEMU\n"}, "none"),
    ],
)
def test_hypervisor_without_cpuid(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    assert model_of(tmp_path, files)["hypervisor"] == expected


def dmi(vendor: str, product: str) -> dict[str, str]:
    return {f"{DMI}/sys_vendor": f"{vendor}\n", f"{DMI}/product_name": f"{product}\n"}


TREE = "hypervisor/compatible"


@pytest.mark.parametrize("arch", ["aarch64", "armv7l", "ppc64le", "riscv64"])
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (dmi("QEMU", "QEMU Virtual Machine"), "kvm"),
        (dmi("Red Hat", "KVM"), "kvm"),
        (dmi("KubeVirt", "None"), "kvm"),
        (dmi("Google", "Google Compute Engine"), "kvm"),
        (dmi("Amazon EC2", "m6g.large"), "kvm"),
        (dmi("Amazon EC2", "a1.metal"), "none"),
        (dmi("Amazon EC2", "c8g.metal-24xl"), "none"),
        (dmi("OpenStack Foundation", "OpenStack Nova"), "kvm"),
        (dmi("Apple Inc.", "Apple Virtualization Generic Platform"), "apple"),
        (dmi("Parallels International GmbH.", "Parallels ARM Virtual Machine"), None),
        (dmi("Oracle Corporation", "VirtualBox"), None),
        (dmi("Google", "Kevin"), "none"),
        (dmi("Oracle Corporation", "ORACLE SERVER A1-2c"), "none"),
        (dmi("Microsoft Corporation", "") | {f"{DMI}/product_version": "Hyper-V UEFI Release v4.1"}, "msvm"),
        (dmi("VMware, Inc.", "VMware20,1"), "vmware"),
        (dmi("Microsoft Corporation", "Virtual Machine"), "msvm"),
        (dmi("Microsoft Corporation", "Surface Pro X"), "none"),
        (dmi("Ampere", "Mt. Jade"), "none"),
        (dmi("", ""), None),
        ({"sys/hypervisor/type": "xen\n"}, "xenhvm"),
        ({"sys/hypervisor/type": "xen\n", **dmi("Ampere", "Mt. Jade")}, "xenhvm"),
        ({"sys/hypervisor/type": "other\n"}, None),
        ({"sys/hypervisor/type": "other\n", **dmi("Ampere", "Mt. Jade")}, None),
        ({"sys/hypervisor/type": "xen\n", **dmi("Oracle Corporation", "A1")}, "xenhvm"),
        ({f"proc/device-tree/{TREE}": "linux,kvm\0"}, "kvm"),
        ({f"sys/firmware/devicetree/base/{TREE}": "xen,xen-4.17\0xen,xen\0"}, "xenhvm"),
        ({f"proc/device-tree/{TREE}": "vmware\0"}, "vmware"),
        ({f"proc/device-tree/{TREE}": "acme,thing\0"}, None),
        ({f"proc/device-tree/{TREE}": "acme,thing\0", **dmi("Ampere", "Mt. Jade")}, None),
        ({"proc/device-tree/model": "Raspberry Pi 4 Model B Rev 1.4\0"}, None),
    ],
)
def test_hypervisor_by_evidence(tmp_path: Path, arch: str, files: dict[str, str], expected: str | None) -> None:
    files = {"proc/sys/kernel/arch": f"{arch}\n", "auxv": "HWCAP 0\n", **files}
    found = model_of(tmp_path, files)
    assert found.get("hypervisor") == expected
    assert (found["vendor_id"], found["family"], found["id"]) == ("VendorUnknown", "0", "0")


@pytest.mark.parametrize("text", hypervisor.DMI_TEXTS)
@pytest.mark.parametrize(("start", "name"), hypervisor.FIRMWARE.items())
def test_a_virtual_machine_is_never_none(tmp_path: Path, start: str, name: str, text: str) -> None:
    """Whichever text says so, it has NFD's name of the hypervisor, or no label."""
    files = {**dmi("Acme", "Anvil"), f"{DMI}/{text}": f"{start} 1\n"}
    assert hypervisor.read_evidence(make_host(tmp_path, files)) == (name or None)
    assert not name or name in {one.lower() for one in VENDORS.values()}


@pytest.mark.parametrize(
    ("implementer", "name"),
    [*model.IMPLEMENTERS.items(), (0x48, "VendorUnknown"), (0x61, "VendorUnknown"), (0, "VendorUnknown")],
)
def test_implementer(implementer: int, name: str) -> None:
    assert model.derive_arm64(implementer << 24 | 0x3FD0C1) == {"vendor_id": name, "family": "63", "id": "53441"}


ARM_CPUINFO = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"auxv": "HWCAP 800\n", MIDR: "0x00000000413fd0c1\n"}, ("ARM", "63", "53441")),
        ({"auxv": "HWCAP 7ff\n", MIDR: "0x00000000413fd0c1\n"}, ("VendorUnknown", "0", "0")),
        ({"auxv": "HWCAP 800\n", "proc/cpuinfo": ARM_CPUINFO + "CPU revision\t: 1\n"}, ("ARM", "63", "53441")),
        ({"auxv": "HWCAP 800\n", "proc/cpuinfo": ARM_CPUINFO}, ("VendorUnknown", "0", "0")),
        ({"auxv": "HWCAP 800\n", "proc/cpuinfo": ARM_CPUINFO + "CPU revision\t: 16\n"}, ("VendorUnknown", "0", "0")),
        (
            {"auxv": "HWCAP 800\n", MIDR: "ARM\n", "proc/cpuinfo": ARM_CPUINFO + "CPU revision\t: 1\n"},
            ("ARM", "63", "53441"),
        ),
        ({"auxv": "HWCAP 800\n"}, ("VendorUnknown", "0", "0")),
        ({"proc/cpuinfo": f"Features\t: fp cpuid\n{ARM_CPUINFO}CPU revision\t: 1\n"}, ("ARM", "63", "53441")),
    ],
)
def test_arm64(tmp_path: Path, files: dict[str, str], expected: tuple[str, str, str]) -> None:
    found = model_of(tmp_path, {"proc/sys/kernel/arch": "aarch64\n", **files})
    assert (found["vendor_id"], found["family"], found["id"]) == expected


@pytest.mark.parametrize(
    ("cpuinfo", "expected"),
    [
        (
            "vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 0133E8,  machine = 2964\n\n"
            "cpu number      : 0\nidentification  : 0133E8\nmachine         : 2964\n\n"
            "cpu number      : 1\nidentification  : 0233E8\nmachine         : 2965\n",
            ("IBM_S390", "0133E8", "2965"),
        ),
        ("vendor_id : \nmachine :\n", ("VendorUnknown", "0", "0")),
        ("vendor_id: A/B\nvendor_id: C\nidentification: 0\nidentification: 7\nmachine: 8561", ("C", "7", "8561")),
        ("identification:\nidentification: 7\nmachine: 8561\nmachine:\n", ("VendorUnknown", "0", "0")),
        ("no colon at all\n", ("VendorUnknown", "0", "0")),
        ("", ("VendorUnknown", "0", "0")),
    ],
)
def test_s390x(cpuinfo: str, expected: tuple[str, str, str]) -> None:
    found = model.parse_s390x(cpuinfo)
    assert (found["vendor_id"], found["family"], found["id"]) == expected


@pytest.mark.parametrize(
    ("sysinfo", "expected"),
    [
        (None, None),
        ("Manufacturer: IBM\n", "none"),
        ("VM00 Control Program: KVM/Linux\n", "KVM_Linux"),
        ("VM00 Control Program: z/VM    7.2.0\nVM01 Control Program: KVM/Linux\n", "z_VM_7.2.0"),
        ("VM00 Control Program:   \n", "none"),
    ],
)
def test_hypervisor_of_s390x(tmp_path: Path, sysinfo: str | None, expected: str | None) -> None:
    files = {"proc/sys/kernel/arch": "s390x\n", "auxv": "HWCAP 0\n"}
    found = model_of(tmp_path, files if sysinfo is None else {**files, "proc/sysinfo": sysinfo})
    assert found.get("hypervisor") == expected


@given(st.text(max_size=300))
def test_hostile_texts(text: str) -> None:
    assert set(model.parse_s390x(text)) == {"vendor_id", "family", "id"}
    assert not set(hypervisor.sanitize(text)) & set(" /+\n\0")
