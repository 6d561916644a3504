"""x86 flags: each row of the table, and what takes more than a bit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.sources.cpu import tables
from nfd.sources.cpu.cpuid import Cpuid, Registers
from nfd.sources.cpu.cpuid_flags import LEVELS, STATES, derive_avx10, derive_flags
from nfd.sources.cpu.tables import Bits
from tests.sources.cpu.machines import full_machine, machine, supporting

ROWS = pytest.mark.parametrize("row", tables.x86(), ids=lambda row: f"{row.name}-{row.leaf:x}.{row.subleaf}")
WORD = st.integers(0, 2**32 - 1)
KERNEL_NAMES = {  # what cannot be told by spelling alone
    "pni": "SSE3", "pclmulqdq": "CLMUL", "fma": "FMA3", "sse4_1": "SSE4", "sse4_2": "SSE42", "aes": "AESNI",
    "sha_ni": "SHA", "sgx_lc": "SGXLC", "user_shstk": "CETSS", "ibt": "CETIBT", "abm": "LZCNT", "cx8": "CMPXCHG8",
    "fpu": "X87", "sep": "SYSEE", "ht": "HTT", "lahf_lm": "LAHF", "topoext": "TOPEXT", "3dnow": "AMD3DNOW",
    "3dnowext": "AMD3DNOWEXT", "overflow_recov": "MCAOVERFLOW", "cpb": "CPBOOST", "irperf": "MSRIRC",
    "amd_ppin": "PPIN", "amd_psfd": "PSFD", "ssbd": "SPEC_CTRL_SSBD", "npt": "SVMNP", "lbrv": "LBRVIRT",
    "svm_lock": "SVML", "nrip_save": "NRIPS", "tsc_scale": "TSCRATEMSR", "flushbyasid": "SVMFBASID",
    "decodeassists": "SVMDA", "pausefilter": "SVMPF", "pfthreshold": "SVMPFT", "debug_swap": "SEV_DEBUGSWAP",
    "arch_capabilities": "IA32_ARCH_CAP",
}  # fmt: skip
NO_FLAG = {"cqm", "rdt_a", "cqm_llc", "cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local", "cat_l3", "cat_l2", "mba"}


def alternatives_of(name: str) -> list[Bits]:
    return [row for row in tables.x86() if row.name == name]


@ROWS
def test_set_alone(row: Bits) -> None:
    rows, vendor, xcr0 = supporting(row)
    family = 0x1A  # of AMD's: one that has nothing for free
    assert row.name not in derive_flags(machine(rows, vendor=vendor, family=family, model=0x50, xcr0=xcr0))
    assert row.name in derive_flags(machine([*rows, row], vendor=vendor, family=family, model=0x50, xcr0=xcr0))


@ROWS
def test_cleared_alone(row: Bits) -> None:
    assert row.name in derive_flags(full_machine("AMD", [other for other in alternatives_of(row.name) if other != row]))
    for bit in (1 << number for number in range(32) if row.mask >> number & 1):
        others = [other for other in alternatives_of(row.name) if other != row]
        assert row.name not in derive_flags(full_machine("AMD", [*others, row._replace(mask=bit)]))


@ROWS
def test_conditions(row: Bits) -> None:
    """Without any one of what it needs, or with its leaf out of range, a row counts for nothing."""
    rows, vendor, xcr0 = supporting(row)
    others = [other for other in alternatives_of(row.name) if other != row]
    for need in row.needs:
        if need.startswith("vendor:"):
            assert row.name not in derive_flags(full_machine("Hygon", others))
        elif need.startswith("os:"):
            lacking = machine([*rows, row], vendor=vendor, xcr0=xcr0 & ~(STATES[need] & -STATES[need]))
            assert row.name not in derive_flags(lacking)
        else:
            needed = [other for other in tables.x86() if other.name == need]
            assert row.name not in derive_flags(full_machine("AMD", [*others, *needed]))
    short = machine([*rows, row], vendor=vendor, family=0x1A, model=0x50, xcr0=xcr0, highest=row.leaf - 1)
    if row.leaf < 0x80000000:
        assert row.name not in derive_flags(short)


def test_table_is_in_order() -> None:
    """What a row needs is decided before it; no bit stands for a flag twice."""
    seen: set[str] = set()
    for row in tables.x86():
        assert all(":" in need or need in seen for need in row.needs), row
        seen.add(row.name)
    keys = [row[:5] for row in tables.x86()]
    assert len(keys) == len(set(keys))
    assert len(seen) == 202  # and 7 that are computed: AVXSLOW, HTT, TDX_GUEST, four counters


@pytest.mark.parametrize("row", tables.cpuinfo(), ids=lambda row: row.name)
def test_kernel_names_agree(row: Bits) -> None:
    """The kernel's table and ours, each from its own source, mean the same bit by the same name."""
    if row.name in NO_FLAG:
        return
    flag = KERNEL_NAMES.get(row.name, row.name.upper().replace("_", ""))
    ours = [other for other in tables.x86() if other.name.replace("_", "") == flag.replace("_", "")]
    if flag == "HTT":
        assert (row.leaf, row.register, row.mask) == (1, 3, 1 << 28)
    else:
        assert any(other[1:4] == row[1:4] and other.mask & row.mask for other in ours)


