"""x86 processors put together bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nfd.sources.cpu import tables
from nfd.sources.cpu.cpuid import EXTENDED, Cpuid, Registers
from nfd.sources.cpu.cpuid_flags import STATES
from nfd.sources.cpu.tables import Bits

ALL_STATE = 0xE00E7
TEXTS = {"Intel": b"GenuineIntel", "AMD": b"AuthenticAMD", "Hygon": b"HygonGenuine", "Other": b"  Shanghai  "}

Leaf = tuple[int, int]


def vendor_leaf(vendor: str, highest: int) -> Registers:
    """Leaf 0."""
    text = TEXTS.get(vendor) or vendor.encode("latin-1").ljust(12, b"\0")
    ebx, edx, ecx = (int.from_bytes(text[start : start + 4], "little") for start in (0, 4, 8))
    return highest, ebx, ecx, edx


def signature(family: int, model: int) -> int:
    """Leaf 1 EAX of a display family and model."""
    base, extended = (family, 0) if family < 15 else (15, family - 15)
    return extended << 20 | (model >> 4) << 16 | base << 8 | (model & 15) << 4


def machine(
    rows: Iterable[Bits] = (),
    *,
    vendor: str = "Intel",
    family: int = 6,
    model: int = 85,
    highest: int = 0x24,
    leaves: Mapping[Leaf, Registers] | None = None,
    xcr0: int = 0,
) -> Cpuid:
    """A processor with these bits set, besides those of `leaves`."""
    found = {key: list(registers) for key, registers in (leaves or {}).items()}
    found[0, 0] = list(vendor_leaf(vendor, highest))
    found.setdefault((EXTENDED, 0), [0x80000023, 0, 0, 0])
    found.setdefault((1, 0), [0, 0, 0, 0])[0] = signature(family, model)
    for row in rows:
        found.setdefault((row.leaf, row.subleaf), [0, 0, 0, 0])[row.register] |= row.mask
    return Cpuid({key: (eax, ebx, ecx, edx) for key, (eax, ebx, ecx, edx) in found.items()}, xcr0)


def supporting(row: Bits) -> tuple[list[Bits], str, int]:
    """What a row needs: further rows, the vendor, and register state."""
    rows, vendor, xcr0 = [], "Intel", 0
    for need in row.needs:
        if need.startswith("vendor:"):
            vendor = need.removeprefix("vendor:")
        elif need.startswith("os:"):
            xcr0 |= STATES[need]
            rows.append(Bits("XSAVE", 1, 0, 2, 3 << 26))
        else:
            first = next(other for other in tables.x86() if other.name == need)
            more, _, state = supporting(first)
            rows += [first, *more]
            xcr0 |= state
    return rows, vendor, xcr0


def full_machine(vendor: str, cleared: Iterable[Bits] = ()) -> Cpuid:
    """A processor with every bit of the table set but these."""
    leaves = {(row.leaf, row.subleaf): [0xFFFFFFFF] * 4 for row in tables.x86()}
    for row in cleared:
        leaves[row.leaf, row.subleaf][row.register] &= ~row.mask
    whole = {key: (eax, ebx, ecx, edx) for key, (eax, ebx, ecx, edx) in leaves.items()}
    return machine(vendor=vendor, family=100, model=1, leaves=whole, xcr0=ALL_STATE)
