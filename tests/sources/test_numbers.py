"""Numbers in files of the machine: none, or one too large for 64 bits, counts as not above zero and harms nobody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfd.discover import read_total
from gfd.source import booted_at
from nfd.host.blanks_and_numbers import parse_natural
from nfd.host.pcie import numa_node
from nfd.source import Source
from nfd.sources import accelerator, amd, pci
from nfd.sources.feature_reader import is_positive
from tests.sources.hosts import make_host, scan


@pytest.mark.parametrize(
    ("text", "positive"),
    [
        ("1", True),
        ("+7", True),
        ("0" * 5000 + "1", True),
        (str((1 << 63) - 1), True),
        (str(1 << 63), False),
        ("9" * 5000, False),
        ("0", False),
        ("-1", False),
        ("", False),
        (" 1", False),
        ("1_0", False),
        ("0x1", False),
        ("１", False),
        (None, False),
    ],
)
def test_is_positive(text: str | None, positive: bool) -> None:
    assert is_positive(text) is positive


ODD = ["9" * 5000, "²", "１", "-1", "+1", "0x1", "1_0", ""]
"""Texts that Python's `isdigit` or `int` may take for numbers, and that are none of 64 bits without a sign."""


@given(st.text() | st.from_regex(r"[0-9]{1,30}", fullmatch=True))
def test_natural_numbers(text: str) -> None:
    expected = int(text) if re.fullmatch(r"[0-9]+", text) and int(text) < 1 << 63 else None
    assert parse_natural(text) == expected


PCI = "sys/bus/pci/devices/0000:01:00.0"
GPU = {
    f"{PCI}/{name}": text
    for name, text in {"vendor": "0x1002", "device": "0x74a1", "class": "0x120000", "uevent": "DRIVER=amdgpu"}.items()
}
FILES = {
    "memory": (f"{PCI}/mem_info_vram_total", amd.SOURCE),
    "firmware": (f"{PCI}/fw_version/mec_fw_version", amd.SOURCE),
    "memory of accelerators": (f"{PCI}/mem_info_vram_total", accelerator.SOURCE),
    "NUMA node": (f"{PCI}/numa_node", pci.SOURCE),
}


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:8]))
@pytest.mark.parametrize(("path", "source"), FILES.values(), ids=FILES)
def test_a_file_of_a_device(tmp_path: Path, path: str, source: Source, text: str) -> None:
    found = scan(make_host(tmp_path, {**GPU, path: text}), source)
    assert (found.scans[source.name].error, dict(found.label_errors)) == (None, {})
    assert source.name in {name.partition(".")[0] for name in found.features.names()}


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:8]))
def test_a_file_of_the_kernel(tmp_path: Path, text: str) -> None:
    host = make_host(tmp_path, {"proc/stat": f"btime {text}\n", "proc/meminfo": f"MemTotal: {text} kB\n"})
    assert booted_at(host) == int(host.now())
    assert read_total(host) == (None, "")
    assert numa_node(text) is None
