"""x86: from CPUID to the flags of `cpu.cpuid`; of a hybrid processor those that all cores have.

Single bits are rows of `x86.tsv`; this module derives flags that need more than a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

from nfd.sources.cpu import tables
from nfd.sources.cpu.cpuid import EAX, EBX, ECX, EDX, Cpuid, text_of

STATES = {"os:avx": 0x6, "os:avx512": 0xE6, "os:amx": 0x60000, "os:apx": 0x80000}
"""Conditions of the table and the bits of XCR0 they ask for (Intel SDM vol. 1 chapter 13)."""

LEVELS = {
    "X86_64_V1": "CMOV CMPXCHG8 X87 FXSR MMX SSE SSE2",
    "X86_64_V2": "CX16 LAHF POPCNT SSE3 SSE4 SSE42 SSSE3",
    "X86_64_V3": "AVX AVX2 BMI1 BMI2 F16C FMA3 LZCNT MOVBE OSXSAVE",
    "X86_64_V4": "AVX512F AVX512BW AVX512CD AVX512DQ AVX512VL",
}
"""Microarchitecture levels of the x86-64 psABI: what each adds to the one before."""

_FIXED_COUNTERS = ("INSTRUCTIONS", "CYCLES", "REFCYCLES", "TOPDOWN_SLOTS")
_HYPERV_ISOLATED_TDX = 0xBE3


def derive_flags(cpuid: Cpuid) -> frozenset[str]:
    """All flags; none if the processor does not even offer leaf 1."""
    if not cpuid.has(1):
        return frozenset()
    conditions = {f"vendor:{cpuid.vendor}", *_states(cpuid)}
    found = set(conditions)
    for row in tables.x86():
        if (
            cpuid.registers(row.leaf, row.subleaf)[row.register] & row.mask == row.mask
            and found.issuperset(row.needs)
            and cpuid.has(row.leaf)
        ):
            found.add(row.name)
    found -= conditions
    found.update(_computed(cpuid, found))
    found.update(_levels(found))
    return frozenset(found)


def common(cores: Sequence[Cpuid]) -> Cpuid:
    """The first core's registers, of flags only those that all cores have, of counters and threads the fewest."""
    first = cores[0]
    leaves = {key: list(registers) for key, registers in first.leaves.items()}
    for row in tables.x86():
        if registers := leaves.get((row.leaf, row.subleaf)):
            lacking = (~core.registers(row.leaf, row.subleaf)[row.register] for core in cores)
            registers[row.register] &= ~(row.mask & reduce(or_, lacking))
    if counters := leaves.get((0xA, 0)):
        counters[EBX] = reduce(or_, (core.registers(0xA)[EBX] for core in cores))
        counters[EDX] = min((core.registers(0xA)[EDX] for core in cores), key=lambda word: word & 0x1F)
    if threads := leaves.get((0xB, 0)):
        threads[EBX] = min(core.registers(0xB)[EBX] for core in cores)
    return replace(first, leaves={key: (eax, ebx, ecx, edx) for key, (eax, ebx, ecx, edx) in leaves.items()})


def derive_avx10(cpuid: Cpuid, flags: frozenset[str]) -> dict[str, str]:
    """Element `AVX10_VERSION`, from 1 on (leaf 24 EBX, bits 7:0)."""
    version = cpuid.registers(0x24)[EBX] & 0xFF if "AVX10" in flags and cpuid.has(0x24) else 0
    return {"AVX10_VERSION": str(version)} if version else {}


def _states(cpuid: Cpuid) -> Iterator[str]:
    """XCR0 can be read only where the processor has XSAVE and the OS uses it (leaf 1 ECX 26 and 27)."""
    if cpuid.bit(1, ECX, 26) and cpuid.bit(1, ECX, 27):
        yield from (name for name, state in STATES.items() if cpuid.xcr0 & state == state)


def _computed(cpuid: Cpuid, flags: set[str]) -> Iterator[str]:
    vendor, family, model = cpuid.vendor, cpuid.family, cpuid.model
    if vendor in ("Intel", "AMD") and cpuid.bit(1, EDX, 28) and _threads_per_core(cpuid) > 1:
        yield "HTT"
    slow_intel = vendor == "Intel" and family == 6 and model < 60
    slow_amd = vendor == "AMD" and (family < 0x17 or (family == 0x17 and model < 0x31))
    if "AVX" in flags and (slow_intel or slow_amd):
        yield "AVXSLOW"
    if vendor == "AMD" and (family < 0x19 or (family == 0x1A and (model <= 0x4F or 0x60 <= model <= 0x7F))):
        yield from ("TSA_L1_NO", "TSA_SQ_NO")
    if _is_tdx_guest(cpuid):
        yield "TDX_GUEST"
    yield from _fixed_counters(cpuid)


def _threads_per_core(cpuid: Cpuid) -> int:
    """1 where the processor does not report it."""
    amd = cpuid.vendor == "AMD"
    if cpuid.has(0xB):
        if threads := cpuid.registers(0xB)[EBX] & 0xFFFF:
            return threads
        if amd and cpuid.family >= 0x17:
            return (cpuid.registers(0x8000001E)[EBX] >> 8 & 0xFF) + 1 if cpuid.has(0x8000001E) else 2
    elif not amd and cpuid.has(4) and (logical := cpuid.registers(1)[EBX] >> 16 & 0xFF) > 1:
        return logical // ((cpuid.registers(4)[EAX] >> 26) + 1)
    return 1


def _is_tdx_guest(cpuid: Cpuid) -> bool:
    """Leaf 21 names itself; an isolated Hyper-V guest is known from the hypervisor's leaf 4000000C."""
    _, ebx, ecx, edx = cpuid.registers(0x21)
    if cpuid.has(0x21) and text_of(ebx, edx, ecx) == "IntelTDX    ":
        return True
    return cpuid.has(0x20) and cpuid.registers(0x4000000C)[EBX] == _HYPERV_ISOLATED_TDX


def _fixed_counters(cpuid: Cpuid) -> Iterator[str]:
    """Leaf A: a bit set in EBX says that the counter is missing; with EBX zero their number (from version 2)
    decides."""
    eax, ebx, _, edx = cpuid.registers(0xA)
    if not cpuid.has(0xA) or not (version := eax & 0xFF):
        return
    count = edx & 0x1F if version >= 2 else 0
    known = {3: 3, 4: 4}.get(count, 0)
    for index, name in enumerate(_FIXED_COUNTERS):
        if not ebx >> index & 1 if ebx else index < known:
            yield f"PMU_FIXEDCOUNTER_{name}"


def _levels(flags: set[str]) -> Iterator[str]:
    if not flags & {"SYSEE", "SYSCALL"}:
        return
    for level, added in LEVELS.items():
        if not flags.issuperset(added.split()):
            return
        yield level
