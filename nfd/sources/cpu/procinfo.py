"""The processor as /proc/cpuinfo describes it, for where the machine itself cannot be asked.

py-cpuinfo's field parser finds the first line of a name, whatever its case: that of the first processor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from nfd.sources.cpu import tables
from nfd.sources.cpu.cpuid import EXTENDED, Cpuid, Registers

PATH = "proc/cpuinfo"
_DECIMAL = re.compile(r"\d{1,9}", re.ASCII)


def field_of(text: str, *names: str) -> str:
    """The first non-empty value of a field, empty if there is none."""
    from cpuinfo.cpuinfo import _get_field  # here, since importing it costs a megabyte

    return str(_get_field(False, text, None, "", *names))


def values_of(text: str, name: str) -> list[str]:
    """A field's values that are not empty, one for each processor."""
    pairs = (line.partition(":") for line in text.split("\n"))
    return [value.strip() for key, _, value in pairs if key.strip().lower() == name and value.strip()]


def common_words(text: str, name: str) -> set[str]:
    """Words that a field has for every processor: the cores of a machine may be of several kinds."""
    found = [set(value.split()) for value in values_of(text, name)]
    return set.intersection(*found) if found else set()


def derive_level(cpuid: Cpuid, text: str) -> Cpuid:
    """x86: the registers without the bits of flags that some processors have and others, by /proc/cpuinfo, lack."""
    every = {word for value in values_of(text, "flags") for word in value.split()}
    uneven = every - common_words(text, "flags")
    cleared = {key: list(registers) for key, registers in cpuid.leaves.items()}
    for row in tables.cpuinfo():
        if row.name in uneven and (row.leaf, row.subleaf) in cleared:
            cleared[row.leaf, row.subleaf][row.register] &= ~row.mask
    leaves = {key: (eax, ebx, ecx, edx) for key, (eax, ebx, ecx, edx) in cleared.items()}
    return replace(cpuid, leaves=leaves)


def derive_cpuid(text: str) -> Cpuid:
    """x86: the registers that /proc/cpuinfo shows, so that what follows need not know where they came from."""
    names = common_words(text, "flags")
    text = text.lstrip().partition("\n\n")[0]
    registers = _Registers()
    for row in tables.cpuinfo():
        if row.name in names:
            registers.set(row.leaf, row.subleaf, row.register, row.mask)
    vendor = field_of(text, "vendor_id").encode("ascii", "replace").ljust(12, b"\0")[:12]
    for register, start in ((1, 0), (3, 4), (2, 8)):
        registers.set(0, 0, register, int.from_bytes(vendor[start : start + 4], "little"))
    registers.set(1, 0, 0, _signature(_number(text, "cpu family"), _number(text, "model")))
    if (threads := _number(text, "siblings") // max(_number(text, "cpu cores"), 1)) > 0:
        registers.set(0xB, 0, 1, threads & 0xFFFF)
    if "tdx_guest" in names:
        for register, word in ((1, b"Inte"), (3, b"lTDX"), (2, b"    ")):
            registers.set(0x21, 0, register, int.from_bytes(word, "little"))
    if "ibrs" in names and vendor in (b"AuthenticAMD", b"HygonGenuine"):
        registers.set(0x80000008, 0, 1, 1 << 14)  # the kernel gives Intel's SPEC_CTRL the same name
    registers.set_maximum(0, _number(text, "cpuid level"))
    registers.set_maximum(EXTENDED, 0)
    return Cpuid(registers.leaves(), _xcr0(names), exact=False)


def derive_hwcap(text: str, arch: str) -> Mapping[str, int]:
    """Other architectures: capability words from the feature line, whose names are the table's in lower case.

    But for one: `fastmult` (kernel arch/arm/kernel/setup.c).
    """
    names = common_words(text.lower().replace("fastmult", "fastmul"), "features")
    words: dict[str, int] = {}
    for row in tables.hwcap(arch):
        if row.flag.lower() in names:
            words[row.word] = words.get(row.word, 0) | row.mask
    return words


class _Registers:
    def __init__(self) -> None:
        self._values: dict[tuple[int, int], list[int]] = {}

    def set(self, leaf: int, subleaf: int, register: int, bits: int) -> None:
        self._values.setdefault((leaf, subleaf), [0, 0, 0, 0])[register] |= bits

    def set_maximum(self, base: int, known: int) -> None:
        """Offer the leaves up to the highest one that is in use."""
        used = max(leaf for leaf, _ in (*self._values, (base, 0)) if leaf & EXTENDED == base)
        self._values.setdefault((base, 0), [0, 0, 0, 0])[0] = max(used, known)

    def leaves(self) -> dict[tuple[int, int], Registers]:
        return {key: (eax, ebx, ecx, edx) for key, (eax, ebx, ecx, edx) in self._values.items()}


def _number(text: str, name: str) -> int:
    value = field_of(text, name)
    return int(value) if _DECIMAL.fullmatch(value) else 0


def _signature(family: int, model: int) -> int:
    """Leaf 1 EAX from display family and model."""
    base, extended = (family, 0) if family < 0xF else (0xF, min(family - 0xF, 0xFF))
    return extended << 20 | (model >> 4 & 0xF) << 16 | base << 8 | (model & 0xF) << 4


def _xcr0(names: set[str]) -> int:
    """The kernel names a vector extension only if it saves its state."""
    states = {"xsave": 0x3, "avx": 0x6, "avx512f": 0xE6, "amx_tile": 0x60000, "apx": 0x80000}
    return sum(1 << bit for bit in range(20) if any(states[name] >> bit & 1 for name in states.keys() & names))
