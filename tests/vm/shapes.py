"""The machines of the matrix, and the labels that each must get: all but the CPU flags, which /proc/cpuinfo tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.e2e.nodes import F
from tests.vm.machine import Hardware

CPUID = F + "cpu-cpuid."
SLOT = "free-slot"
"""A free PCIe slot that every machine has, to plug something in."""
FREE_SLOT = f"-device pcie-root-port,bus=pcie.0,id={SLOT},chassis=30,slot=30"
NULL_DISK = "-blockdev driver=null-co,node-name={name},size=67108864,read-zeroes=on"
NUMA = (
    "-object memory-backend-ram,id=near,size=512M -numa node,nodeid=0,cpus=0-1,memdev=near "
    "-object memory-backend-ram,id=far,size=512M -numa node,nodeid=1,cpus=2-3,memdev=far"
)
SRIOV = (
    "-device pcie-root-port,bus=pcie.0,id=port-sriov,chassis=31,slot=31 -device nvme-subsys,id=subsystem "
    "-device nvme,serial=1,subsys=subsystem,bus=port-sriov,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=2,"
    "max_ioqpairs=6,msix_qsize=8"
)
USB = f"-device qemu-xhci,id=usb,bus=pcie.0 {NULL_DISK.format(name='stick')}"
NVDIMM = "-object memory-backend-ram,id=persistent,size=128M -device nvdimm,memdev=persistent"
CXL = (
    "-device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl -device cxl-rp,port=0,bus=cxl,id=port-cxl,chassis=32,slot=32 "
    "-object memory-backend-ram,id=cxl-memory,size=256M -object memory-backend-ram,id=cxl-labels,size=256M "
    "-device cxl-type3,bus=port-cxl,memdev=cxl-memory,lsa=cxl-labels,id=cxl-device "
    "-machine cxl-fmw.0.targets.0=cxl,cxl-fmw.0.size=4G"
)


@dataclass(frozen=True)
class Shape:
    """`labels` without prefix, `devices` those of PCI and USB; `prepare` runs in the guest before the worker."""

    hardware: Hardware
    labels: Mapping[str, str]
    devices: tuple[str, ...] = ()
    prepare: str = "true"
    configured: bool = True
    """Whether the kernel's configuration lies in /boot."""
    note: str = ""
    """What stands for what: a processor that this QEMU has no name for is told by its numbers."""

    def expected(self, release: str) -> dict[str, str]:
        """Labels of a Node with this machine under that kernel."""
        arch = self.hardware.flavour.rpartition("-")[2]
        version = dict(zip(("major", "minor", "revision"), re.findall(r"\d+", release), strict=False))
        found = {f"kernel-version.{part}": number for part, number in version.items()}
        found |= {"kernel-version.full": release, **SYSTEM}
        found |= dict.fromkeys(KERNEL_CONFIG if self.configured else (), "true")
        found |= {f"{name}.present": "true" for name in (*BOARD[arch], *self.devices)}
        return {F + name: value for name, value in (found | dict(self.labels)).items()}


STILL = "storage-nonrotationaldisk"
HUBS = ("usb-09_1d6b_0002", "usb-09_1d6b_0003")
RNG = ("pci-00ff_1af4_1005",)
SYSTEM = {
    "system-os_release.ID": "debian",
    "system-os_release.VERSION_ID": "12",
    "system-os_release.VERSION_ID.major": "12",
}
KERNEL_CONFIG = ("kernel-config.NO_HZ_FULL",)
"""Options of Debian's kernels, which have no /proc/config.gz: their configuration lies in /boot."""
COMMON = (
    "pci-0100_1af4_1001",
    "pci-0200_1af4_1000",
    "pci-0780_1af4_1003",
    "pci-0604_1b36_000c",
    "pci-1af4",
    "pci-1b36",
)
BOARD: Mapping[str, tuple[str, ...]] = {
    "amd64": (
        *(*COMMON, "pci-8086"),
        *("pci-0600_8086_29c0", "pci-0601_8086_2918", "pci-0106_8086_2922", "pci-0c05_8086_2930"),
    ),
    "arm64": (*COMMON, "pci-0600_1b36_0008"),
}
"""What every machine has: two disks, a network card, the lines of the tests, a free slot, and the board's own."""


def cpu(vendor: str, family: int, model: int, *, threads: bool = False) -> dict[str, str]:
    """Labels of an x86 processor."""
    return {
        "cpu-model.vendor_id": vendor,
        "cpu-model.family": str(family),
        "cpu-model.id": str(model),
        "cpu-model.hypervisor": "qemu",
        "cpu-hardware_multithreading": str(threads).lower(),
    }


