"""Hardware capability words of all architectures but x86."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import HostError
from nfd.sources.cpu import SOURCE, tables
from nfd.sources.cpu.hwcap import derive_flags, parse_hwcap
from nfd.sources.cpu.tables import Capability
from tests.sources.hosts import labels_of, make_host, scan

ALL = 2**64 - 1
ROWS = [(arch, row) for arch in ("arm64", "arm", "ppc64le", "s390x") for row in tables.hwcap(arch)]


@pytest.mark.parametrize(("arch", "row"), ROWS, ids=lambda one: one if isinstance(one, str) else one.flag)
def test_each_bit(arch: str, row: Capability) -> None:
    assert derive_flags({row.word: row.mask}, arch) == {row.flag}
    words = {"HWCAP": ALL, "HWCAP2": ALL} | {row.word: ALL & ~row.mask}
    assert derive_flags(words, arch) == {other.flag for other in tables.hwcap(arch)} - {row.flag}


@pytest.mark.parametrize(("arch", "count"), [("arm64", 66), ("arm", 27), ("ppc64le", 43), ("s390x", 23), ("", 0)])
def test_tables_are_whole(arch: str, count: int) -> None:
    rows = tables.hwcap(arch)
    assert len(rows) == len({row.flag for row in rows}) == len({row[1:] for row in rows}) == count


def test_notation() -> None:
    assert parse_hwcap("# by hand\n\n HWCAP 0x1F # low\nHWCAP2\t3\nHWCAP3 1\n") == {
        "HWCAP": 0x1F,
        "HWCAP2": 3,
        "HWCAP3": 1,
    }


@pytest.mark.parametrize(
    "line", ["HWCAP", "HWCAP g", "HWCAP 1 2", "hwcap 1", "PLATFORM 1", "HWCAP -1", "HWCAP " + "1" * 17]
)
def test_malformed_line_is_named(line: str) -> None:
    with pytest.raises(HostError, match=r"^auxv: line 2: "):
        parse_hwcap(f"HWCAP 1\n{line}\n")


@given(st.text() | st.text(st.sampled_from("HWCAP2 0123abcx#\n"), max_size=80))
def test_hostile_text(text: str) -> None:
    """Either understood or refused in one line."""
    try:
        words, refusal = parse_hwcap(text), ""
    except HostError as error:
        words, refusal = {}, str(error)
    assert "\n" not in refusal
    assert all(0 <= value <= ALL for value in words.values())


def test_flags_by_proc_cpuinfo(tmp_path: Path) -> None:
    """Without an auxiliary vector the kernel's names tell, and the report says so."""
    files = {"proc/sys/kernel/arch": "aarch64\n", "proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd sve2 novelty\n"}
    found = scan(make_host(tmp_path, files), SOURCE)
    assert found.features.flags["cpu.cpuid"] == {"FP", "ASIMD", "SVE2"}
    assert [problem.subject for problem in found.problems] == ["auxv"]


@pytest.mark.parametrize("arch", ["armv5tel", "armv6l", "armv7l", "armv8l", "arm"])
def test_32_bit_arm_by_proc_cpuinfo(arch: str, tmp_path: Path) -> None:
    """What /proc/cpuinfo calls them in arch/arm/kernel/setup.c of Linux."""
    names = "swp half thumb 26bit fastmult fpa vfp edsp java iwmmxt crunch thumbee neon vfpv3 vfpv3d16 tls vfpv4 idiva"
    names += " idivt vfpd32 lpae evtstrm aes pmull sha1 sha2 crc32"
    files = {"proc/sys/kernel/arch": f"{arch}\n", "proc/cpuinfo": f"processor\t: 0\nFeatures\t: {names}\n"}
    found = scan(make_host(tmp_path, files), SOURCE)
    assert found.features.flags["cpu.cpuid"] == {row.flag for row in tables.hwcap("arm")}


def test_illegal_flag_name_is_cleaned(tmp_path: Path) -> None:
    files = {"proc/sys/kernel/arch": "ppc64le\n", "auxv": f"HWCAP {1 << 17:x}\n"}
    found = scan(make_host(tmp_path, files), SOURCE)
    assert found.features.flags["cpu.cpuid"] == {"POWER5+"}
    assert labels_of(found, SOURCE)["cpuid.POWER5"] == "true"


def test_accelerator_of_power(tmp_path: Path) -> None:
    files = {"proc/sys/kernel/arch": "ppc64le\n", "auxv": "HWCAP 0\n"}
    assert scan(make_host(tmp_path, files), SOURCE).features.attributes["cpu.coprocessor"] == {}
    found = scan(make_host(tmp_path, {"sys/devices/vio/ibm,compression-v1/nx_gzip_caps/": ""}), SOURCE)
    assert labels_of(found, SOURCE)["coprocessor.nx_gzip"] == "true"
