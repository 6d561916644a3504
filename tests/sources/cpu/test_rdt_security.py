"""Cache allocation and trusted execution."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from nfd.sources.cpu import SOURCE, rdt, security
from nfd.sources.cpu.cpuid import Cpuid, Registers, format_cpuid
from tests.sources.cpu.machines import machine
from tests.sources.hosts import labels_of, make_host, scan

Files = dict[str, str]


def security_of(root: Path, files: Files) -> dict[str, str]:
    host = make_host(root, files)
    return dict(SOURCE.discover(host, SOURCE.config()).attributes["cpu.security"])


def rdt_of(ebx: int, f0: int = 0, f1: int = 0, allocation: int = 0) -> Cpuid:
    leaves = {
        (7, 0): (0, ebx, 0, 0),
        (0xF, 0): (0, 0, 0, f0),
        (0xF, 1): (0, 0, 0, f1),
        (0x10, 0): (0, allocation, 0, 0),
    }
    return machine(leaves=leaves)


@pytest.mark.parametrize(
    ("cpuid", "expected"),
    [
        (rdt_of(0), set()),
        (rdt_of(0, 2, 7, 0xE), set()),
        (rdt_of(1 << 12, 0, 7), set()),
        (rdt_of(1 << 12, 2), {"RDTMON"}),
        (rdt_of(1 << 12, 2, 1), {"RDTMON", "RDTCMT"}),
        (rdt_of(1 << 12, 2, 2), {"RDTMON"}),
        (rdt_of(1 << 12, 2, 6), {"RDTMON", "RDTMBM"}),
        (rdt_of(1 << 15, 0, 0, 2), {"RDTL3CA"}),
        (rdt_of(1 << 15, 0, 0, 4), {"RDTL2CA"}),
        (rdt_of(1 << 15, 0, 0, 8), {"RDTMBA"}),
        (rdt_of(1 << 15), set()),
    ],
)
def test_rdt(cpuid: Cpuid, expected: set[str]) -> None:
    assert rdt.derive_rdt(cpuid) == dict.fromkeys(expected, "true")


RESCTRL = "sys/fs/resctrl"
MOUNT = "30 23 0:27 / /mnt/resctrl rw,relatime shared:9 - resctrl resctrl rw\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({f"{RESCTRL}/info/L3/num_closids": "16\n"}, "15"),
        ({f"{RESCTRL}/info/L3/num_closids": "1\n"}, "0"),
        ({f"{RESCTRL}/info/L3/num_closids": "0\n"}, None),
        ({f"{RESCTRL}/info/L3/num_closids": "1\x1f\n"}, None),
        ({f"{RESCTRL}/info/L3/num_closids": "many\n"}, None),
        ({f"{RESCTRL}/": "", "proc/self/mountinfo": MOUNT, "mnt/resctrl/info/L3/num_closids": "8\n"}, "7"),
        ({"proc/self/mountinfo": MOUNT, "mnt/resctrl/info/L3/num_closids": "8\n"}, None),
        ({f"{RESCTRL}/": "", "proc/self/mountinfo": "garbage - resctrl\n- \n"}, None),
    ],
)
def test_classes_of_service(tmp_path: Path, files: Files, expected: str | None) -> None:
    found = rdt.read_rdt(make_host(tmp_path, files), rdt_of(1 << 15, 0, 0, 2))
    assert found.get("RDTL3CA_NUM_CLOSID") == expected
    assert "RDTL3CA_NUM_CLOSID" not in rdt.read_rdt(make_host(tmp_path, {}), rdt_of(0))


def epc(*sections: Registers) -> Cpuid:
    return machine(leaves={(7, 0): (0, 4, 0, 0)} | {(0x12, 2 + index): one for index, one in enumerate(sections)})


@pytest.mark.parametrize(
    ("cpuid", "size"),
    [
        (epc(), 0),
        (epc((0x70C00001, 0x10, 0x7F400001, 0)), 0x7F400000),
        (epc((1, 0, 0x1000, 2), (1, 0, 0x2FFF, 0xFFF00000)), (2 << 32) + 0x3000),
        (epc((2, 0, 0x1000, 0), (1, 0, 0x2000, 0)), 0x2000),
        (epc((0, 0, 0x1000, 0), (1, 0, 0x2000, 0)), 0),
    ],
)
def test_epc_size(tmp_path: Path, cpuid: Cpuid, size: int) -> None:
    assert security.derive_epc_size(cpuid) == size
    found = security_of(tmp_path, {"cpuid": format_cpuid(cpuid)})
    assert found == ({"sgx.enabled": "true", "sgx.epc": str(size)} if size else {})


KVM_INTEL, KVM_AMD = "sys/module/kvm_intel/parameters", "sys/module/kvm_amd/parameters"
V2, V1 = "sys/fs/cgroup/misc.capacity", "sys/fs/cgroup/misc/misc.capacity"
TDX, SEV, SEV_ES = {"tdx.enabled": "true"}, {"sev.enabled": "true"}, {"sev.es.enabled": "true"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({f"{KVM_INTEL}/tdx": "Y\n"}, TDX),
        ({f"{KVM_INTEL}/tdx": "Y"}, {}),
        ({f"{KVM_INTEL}/tdx": "1\n"}, {}),
        ({f"{KVM_INTEL}/tdx": "N\n"}, {}),
        ({f"{KVM_INTEL}/tdx": "Y\n", V2: "tdx 63\n"}, {**TDX, "tdx.total_keys": "63"}),
        ({f"{KVM_INTEL}/tdx": "Y\n", V1: "tdx 63\n"}, {**TDX, "tdx.total_keys": "63"}),
        ({f"{KVM_INTEL}/tdx": "Y\n", V2: "sev 5\n", V1: "tdx 63\n"}, TDX),
        ({f"{KVM_INTEL}/tdx": "N\n", V2: "tdx 63\n"}, {}),
        ({f"{KVM_AMD}/sev": "Y\n", V2: "sev_es 99\nsev 410\n"}, {**SEV, "sev.asids": "410"}),
        ({f"{KVM_AMD}/sev_es": "1\n", V2: "sev 410\nsev_es 99\n"}, {**SEV_ES, "sev.encrypted_state_ids": "99"}),
        ({f"{KVM_AMD}/sev_snp": "Y\n"}, {"sev.snp.enabled": "true"}),
        ({f"{KVM_AMD}/sev": "0\n", f"{KVM_AMD}/sev_es": "", f"{KVM_AMD}/sev_snp": " Y\n"}, {}),
        ({"sys/firmware/uv/prot_virt_host": "1\n"}, {}),
    ],
)
def test_security(tmp_path: Path, files: Files, expected: dict[str, str]) -> None:
    assert security_of(tmp_path, files) == expected


@pytest.mark.parametrize(("text", "expected"), [("1\n", {"se.enabled": "true"}), ("1", {}), ("0\n", {}), ("", {})])
def test_secure_execution(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    files = {"proc/sys/kernel/arch": "s390x\n", "auxv": "HWCAP 0\n", "sys/firmware/uv/prot_virt_host": text}
    assert security_of(tmp_path, files) == expected


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("sev 5\n", "5"),
        ("sev  5\n", None),
        ("sev\n", None),
        ("sev max\n", None),
        ("sev_es 5\n", None),
        ("sev 5 6\n", "5"),
        ("sev 5\r\n", "5"),
        ("sev -1\n", None),
        (f"sev {1 << 63}\n", None),
    ],
)
def test_capacity(text: str, amount: str | None) -> None:
    assert security.parse_capacity(text, "sev") == amount


def test_counts_are_no_labels(tmp_path: Path) -> None:
    files = {f"{KVM_AMD}/sev": "Y\n", f"{KVM_AMD}/sev_es": "Y\n", V2: "sev 410\nsev_es 99\n"}
    found = labels_of(scan(make_host(tmp_path, files), SOURCE), SOURCE)
    assert {name for name in found if name.startswith("security.")} == {
        "security.sev.enabled",
        "security.sev.es.enabled",
    }


def test_what_we_may_not_read_takes_its_own_element_alone(tmp_path: Path) -> None:
    denied = [errno.EACCES, "Permission denied"]
    record = {
        "failures": {V2: denied, f"{RESCTRL}/info/L3/num_closids": denied},
        "unreachable": {V2: denied, V1: denied, RESCTRL: denied},
    }
    files = {f"{KVM_AMD}/sev": "Y\n", V2: "sev 410\n", f"{RESCTRL}/": "", "host.json": json.dumps(record)}
    host = make_host(tmp_path, files)
    assert security.read_x86(host, rdt_of(0), frozenset()) == SEV
    assert rdt.read_rdt(host, rdt_of(1 << 15, 0, 0, 2)) == {"RDTL3CA": "true"}
