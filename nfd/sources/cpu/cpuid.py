"""What the CPUID instruction says, as a value; its text form; names of processors' and hypervisors' signatures.

The text is the same whether it comes from the running machine, a recording or a hand-made one: lines
`LEAF SUBLEAF EAX EBX ECX EDX` in hexadecimal and one line `xcr0 HEX` for XGETBV(0); `#` starts a comment.
Meaning of the leaves: Intel SDM vol. 2A "CPUID", AMD APM vol. 3 appendix E.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nfd.errors import HostError

PROBE = "cpuid"
EAX, EBX, ECX, EDX = range(4)
EXTENDED = 0x80000000
HYPERVISOR_LEAF = 0x40000000
UNKNOWN_VENDOR = "VendorUnknown"

Registers = tuple[int, int, int, int]

_ZEROS: Registers = (0, 0, 0, 0)
_WORD = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,8})", re.ASCII)
_LONG = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,16})", re.ASCII)

VENDORS = {
    "GenuineIntel": "Intel",
    "AuthenticAMD": "AMD",
    "AMDisbetter!": "AMD",
    "HygonGenuine": "Hygon",
    "CentaurHauls": "VIA",
    "VIA VIA VIA ": "VIA",
    "TransmetaCPU": "Transmeta",
    "GenuineTMx86": "Transmeta",
    "Geode by NSC": "NSC",
    "Vortex86 SoC": "SiS",
    "SiS SiS SiS ": "SiS",
    "RiseRiseRise": "SiS",
    "Genuine  RDC": "RDC",
    "KVMKVMKVM": "KVM",
    "Linux KVM Hv": "KVM",
    "TCGTCGTCGTCG": "QEMU",
    "Microsoft Hv": "MSVM",
    "VMwareVMware": "VMware",
    "XenVMMXenVMM": "XenHVM",
    "bhyve bhyve ": "Bhyve",
    "QNXQVMBSQG": "QNX",
    "ACRNACRNACRN": "ACRN",
    "SRESRESRESRE": "SRE",
    "Apple VZ": "Apple",
}
"""Texts of leaf 0 (processor) and leaf 40000000 (hypervisor), and the names NFD gives them."""


@dataclass(frozen=True, slots=True)
class Cpuid:
    """Registers by (leaf, subleaf); what is not there reads as zeros."""

    leaves: Mapping[tuple[int, int], Registers] = field(default_factory=dict)
    xcr0: int = 0
    """Extended control register 0: the register state that the OS has switched on."""
    exact: bool = True
    """False when put together from /proc/cpuinfo."""

    def registers(self, leaf: int, subleaf: int = 0) -> Registers:
        return self.leaves.get((leaf, subleaf), _ZEROS)

    def has(self, leaf: int) -> bool:
        """Whether the processor offers a basic or extended leaf: the maxima are in EAX of leaf 0 and 80000000."""
        return leaf <= self.registers(leaf & EXTENDED)[EAX]

    def bit(self, leaf: int, register: int, bit: int, subleaf: int = 0) -> bool:
        return bool(self.registers(leaf, subleaf)[register] >> bit & 1)

    @property
    def vendor(self) -> str:
        _, ebx, ecx, edx = self.registers(0)
        return VENDORS.get(text_of(ebx, edx, ecx), UNKNOWN_VENDOR)

    @property
    def family(self) -> int:
        """Display family; 0 if leaf 1 is not offered."""
        base = self._signature >> 8 & 0xF
        return base + (self._signature >> 20 & 0xFF) if base == 0xF else base

    @property
    def model(self) -> int:
        """Display model; families 6 and 15 have an extended model number."""
        model = self._signature >> 4 & 0xF
        return model + (self._signature >> 12 & 0xF0) if self._signature >> 8 & 0xF in (0x6, 0xF) else model

    @property
    def _signature(self) -> int:
        return self.registers(1)[EAX] if self.has(1) else 0


def text_of(*registers: int) -> str:
    """The characters in registers, up to the first NUL."""
    return b"".join(register.to_bytes(4, "little") for register in registers).partition(b"\0")[0].decode("latin-1")


def parse_cpuid(text: str) -> Cpuid:
    """Read the text form; a leaf given twice counts as it stands last. Raises HostError naming the line."""
    leaves: dict[tuple[int, int], Registers] = {}
    xcr0 = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0].lower() == "xcr0" and len(words) == 2 and (found := _LONG.fullmatch(words[1])):
            xcr0 = int(found[1], 16)
            continue
        values = [int(found[1], 16) for word in words if (found := _WORD.fullmatch(word))]
        if len(words) != 6 or len(values) != 6:
            raise HostError(
                PROBE,
                f"line {number}: {line.strip()[:80]!r} is neither LEAF SUBLEAF EAX EBX ECX EDX"
                " in hexadecimal nor 'xcr0 HEX'",
            )
        leaf, subleaf, eax, ebx, ecx, edx = values
        leaves[leaf, subleaf] = (eax, ebx, ecx, edx)
    return Cpuid(leaves, xcr0)


def format_cpuid(cpuid: Cpuid) -> str:
    """The text form, leaves in order; `parse_cpuid` gives the same value back."""
    lines = [" ".join(f"{value:08x}" for value in (*key, *cpuid.leaves[key])) for key in sorted(cpuid.leaves)]
    return "\n".join([*lines, f"xcr0 {cpuid.xcr0:x}", ""])
