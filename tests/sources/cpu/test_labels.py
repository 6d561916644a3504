"""Which flags become labels, and what is left when features are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nfd.features import Features
from nfd.sources.cpu import SOURCE
from nfd.sources.cpu.cpuid import format_cpuid
from tests.sources.cpu.machines import full_machine
from tests.sources.hosts import Failing, labels_of, make_host, scan

DEFAULT_BLACKLIST = {
    "AVX10", "BMI1", "BMI2", "CLMUL", "CMOV", "CX16", "ERMS", "F16C", "HTT",
    "LZCNT", "MMX", "MMXEXT", "NX", "POPCNT", "RDRAND", "RDSEED", "RDTSCP", "SGX",
    "SGXLC", "SSE", "SSE2", "SSE3", "SSE4", "SSE42", "SSSE3", "TDX_GUEST",
}  # fmt: skip


def flag_labels(root: Path, **options: Any) -> tuple[set[str], set[str]]:
    """All flags, and those that became labels."""
    found = scan(make_host(root, {"cpuid": format_cpuid(full_machine("AMD"))}), SOURCE, cpuid=options)
    labels = labels_of(found, SOURCE)
    assert labels["cpuid.AVX10_VERSION"] == "255"
    flags = set(found.features.flags["cpu.cpuid"])
    return flags, {name.removeprefix("cpuid.") for name in labels if name.startswith("cpuid.")} - {"AVX10_VERSION"}


def test_default_blacklist(tmp_path: Path) -> None:
    flags, shown = flag_labels(tmp_path)
    assert shown == flags - DEFAULT_BLACKLIST


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({"attributeBlacklist": []}, None),
        ({"attributeBlacklist": ["AVX", "avx2", "AVX5"]}, {"AVX"}),
        (
            {"attributeWhitelist": ["AVX512F", "SSE2", "NOSUCH", "avx"], "attributeBlacklist": ["SSE2"]},
            {"AVX512F", "SSE2"},
        ),
    ],
)
def test_lists(tmp_path: Path, options: dict[str, list[str]], shown: set[str] | None) -> None:
    """Exact names; the whitelist wins altogether."""
    flags, found = flag_labels(tmp_path, **options)
    if "attributeWhitelist" in options:
        assert found == shown
    else:
        assert found == flags - (shown or set())


def test_no_features_no_labels() -> None:
    assert SOURCE.labels(Features(), SOURCE.config()) == {}


def test_values_are_kept(tmp_path: Path) -> None:
    """False is a label, too."""
    files = {
        "sys/bus/cpu/devices/": "",
        "sys/devices/system/cpu/intel_pstate/status": "\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
    }
    found = labels_of(scan(make_host(tmp_path, files), SOURCE), SOURCE)
    assert found["hardware_multithreading"] == "false"
    assert "pstate.status" not in found, "an empty text"
    assert found["pstate.turbo"] == "false"
    assert found["model.hypervisor"] == "none"


def test_what_cannot_be_read_spoils_its_own_feature_alone(tmp_path: Path) -> None:
    policy = "sys/devices/system/cpu/cpufreq/policy0"
    files = {
        "sys/bus/cpu/devices/cpu0/topology/thread_siblings_list": "0-1\n",
        "sys/bus/cpu/devices/cpu0/topology/physical_package_id": "0\n",
        "sys/devices/system/cpu/intel_pstate/status": "active\n",
        f"{policy}/affected_cpus": "0\n",
        f"{policy}/scaling_governor": "performance\n",
        "cpuid": format_cpuid(full_machine("AMD")),
    }
    make_host(tmp_path, files)
    host = Failing(tmp_path)
    before = scan(host, SOURCE)
    assert not before.failed
    host.broken = frozenset({f"{policy}/scaling_governor"})
    assert scan(host, SOURCE, before).labels == before.labels
    fresh = scan(host, SOURCE)
    assert "scaling_governor" in fresh.failed["cpu"]
    missing = {key.rpartition("/")[2] for key in before.labels.keys() - fresh.labels.keys()}
    assert missing == {"cpu-pstate.status", "cpu-pstate.scaling_governor"}