def test_no_leaf_one() -> None:
    assert derive_flags(Cpuid()) == frozenset()
    assert derive_flags(machine(tables.x86(), highest=0, xcr0=0xE00E7)) == frozenset()


def ecx(*bits: int) -> dict[tuple[int, int], Registers]:
    return {(1, 0): (0, 0, sum(1 << bit for bit in bits), 0)}


def test_xsave_by_its_own_bits() -> None:
    assert not {"XSAVE", "OSXSAVE"} & derive_flags(machine(leaves=ecx(0)))
    assert derive_flags(machine(leaves=ecx(26))) == {"XSAVE"}
    assert derive_flags(machine(leaves=ecx(27))) == {"OSXSAVE"}


def test_protection_keys_are_not_amx() -> None:
    leaves = {**ecx(26, 27), (7, 0): (0, 0, 1 << 3, 0)}
    assert "AMXFP8" not in derive_flags(machine(leaves=leaves, xcr0=0x600E7))


@pytest.mark.parametrize(
    ("vendor", "family", "model", "edx28", "leaves", "highest", "expected"),
    [
        ("Intel", 6, 85, True, {(0xB, 0): (1, 2, 0x100, 0)}, 0xB, True),
        ("Intel", 6, 85, False, {(0xB, 0): (1, 2, 0x100, 0)}, 0xB, False),
        ("Intel", 6, 85, True, {(0xB, 0): (0, 1, 0x100, 0)}, 0xB, False),
        ("Intel", 6, 85, True, {(0xB, 0): (0, 0, 0, 0)}, 0xB, False),
        ("Hygon", 24, 1, True, {(0xB, 0): (1, 2, 0x100, 0)}, 0xB, False),
        ("Intel", 6, 23, True, {(1, 0): (0, 16 << 16, 0, 0), (4, 0): (7 << 26, 0, 0, 0)}, 0xA, True),
        ("Intel", 6, 23, True, {(1, 0): (0, 8 << 16, 0, 0), (4, 0): (7 << 26, 0, 0, 0)}, 0xA, False),
        ("Intel", 6, 23, True, {(1, 0): (0, 1 << 16, 0, 0), (4, 0): (0, 0, 0, 0)}, 0xA, False),
        ("Intel", 6, 23, True, {(1, 0): (0, 16 << 16, 0, 0)}, 3, False),
        ("AMD", 16, 9, True, {(1, 0): (0, 16 << 16, 0, 0)}, 5, False),
        ("AMD", 25, 1, True, {(0x8000001E, 0): (0, 0x100, 0, 0)}, 0x10, True),
        ("AMD", 25, 1, True, {(0x8000001E, 0): (0, 0, 0, 0)}, 0x10, False),
        ("AMD", 25, 1, True, {(0x80000000, 0): (0x8000001D, 0, 0, 0)}, 0x10, True),
        ("AMD", 22, 1, True, {(0x8000001E, 0): (0, 0x100, 0, 0)}, 0x10, False),
    ],
)
def test_hyper_threading(
    vendor: str,
    family: int,
    model: int,
    edx28: bool,
    leaves: dict[tuple[int, int], Registers],
    highest: int,
    expected: bool,
) -> None:
    rows = [Bits("HTT", 1, 0, 3, 1 << 28)] if edx28 else []
    found = machine(rows, vendor=vendor, family=family, model=model, leaves=leaves, highest=highest)
    assert ("HTT" in derive_flags(found)) is expected


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [
        ("Intel", 6, 58, True),
        ("Intel", 6, 60, False),
        ("Intel", 5, 9, False),
        ("AMD", 0x15, 2, True),
        ("AMD", 0x17, 0x30, True),
        ("AMD", 0x17, 0x31, False),
        ("AMD", 0x19, 1, False),
        ("Hygon", 0x18, 1, False),
        ("Other", 6, 7, False),
    ],
)
def test_slow_avx(vendor: str, family: int, model: int, expected: bool) -> None:
    found = machine(vendor=vendor, family=family, model=model, leaves=ecx(26, 27, 28), xcr0=7)
    assert ("AVXSLOW" in derive_flags(found)) is expected
    assert "AVXSLOW" not in derive_flags(machine(vendor=vendor, family=family, model=model))


