"""The machine that the tests run on, and what is left where it may not be asked."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.host import Host
from nfd.sources.cpu import SOURCE, procinfo
from nfd.sources.cpu.cpuid import ECX, EDX, format_cpuid, parse_cpuid
from nfd.sources.cpu.cpuid_flags import derive_flags
from nfd.sources.cpu.cpuid_instruction import read_cpuid_text
from nfd.sources.cpu.hwcap import parse_hwcap, read_auxv_text
from tests.sources.hosts import make_host, scan

x86 = pytest.mark.skipif(Host().arch() != "x86_64", reason="no CPUID instruction here")

LOCKED = """
import ctypes, json, sys
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    sys.exit(77)
from nfd.host import Host
from nfd.sources.cpu import SOURCE
host = Host()
found = SOURCE.discover(host, SOURCE.config())
print(json.dumps([sorted(found.flags["cpu.cpuid"]), dict(found.attributes["cpu.model"]), host.take_notes()]))
"""


@x86
def test_instruction_and_kernel_agree() -> None:
    exact = parse_cpuid(read_cpuid_text())
    derived = procinfo.derive_cpuid(Path("/proc/cpuinfo").read_text())
    assert (exact.vendor, exact.family, exact.model) == (derived.vendor, derived.family, derived.model)
    assert derive_flags(derived) <= derive_flags(exact)
    assert exact.xcr0 & 3 == 3 or not exact.bit(1, ECX, 27)


@x86
def test_executed_once() -> None:
    assert read_cpuid_text() is read_cpuid_text()
    assert format_cpuid(parse_cpuid(read_cpuid_text())) == read_cpuid_text()


@x86
def test_auxiliary_vector() -> None:
    """On x86 the kernel's capability word is CPUID leaf 1 EDX, less what it has switched off."""
    words = parse_hwcap(read_auxv_text())
    assert set(words) == {"HWCAP", "HWCAP2"}
    assert words["HWCAP"] & ~parse_cpuid(read_cpuid_text()).registers(1)[EDX] == 0


@x86
def test_without_permission_to_run_machine_code() -> None:
    """PR_SET_MDWE refuses writable executable memory, as SELinux may: /proc/cpuinfo tells, and a note says so."""
    done = subprocess.run([sys.executable, "-c", LOCKED], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("the kernel knows no PR_SET_MDWE (Linux 6.3)")
    assert done.returncode == 0, done.stderr
    flags, model, notes = json.loads(done.stdout)
    exact = parse_cpuid(read_cpuid_text())
    assert set(flags) <= derive_flags(exact)
    assert "SSE2" in flags
    assert (model["vendor_id"], model["family"], model["id"]) == (exact.vendor, str(exact.family), str(exact.model))
    assert [subject for subject, _ in notes] == ["cpuid"]
    assert "machine code cannot be executed" in notes[0][1]


def test_live_scan_is_whole() -> None:
    found = SOURCE.discover(Host(), SOURCE.config())
    assert found.flags["cpu.cpuid"]
    assert {"vendor_id", "family", "id"} <= found.attributes["cpu.model"].keys()
    assert int(found.attributes["cpu.topology"].get("socket_count", "1")) >= 1


AMD_CPUINFO = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
siblings\t: 8
cpu cores\t: 4
cpuid level\t: 16
flags\t\t: fpu ht syscall ibrs ibpb stibp ssbd tdx_guest sev
"""


def test_cpuinfo_in_detail(tmp_path: Path) -> None:
    """Flags are those of all processors, all else is the first one's."""
    other = AMD_CPUINFO.replace("flags\t\t: ", "flags\t\t: avx512f ").replace("cpu family\t: 25", "cpu family\t: 26")
    assert other.count("avx512f") == 1
    assert "\t: 26" in other
    host = make_host(tmp_path, {"proc/cpuinfo": f"{AMD_CPUINFO}\n{other}"})
    found = SOURCE.discover(host, SOURCE.config())
    assert found.attributes["cpu.model"]["family"] == "25"
    assert {"X87", "HTT", "IBRS", "IBPB", "STIBP", "SPEC_CTRL_SSBD", "TDX_GUEST", "SEV"} <= found.flags["cpu.cpuid"]
    assert "AVX" not in found.flags["cpu.cpuid"]
    intel = procinfo.derive_cpuid(AMD_CPUINFO.replace("AuthenticAMD", "GenuineIntel"))
    assert "IBRS" not in derive_flags(intel)


@given(
    st.text() | st.lists(st.sampled_from([*AMD_CPUINFO.splitlines(), "model : 9" * 9, "flags:", ":"])).map("\n".join)
)
def test_hostile_cpuinfo(text: str) -> None:
    found = procinfo.derive_cpuid(text)
    assert parse_cpuid(format_cpuid(found)).leaves == found.leaves
    derive_flags(found)


@pytest.mark.parametrize(("code", "fails"), [(errno.EACCES, False), (errno.EPERM, False), (errno.ENOMEM, True)])
def test_only_policy_leads_to_cpuinfo(tmp_path: Path, code: int, fails: bool) -> None:
    """A failure that may pass makes the source fail, or its next run would take flags away."""
    record = json.dumps({"failures": {"probe:cpuid": [code, "refused"]}})
    found = scan(make_host(tmp_path, {"proc/cpuinfo": AMD_CPUINFO, "host.json": record}), SOURCE)
    assert bool(found.failed) is fails
    assert ("SYSCALL" in found.features.flags.get("cpu.cpuid", ())) is not fails
