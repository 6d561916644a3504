"""The tables of this package, as `nfd.runtime.tsv_tables` reads them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from nfd.runtime.tsv_tables import rows

REGISTERS = ("eax", "ebx", "ecx", "edx")


class Bits(NamedTuple):
    """Bits of a CPUID register that together mean `name`."""

    name: str
    leaf: int
    subleaf: int
    register: int
    """Index into `REGISTERS`."""
    mask: int
    needs: tuple[str, ...] = ()


class Capability(NamedTuple):
    """One bit of an ELF hardware capability word."""

    flag: str
    word: str
    mask: int


@cache
def x86() -> tuple[Bits, ...]:
    """Flags by CPUID bit; what a row needs comes before it."""
    return tuple(_bits(*row) for row in rows(__package__, "x86.tsv"))


@cache
def cpuinfo() -> tuple[Bits, ...]:
    """The kernel's flag names by CPUID bit."""
    return tuple(_bits(*row) for row in rows(__package__, "cpuinfo.tsv"))


@cache
def hwcap(arch: str) -> tuple[Capability, ...]:
    """Flags by hardware capability bit; empty for an architecture without a table."""
    return tuple(
        Capability(flag, word, 1 << int(bit)) for of, flag, word, bit in rows(__package__, "hwcap.tsv") if of == arch
    )


def _bits(name: str, leaf: str, subleaf: str, register: str, bits: str, needs: str = "-") -> Bits:
    mask = sum(1 << int(bit) for bit in bits.split(","))
    conditions = () if needs == "-" else tuple(needs.split(","))
    return Bits(name, int(leaf, 16), int(subleaf, 16), REGISTERS.index(register), mask, conditions)
