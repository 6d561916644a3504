"""RISC-V: the extensions of the instruction set that the kernel lists, as flags; who made the processor.

NFD knows no RISC-V. Names are those of the specification in capital letters: `V`, `ZBA`, `SSCOFPMF`.
"""

from __future__ import annotations

import re

from nfd.host import Host
from nfd.sources.cpu import hwcap, procinfo
from nfd.sources.cpu.cpuid import UNKNOWN_VENDOR

VENDORS = {
    0x029: "Microchip",
    0x127: "MIPS",
    0x31E: "Andes",
    0x489: "SiFive",
    0x5B7: "T-Head",
    0x710: "SpacemiT",
}
"""JEDEC manufacturer ids in `mvendorid` (kernel arch/riscv/include/asm/vendorid_list.h)."""

GENERAL = ("i", "m", "a", "f", "d", "zicsr", "zifencei")
"""What the letter g stands for (RISC-V ISA manual, volume I, "ISA Extension Naming Conventions")."""

_ISA = re.compile(r"rv(?:32|64|128)([a-z0-9_]+)", re.ASCII)
_VERSION = re.compile(r"\d+p\d+", re.ASCII)
_HEX = re.compile(r"0[xX]([0-9a-fA-F]{1,16})", re.ASCII)
_LONG = "sxz"
"""Letters that begin a name of several letters."""
_SHORTEST = 3
"""Letters of such a name; Linux before 5.18 listed the privilege modes `s` and `u` among the extensions."""


def read_flags(host: Host) -> frozenset[str]:
    """Extensions that all processors have; the single letters alone where the kernel lists none.

    Reads: `isa` of proc/cpuinfo (kernel arch/riscv/uabi), else the auxiliary vector, in which bit 0 is A
    """
    lines = procinfo.values_of(host.value(procinfo.PATH) or "", "isa")
    if found := [parse_isa(line) for line in lines]:
        return frozenset.intersection(*found)
    word = hwcap.parse_hwcap(host.probe(hwcap.PROBE, hwcap.read_auxv_text) or "").get("HWCAP", 0)
    return frozenset(chr(ord("A") + bit) for bit in range(26) if word >> bit & 1)


def parse_isa(text: str) -> frozenset[str]:
    """Names of `rv64imafdc_zicsr_zba`, versions such as `2p1` left out; none of a text of another form."""
    found = _ISA.fullmatch(text.strip().lower())
    if found is None:
        return frozenset()
    letters, *names = _VERSION.sub("", found[1]).split("_")
    start = next((index for index, letter in enumerate(letters) if letter in _LONG), len(letters))
    names += [*letters[:start], letters[start:]]
    if "g" in names:
        names += GENERAL
    return frozenset(name.upper() for name in names if name != "g" and (len(name) == 1 or len(name) >= _SHORTEST))


def read_vendor(host: Host) -> str:
    """Reads: `mvendorid` of proc/cpuinfo (RISC-V privileged architecture, "mvendorid")."""
    found = _HEX.fullmatch(procinfo.field_of(host.value(procinfo.PATH) or "", "mvendorid"))
    return VENDORS.get(int(found[1], 16), UNKNOWN_VENDOR) if found else UNKNOWN_VENDOR