@pytest.mark.parametrize(
    ("vendor", "family", "model", "expected"),
    [
        ("AMD", 0x17, 1, True),
        ("AMD", 0x19, 1, False),
        ("AMD", 0x1A, 0x4F, True),
        ("AMD", 0x1A, 0x50, False),
        ("AMD", 0x1A, 0x60, True),
        ("AMD", 0x1A, 0x7F, True),
        ("AMD", 0x1A, 0x80, False),
        ("Hygon", 0x18, 1, False),
        ("Intel", 6, 85, False),
    ],
)
def test_not_affected_by_tsa(vendor: str, family: int, model: int, expected: bool) -> None:
    found = derive_flags(machine(vendor=vendor, family=family, model=model))
    assert ({"TSA_L1_NO", "TSA_SQ_NO"} <= found) is expected


ALL_FOUR = {"CYCLES", "INSTRUCTIONS", "REFCYCLES", "TOPDOWN_SLOTS"}


@pytest.mark.parametrize(
    ("eax", "ebx", "edx", "expected"),
    [
        (0, 0, 4, set()),
        (1, 0, 4, set()),
        (2, 0, 4, ALL_FOUR),
        (2, 0, 3, ALL_FOUR - {"TOPDOWN_SLOTS"}),
        (2, 0, 2, set()),
        (5, 0, 5, set()),
        (1, 0b10, 0, ALL_FOUR - {"CYCLES"}),
        (1, 0b1111, 4, set()),
        (1, 0x10, 0, ALL_FOUR),
    ],
)
def test_fixed_counters(eax: int, ebx: int, edx: int, expected: set[str]) -> None:
    found = derive_flags(machine(leaves={(0xA, 0): (eax, ebx, 0, edx)}))
    assert found == {f"PMU_FIXEDCOUNTER_{name}" for name in expected}
    assert not derive_flags(machine(leaves={(0xA, 0): (eax, ebx, 0, edx)}, highest=9))


@pytest.mark.parametrize(
    ("highest", "leaves", "expected"),
    [
        (0x21, {(0x21, 0): (0, 0x65746E49, 0x20202020, 0x5844546C)}, True),
        (0x20, {(0x21, 0): (0, 0x65746E49, 0x20202020, 0x5844546C)}, False),
        (0x21, {(0x21, 0): (0, 0x65746E49, 0x5844546C, 0x20202020)}, False),
        (0x20, {(0x4000000C, 0): (0, 0xBE3, 0, 0)}, True),
        (0x1F, {(0x4000000C, 0): (0, 0xBE3, 0, 0)}, False),
        (0x20, {(0x4000000C, 0): (0, 0xBE2, 0, 0)}, False),
    ],
)
def test_tdx_guest(highest: int, leaves: dict[tuple[int, int], Registers], expected: bool) -> None:
    assert ("TDX_GUEST" in derive_flags(machine(leaves=leaves, highest=highest))) is expected


def rows_of(names: set[str]) -> list[Bits]:
    rows = [row for row in tables.x86() if row.name in names]
    return rows + [other for row in rows for other in supporting(row)[0]]


@pytest.mark.parametrize("number", range(4))
def test_levels(number: int) -> None:
    """A level takes all its flags and those of the levels below, and a system call instruction."""
    names = [set(added.split()) for added in LEVELS.values()]
    enough = rows_of(set().union(*names[: number + 1], {"SYSCALL"}))
    expected = set(list(LEVELS)[: number + 1])
    assert derive_flags(machine(enough, xcr0=0xE7)) & set(LEVELS) == expected
    without_call = [row for row in enough if row.name != "SYSCALL"]
    assert not derive_flags(machine(without_call, xcr0=0xE7)) & set(LEVELS)
    for missing in names[number]:
        gone = alternatives_of(missing)
        fewer = [row for row in enough if not any(row[1:4] == one[1:4] and row.mask & one.mask for one in gone)]
        assert list(LEVELS)[number] not in derive_flags(machine(fewer, xcr0=0xE7)), missing


def test_avx10_version() -> None:
    leaves = {(7, 1): (0, 0, 0, 1 << 19), (0x24, 0): (0, 0x70002, 0, 0)}
    for found, expected in (
        (machine(leaves=leaves), {"AVX10_VERSION": "2"}),
        (machine(leaves=leaves, highest=0x23), {}),
        (machine(leaves={**leaves, (7, 1): (0, 0, 0, 0)}), {}),
        (machine(leaves={**leaves, (0x24, 0): (0, 0x70000, 0, 0)}), {}),
    ):
        assert derive_avx10(found, derive_flags(found)) == expected


KEYS = st.sampled_from(
    sorted({(row.leaf, row.subleaf) for row in tables.x86()} | {(0, 0), (4, 0), (0xB, 0), (0x21, 0)})
)


@given(st.dictionaries(KEYS, st.tuples(WORD, WORD, WORD, WORD), max_size=20), st.integers(0, 2**64 - 1))
def test_any_registers_will_do(leaves: dict[tuple[int, int], Registers], xcr0: int) -> None:
    assert all(":" not in flag for flag in derive_flags(Cpuid(leaves, xcr0)))