def arm_cpu(vendor: str, family: int, model: int) -> dict[str, str]:
    """Labels of an arm64 processor; without DMI there is nothing that tells a hypervisor."""
    labels = cpu(vendor, family, model)
    del labels["cpu-model.hypervisor"]
    return labels


def arm(cpu: str, *devices: str) -> Hardware:
    return hardware(cpu, *devices, flavour="arm64")


def hardware(cpu: str, *devices: str, **more: str | bool) -> Hardware:
    return replace(Hardware(cpu, devices=(FREE_SLOT, *devices)), **more)  # type: ignore[arg-type]  # fields of it


SHAPES = {
    "qemu-max": Shape(hardware("max"), cpu("AMD", 15, 107)),
    "qemu-westmere": Shape(
        hardware("Westmere", smp="1"),
        cpu("Intel", 6, 44),
        prepare="rm /boot/config-*",
        configured=False,
        note="kernel configuration nowhere",
    ),
    "qemu-skylake-server": Shape(
        hardware("Skylake-Server", NUMA, smp="4,sockets=2,cores=1,threads=2"),
        cpu("Intel", 6, 85, threads=True) | {"memory-numa": "true"},
        note="two sockets with two threads, NUMA",
    ),
    "qemu-icelake-server": Shape(
        hardware("Icelake-Server", SRIOV, smp="4,sockets=1,cores=2,threads=2"),
        cpu("Intel", 6, 134) | {"pci-0108_1b36_0010.sriov.capable": "true", "vm-virtual-function": "true"},
        ("pci-0108_1b36_0010",),
        prepare=(
            "for each in 1 3; do echo 0 >/sys/devices/system/cpu/cpu$each/online; done;"
            "echo 2 >/sys/bus/pci/devices/0000:02:00.0/sriov_numvfs"
        ),
        note="second threads offline; NVMe with two virtual functions",
    ),
    "qemu-sapphire-rapids": Shape(
        hardware(
            "Icelake-Server,model=143,stepping=8",
            *(NVDIMM, CXL),
            memory="1G,slots=2,maxmem=8G",
            board="q35,nvdimm=on,cxl=on",
        ),
        cpu("Intel", 6, 143) | dict.fromkeys(("memory-nv.present", "memory-nv.dax", STILL), "true"),
        ("pci-0502_8086_0d93", "pci-0604_8086_7075"),
        prepare="test -e /sys/bus/cxl/devices/mem0 && test -e /sys/bus/nd/devices/namespace0.0",
        note="Icelake-Server with that model's number; NVDIMM, CXL memory",
    ),
    "qemu-epyc-rome": Shape(
        hardware(
            "EPYC-Rome",
            *(USB, "-device usb-storage,bus=usb.0,drive=stick -device usb-kbd,bus=usb.0 -device usb-tablet,bus=usb.0"),
            kernel="security=selinux selinux=1 enforcing=1",
            tpm=True,
        ),
        cpu("AMD", 23, 49) | {"kernel-selinux.enabled": "true"},
        ("pci-0c03_1b36_000d", "usb-08_46f4_0001", "usb-03_0627_0001", *HUBS),
        prepare="test -e /sys/class/tpm/tpm0",
        note="USB stick, keyboard, tablet; SELinux enforcing; TPM 2.0, for which there is no label",
    ),
    "qemu-epyc-genoa": Shape(
        hardware(
            "EPYC-Milan,model=17,stepping=1",
            *("-device virtio-gpu-pci,bus=pcie.0", "-device virtio-rng-pci,bus=pcie.0"),
            flavour="cloud-amd64",
        ),
        cpu("AMD", 25, 17),
        ("pci-0380_1af4_1050", *RNG),
        note="EPYC-Milan with that model's number; virtio devices; Debian's cloud kernel",
    ),
    "qemu-cortex-a72": Shape(arm("cortex-a72"), arm_cpu("ARM", 15, 0xD083)),
    "qemu-neoverse-n1": Shape(arm("neoverse-n1", "-device virtio-rng-pci,bus=pcie.0"), arm_cpu("ARM", 79, 0xD0C1), RNG),
    "qemu-arm64-max": Shape(
        arm("max,pauth-impdef=on", USB, "-device usb-storage,bus=usb.0,drive=stick"),
        arm_cpu("VendorUnknown", 15, 0x0510),
        ("pci-0c03_1b36_000d", "usb-08_46f4_0001", *HUBS),
        note="an implementer that nobody knows; USB stick",
    ),
}
