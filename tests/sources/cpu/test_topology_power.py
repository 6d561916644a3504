"""Topology and power."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.host.replay import Replay
from nfd.sources.cpu import SOURCE, topology
from nfd.sources.cpu.cpuid import format_cpuid
from tests.sources.cpu.machines import machine
from tests.sources.hosts import labels_of, make_host, scan

CPU = "sys/devices/system/cpu"
BUS = "sys/bus/cpu/devices"
Files = dict[str, str]


def elements(root: Path, feature: str, files: Mapping[str, str]) -> dict[str, str] | None:
    host = make_host(root, files)
    found = SOURCE.discover(host, SOURCE.config()).attributes.get(f"cpu.{feature}")
    return None if found is None else dict(found)


def cores(*cpus: tuple[str, str] | None, packages: Mapping[str, str] | None = None) -> Files:
    """Siblings and package of each CPU; None is one that is offline."""
    files: Files = {}
    for number, cpu in enumerate(cpus):
        path = f"{BUS}/cpu{number}"
        if cpu is None:
            files[f"{path}/online"] = "0\n"
            continue
        files[f"{path}/topology/thread_siblings_list"] = f"{cpu[0]}\n"
        files[f"{path}/topology/physical_package_id"] = f"{cpu[1]}\n"
        if packages:
            files[f"{path}/topology/package_cpus_list"] = f"{packages[cpu[1]]}\n"
    return files


def topology_is(threads: str, sockets: str) -> dict[str, str]:
    return {"hardware_multithreading": threads, "socket_count": sockets}


TWO = {"0": "0-1", "1": "2-3"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({f"{BUS}/": ""}, topology_is("false", "0")),
        (cores(("0", "0"), ("1", "0")), topology_is("false", "1")),
        (cores(("0-1", "0"), ("0-1", "0")), topology_is("true", "1")),
        (cores(("0,2", "0"), ("1,3", "1"), ("0,2", "0"), ("1,3", "1")), topology_is("true", "2")),
        (cores(("0", "0"), ("1,3", "0"), None, ("1,3", "0")), topology_is("true", "1")),
        (cores(None, ("1", "1")), topology_is("false", "1")),
        (cores(None, None), {}),
        (cores(("0", "-1"), ("1", "-1")), topology_is("false", "1")),
        (cores(("0", "0"), ("1", "0"), *(("2-3", "1"),) * 2, packages=TWO), topology_is("true", "2")),
        (cores(*(("0-1", "0"),) * 2, *(("2-3", "1"),) * 2, packages=TWO), topology_is("true", "2")),
        (cores(("0", "0"), ("1", "1"), packages={"0": "garbage", "1": "9-1"}), topology_is("false", "2")),
        ({f"{BUS}/cpu0/topology/thread_siblings_list": "0-1\n"}, {}),
        ({f"{BUS}/odd/topology/thread_siblings_list": "0\n", f"{BUS}/odd/topology/physical_package_id": "7\n"},
         topology_is("false", "1")),
    ],
)  # fmt: skip
def test_topology(tmp_path: Path, files: Files, expected: dict[str, str]) -> None:
    assert elements(tmp_path, "topology", files) == expected


def test_large_machine_costs_few_files(tmp_path: Path) -> None:
    """192 CPUs with two threads per core in two packages: once both are known, nobody asks each CPU."""
    cpus = [(f"{number % 96},{number % 96 + 96}", str(number % 96 // 48)) for number in range(192)]
    host = Counting(make_host(tmp_path, cores(*cpus, packages={"0": "0-47,96-143", "1": "48-95,144-191"})).root)
    assert topology.read_topology(host) == topology_is("true", "2")
    assert host.reads == 6


class Counting(Replay):
    reads = 0

    def data(self, path: str, limit: int = 4096) -> bytes | None:
        self.reads += 1
        return super().data(path, limit)


@given(st.text(st.sampled_from("0123456789,- x\n"), max_size=40))
def test_hostile_ranges(text: str) -> None:
    assert all(low >= 0 and high >= 0 for low, high in topology.parse_ranges(text))


@pytest.mark.parametrize(("name", "label"), [("cpu_core", "cpu_core"), ("cpu_atom", "cpu_atom")])
def test_core_types(tmp_path: Path, name: str, label: str) -> None:
    found = scan(make_host(tmp_path, {f"sys/devices/{name}/cpus": "0-7\n"}), SOURCE)
    assert found.features.flags["cpu.coretype"] == {name}
    assert labels_of(found, SOURCE)[label] == "true"


IDLE = {f"{CPU}/cpuidle/current_driver": "intel_idle\n"}
MAX_CSTATE = "sys/module/intel_idle/parameters/max_cstate"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({f"{CPU}/": ""}, {}),
        ({f"{CPU}/cpuidle/": ""}, None),
        ({f"{CPU}/cpuidle/current_driver": "acpi_idle\n"}, {}),
        ({f"{CPU}/cpuidle/current_driver": ""}, {}),
        (IDLE, None),
        ({**IDLE, MAX_CSTATE: "9\n"}, {"enabled": "true"}),
        ({**IDLE, MAX_CSTATE: "+1\n"}, {"enabled": "true"}),
        ({**IDLE, MAX_CSTATE: "0\n"}, {"enabled": "false"}),
        ({**IDLE, MAX_CSTATE: "-1\n"}, {"enabled": "false"}),
        ({**IDLE, MAX_CSTATE: "nine\n"}, None),
        ({**IDLE, MAX_CSTATE: "1_0\n"}, None),
        ({**IDLE, MAX_CSTATE: "\n"}, None),
    ],
)
def test_cstate(tmp_path: Path, files: Files, expected: dict[str, str] | None) -> None:
    assert elements(tmp_path, "cstate", files) == expected


def pstate(status: str, no_turbo: str | None = "0\n") -> Files:
    files = {f"{CPU}/intel_pstate/status": f"{status}\n"}
    return files if no_turbo is None else {**files, f"{CPU}/intel_pstate/no_turbo": no_turbo}


def policies(*found: tuple[str | None, str | None]) -> Files:
    """Affected CPUs and governor of each policy."""
    files: Files = {}
    for number, (affected, governor) in enumerate(found):
        for name, text in (("affected_cpus", affected), ("scaling_governor", governor)):
            if text is not None:
                files[f"{CPU}/cpufreq/policy{number}/{name}"] = f"{text}\n"
    return files


def active(**governor: str) -> dict[str, str]:
    return {"status": "active", "turbo": "true", **governor}


PERFORMANCE = active(scaling_governor="performance")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, {}),
        ({f"{CPU}/amd_pstate/status": "active\n"}, {}),
        ({f"{CPU}/intel_pstate/": ""}, {}),
        (pstate("off"), {}),
        (pstate("passive", "1\n"), {"status": "passive", "turbo": "false"}),
        (pstate("passive", None), {"status": "passive"}),
        (pstate("passive", ""), {"status": "passive"}),
        (pstate("passive", " 0\n"), {"status": "passive", "turbo": "false"}),
        (pstate("passive", "0"), {"status": "passive", "turbo": "true"}),
        (pstate("passive") | policies(("0", "schedutil")), {"status": "passive", "turbo": "true"}),
        (pstate(""), {"status": "", "turbo": "true"}),
        (pstate("active"), active()),
        (pstate("active") | {f"{CPU}/cpufreq/": ""}, active()),
        (pstate("active") | policies(("0", "performance"), ("1", "performance")), PERFORMANCE),
        (pstate("active") | policies(("0", "performance"), ("1", "powersave")), active()),
        (pstate("active") | policies(("0", "performance"), ("", "powersave")), PERFORMANCE),
        (pstate("active") | policies(("", "powersave"), ("1", "performance")), PERFORMANCE),
        (pstate("active") | policies(("0", "performance"), (None, "powersave"), ("2", None)), PERFORMANCE),
        (pstate("active") | policies(("0", ""), ("1", "performance")), PERFORMANCE),
        (pstate("active") | policies(("0", "performance"), ("1", "")), active()),
        (pstate("active") | policies(("0", "")), active()),
        (pstate("active") | policies((None, None)), active()),
    ],
)
def test_pstate(tmp_path: Path, files: Files, expected: dict[str, str]) -> None:
    assert elements(tmp_path, "pstate", files) == expected


def frequencies(nominal: int, *bases: str | None) -> Files:
    files = {"cpuid": format_cpuid(machine(leaves={(0x16, 0): (nominal, 0, 0, 0)})), f"{BUS}/": ""}
    for number, base in enumerate(bases):
        if base is not None:
            files[f"{BUS}/cpu{number}/cpufreq/base_frequency"] = f"{base}\n"
    return files


BF = {"bf.enabled": "true"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (frequencies(2300), {}),
        (frequencies(2300, "2300000", "2300999"), {}),
        (frequencies(2300, "2100000", "2700000"), BF),
        (frequencies(2300, None, "2301000"), BF),
        (frequencies(0, "2700000"), {}),
        (frequencies(2300, "fast", "2700000"), {}),
        (frequencies(2300, "2700000", "fast"), BF),
    ],
)
def test_sst(tmp_path: Path, files: Files, expected: dict[str, str]) -> None:
    assert elements(tmp_path, "sst", files) == expected


def test_sst_label(tmp_path: Path) -> None:
    found = scan(make_host(tmp_path, frequencies(2300, "2700000")), SOURCE)
    assert labels_of(found, SOURCE)["power.sst_bf.enabled"] == "true"


@pytest.mark.parametrize(("code", "fails"), [(errno.EACCES, False), (errno.EPERM, False), (errno.EIO, True)])
def test_what_may_not_be_read_spoils_only_itself(tmp_path: Path, code: int, fails: bool) -> None:
    """Files that refuse us are noted; a failure that may pass makes the source fail, so that nothing is taken away."""
    files = cores(("0", "0")) | pstate("active")
    record = {"failures": {f"{BUS}/": [code, "out of order"]}}
    found = scan(make_host(tmp_path, {**files, "host.json": json.dumps(record)}), SOURCE)
    assert bool(found.failed) is fails
    assert any("out of order" in problem.reason for problem in found.problems)
    if not fails:
        assert found.features.attributes["cpu.topology"] == {}
        assert found.features.attributes["cpu.pstate"] == {"status": "active", "turbo": "true"}


def test_an_offline_cpu_has_no_base_frequency(tmp_path: Path) -> None:
    """The kernel answers EBUSY for it, as for all files of its policy."""
    busy = {f"{BUS}/cpu0/cpufreq/base_frequency": [errno.EBUSY, "Device or resource busy"]}
    files = frequencies(2300, "2300000", "2700000") | {"host.json": json.dumps({"failures": busy})}
    found = scan(make_host(tmp_path, files), SOURCE)
    assert found.features.attributes["cpu.sst"] == BF
    assert not found.problems


def test_a_policy_without_a_governor(tmp_path: Path) -> None:
    """The kernel answers EINVAL (Linux, drivers/cpufreq/cpufreq.c, show_scaling_governor)."""
    files = pstate("active") | policies(("0", "performance"), ("1", "powersave"))
    without = {f"{CPU}/cpufreq/policy1/scaling_governor": [errno.EINVAL, "Invalid argument"]}
    found = scan(make_host(tmp_path, {**files, "cpuid": "", "host.json": json.dumps({"failures": without})}), SOURCE)
    assert found.features.attributes["cpu.pstate"] == PERFORMANCE
    assert not found.failed


def test_offline_policy_is_silent(tmp_path: Path) -> None:
    """The kernel answers EBUSY for a policy without CPUs: no governor, and nothing to tell anybody."""
    files = pstate("active") | policies(("0", "performance"), ("", "powersave"))
    busy = {f"{CPU}/cpufreq/policy1/scaling_governor": [errno.EBUSY, "Device or resource busy"]}
    host = make_host(tmp_path, {**files, "cpuid": "", "host.json": json.dumps({"failures": busy})})
    found = scan(host, SOURCE)
    assert found.features.attributes["cpu.pstate"] == PERFORMANCE
    assert not found.problems


def test_a_policy_that_we_may_not_read_is_passed_over(tmp_path: Path) -> None:
    files = pstate("active") | policies(("0", "performance"), ("1", "powersave"))
    denied = {f"{CPU}/cpufreq/policy1/scaling_governor": [errno.EACCES, "Permission denied"]}
    host = make_host(tmp_path, {**files, "cpuid": "", "host.json": json.dumps({"failures": denied})})
    found = scan(host, SOURCE)
    assert found.features.attributes["cpu.pstate"] == PERFORMANCE
    assert [problem.reason for problem in found.problems] == ["Permission denied"]
