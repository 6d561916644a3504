"""Machines whose cores are not alike: flags are those that all have."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.host.cores import on_each_core
from nfd.sources.cpu import SOURCE, tables
from nfd.sources.cpu.cpuid import EDX, Cpuid, format_cpuid
from nfd.sources.cpu.cpuid_flags import common, derive_flags
from nfd.sources.cpu.riscv import parse_isa
from tests.sources.cpu.machines import machine
from tests.sources.hosts import labels_of, make_host, scan

BITS = [row for row in tables.x86() if row.leaf in (1, 7) and row.register == EDX and not row.needs]


def core(*without: str, **more: object) -> Cpuid:
    return machine([row for row in BITS if row.name not in without], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", [tuple, lambda cores: tuple(reversed(cores))])
def test_flags_of_x86_are_those_that_all_cores_have(order: Callable[..., tuple[Cpuid, ...]]) -> None:
    """Whichever core the process begins on."""
    fast = core("MMX", leaves={(1, 0): (0, 0, 0, 1 << 28), (0xA, 0): (0x05, 0, 0, 4), (0xB, 0): (1, 2, 0, 0)})
    slow = core("CMOV", leaves={(1, 0): (0, 0, 0, 1 << 28), (0xA, 0): (0x05, 8, 0, 3), (0xB, 0): (1, 1, 0, 0)})
    found = derive_flags(common(order([fast, slow])))
    assert found == derive_flags(fast) & derive_flags(slow)
    assert {"HTT", "PMU_FIXEDCOUNTER_TOPDOWN_SLOTS"} & derive_flags(fast) == {"HTT", "PMU_FIXEDCOUNTER_TOPDOWN_SLOTS"}
    assert common([fast]) == fast


def test_each_core_is_asked_and_the_thread_left_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    assert list(on_each_core(lambda: os.sched_getaffinity(0))) == [{number} for number in sorted(before)]
    assert os.sched_getaffinity(0) == before


def blocks(field: str, *values: str) -> str:
    return "\n".join(f"processor\t: {number}\n{field}\t: {value}\n" for number, value in enumerate(values))


@pytest.mark.parametrize(
    ("arch", "cpuinfo", "flags"),
    [
        ("x86_64", blocks("flags", "fpu sse avx2", "fpu sse"), {"X87", "SSE", "FXSROPT"}),
        ("aarch64", blocks("Features", "fp asimd sve", "asimd fp"), {"FP", "ASIMD"}),
        ("armv7l", blocks("Features", "vfp neon vfpv4", "vfp neon"), {"VFP", "NEON"}),
        ("loongarch64", blocks("Features", "cpucfg lsx lasx", "cpucfg lsx"), {"CPUCFG", "LSX"}),
        ("riscv64", blocks("isa", "rv64imv_zba", "rv64im_zba_zbb"), {"I", "M", "ZBA"}),
        ("s390x", "features\t: esan3 zarch vx\nprocessor 0: version = 00\n", {"ESAN3", "ZARCH", "VX"}),
    ],
)
def test_flags_by_proc_cpuinfo(tmp_path: Path, arch: str, cpuinfo: str, flags: set[str]) -> None:
    host = make_host(tmp_path, {"proc/sys/kernel/arch": arch, "proc/cpuinfo": cpuinfo})
    assert SOURCE.discover(host, SOURCE.config()).flags["cpu.cpuid"] == flags


def test_a_hybrid_processors_own_answer_is_that_of_one_core(tmp_path: Path) -> None:
    """In a recording; the kernel tells what others lack."""
    text = format_cpuid(core())
    files = {"cpuid": text, "proc/cpuinfo": blocks("flags", "fpu sse mmx", "fpu sse")}
    found = SOURCE.discover(make_host(tmp_path / "a", files), SOURCE.config()).flags["cpu.cpuid"]
    alone = SOURCE.discover(make_host(tmp_path / "b", {"cpuid": text}), SOURCE.config()).flags["cpu.cpuid"]
    assert alone - found == {"MMX", "X86_64_V1"}


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("rv64imafdcv_zicsr_zba", "I M A F D C V ZICSR ZBA"),
        ("rv64gc", "I M A F D C ZICSR ZIFENCEI"),
        ("rv32i2p1_m2p0_zmmul1p0_zve32f1p0_zvl128b", "I M ZMMUL ZVE32F ZVL128B"),
        ("rv64imafdcsu", "I M A F D C"),
        ("rv64imac_xtheadvector_smaia", "I M A C XTHEADVECTOR SMAIA"),
        ("rv64imafdch_", "I M A F D C H"),
        ("RV64IMA", "I M A"),
        ("x86", ""),
        ("rv64", ""),
        ("", ""),
    ],
)
def test_extensions_of_riscv(text: str, flags: str) -> None:
    assert parse_isa(text) == set(flags.split())


@pytest.mark.parametrize(
    ("cpuinfo", "vendor"),
    [("mvendorid\t: 0x489\n", "SiFive"), ("mvendorid\t: 0x0\n", "VendorUnknown"), ("", "VendorUnknown")],
)
def test_vendor_of_riscv(tmp_path: Path, cpuinfo: str, vendor: str) -> None:
    host = make_host(tmp_path, {"proc/sys/kernel/arch": "riscv64", "proc/cpuinfo": cpuinfo, "auxv": "HWCAP 0x1105"})
    found = scan(host, SOURCE)
    assert labels_of(found, SOURCE)["model.vendor_id"] == vendor
    assert found.features.flags["cpu.cpuid"] == {"A", "C", "I", "M"}, "the auxiliary vector has the letters"
