"""AMD's GPUs: the labels that AMD's node labeller writes, and where they deviate from it.

The machines are those of the test data of ROCm/k8s-device-plugin (MI25, MI210, MI308X), of public reports (a virtual
function of MI300X, MI350X), and made by hand (mixed models, no driver, several partitions).
"""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from nfd.discovery import Discovery
from nfd.sources import amd
from tests.sources.hosts import make_host, scan

PCI = "sys/bus/pci/devices"
KFD = "sys/class/kfd/kfd/topology/nodes"
NO_DRIVER = ""


def gpu(address: str, device: str, driver: str = "amdgpu", kind: str = "0x120000", **files: str) -> dict[str, str]:
    """Files of a GPU; two underscores in a name stand for a slash."""
    made = {"vendor": "0x1002", "device": f"0x{device}", "class": kind, "revision": "0x00"} | files
    made["uevent"] = f"DRIVER={driver}\nPCI_ID=1002:{device}" if driver else f"PCI_ID=1002:{device}"
    return {f"{PCI}/{address}/{name.replace('__', '/')}": f"{text}\n" for name, text in made.items()}


def node(number: int, bus: int, *, memory: int = 0, domain: int = 0, part: int = 0, **numbers: int) -> dict[str, str]:
    """Files of a KFD node."""
    usual = {"cpu_cores_count": 0, "vendor_id": 4098, "domain": domain, "location_id": (bus << 8) + part}
    lines = "".join(f"{name} {value}\n" for name, value in (usual | numbers).items())
    bank = {f"{KFD}/{number}/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {memory}\n"} if memory else {}
    return {f"{KFD}/{number}/properties": lines} | bank


def labels_of(found: Discovery) -> dict[str, str]:
    return {key.removeprefix("amd.com/gpu."): value for key, value in found.labels.items()}


CPU = {f"{KFD}/0/properties": "cpu_cores_count 20\nsimd_count 0\n"}
MI25 = CPU | gpu("0000:19:00.0", "6860") | node(1, 0x19, simd_count=256, simd_per_cu=4, memory=17163091968)
MI210 = CPU | {
    path: text
    for number, bus in enumerate((0x63, 0x43, 0x03, 0x26, 0xE3, 0xC3, 0x83, 0xA3))
    for path, text in (
        gpu(f"0000:{bus:02x}:00.0", "740f", kind="0x038000")
        | node(number + 2, bus, simd_count=416, simd_per_cu=4, gfx_target_version=90010)
    ).items()
}
MI308X_BUSES = ((0, 0x0A), (0, 0x80), (0, 0xA4), (0, 0xC8), (1, 0x0B), (1, 0x81), (1, 0xA5), (1, 0xC9))
MI308X = CPU | {
    path: text
    for number, (domain, bus) in enumerate(MI308X_BUSES)
    for part in range(4)
    for path, text in (
        gpu(f"{domain:04x}:{bus:02x}:00.0", "74a2", current_compute_partition="CPX", current_memory_partition="NPS1")
        | node(
            2 + 4 * number + part,
            bus,
            domain=domain,
            part=part,
            simd_count=80,
            simd_per_cu=4,
            memory=51522830336 if part == 3 else 51539607552,
        )
    ).items()
}
MI300X_VF = (
    CPU | gpu("0002:00:00.0", "74b5") | node(1, 0, domain=2, simd_count=1216, simd_per_cu=4, memory=196592 << 20)
)
MI300X_VF |= {"sys/module/amdgpu/version": "6.8.5\n", "sys/module/amdgpu/srcversion": "0A82C3819E55873715679EA\n"}
MI350X = CPU | gpu("0000:05:00.0", "75a0") | node(1, 5, simd_count=1024, simd_per_cu=4, memory=309220868096)
MIXED = gpu("0000:01:00.0", "740f") | gpu("0000:02:00.0", "74a1") | gpu("0000:03:00.0", "74a1")
BROKEN_NAME = gpu("0000:01:00.0", "7408", product_name="AMD INSTINCT MI250X (MCM) OAM AC MBA MSFT")


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (
            MI25,
            {
                "device-id": "6860",
                "product-name": "AMD_Radeon_Instinct_MI25",
                "family": "AI",
                "vram": "16G",
                "simd-count": "256",
                "cu-count": "64",
            },
        ),
        (
            MI210,
            {
                "device-id": "740f",
                "product-name": "AMD_Instinct_MI210",
                "family": "AI",
                "vram": "64G",
                "simd-count": "416",
                "cu-count": "104",
            },
        ),
        (
            MI308X,
            {
                "device-id": "74a2",
                "product-name": "AMD_Instinct_MI308X",
                "family": "AI",
                "vram": "48G",
                "simd-count": "80",
                "cu-count": "20",
            },
        ),
        (
            MI300X_VF,
            {
                "device-id": "74b5",
                "product-name": "AMD_Instinct_MI300X_VF",
                "family": "AI",
                "vram": "192G",
                "simd-count": "1216",
                "cu-count": "304",
                "driver-version": "6.8.5",
            },
        ),
        (
            MI350X,
            {
                "device-id": "75a0",
                "product-name": "AMD_Instinct_MI350X",
                "family": "AI",
                "vram": "288G",
                "simd-count": "1024",
                "cu-count": "256",
            },
        ),
        (
            MIXED,
            {
                "device-id.740f": "1",
                "device-id.74a1": "2",
                "product-name.AMD_Instinct_MI210": "1",
                "product-name.AMD_Instinct_MI300X": "2",
                "family": "AI",
                "vram.64G": "1",
                "vram.192G": "2",
                "simd-count.416": "1",
                "simd-count.1216": "2",
                "cu-count.104": "1",
                "cu-count.304": "2",
            },
        ),
    ],
    ids=["MI25", "MI210", "MI308X", "MI300X-VF", "MI350X", "mixed"],
)
def test_labels_of_machines(tmp_path: Path, machine: dict[str, str], expected: dict[str, str]) -> None:
    found = scan(make_host(tmp_path, machine), amd.SOURCE)
    assert labels_of(found) == expected
    assert not found.failed


def test_the_older_names_have_counts(tmp_path: Path) -> None:
    found = scan(make_host(tmp_path, MI308X), amd.SOURCE, beta=True).labels
    assert found["beta.amd.com/gpu.device-id.74a2"] == "8"
    assert found["beta.amd.com/gpu.vram.48G"] == "32"
    assert found["beta.amd.com/gpu.cu-count"] == "20"


def test_partition_labels(tmp_path: Path) -> None:
    options = dict.fromkeys(("computeMemoryPartition", "computePartitioningSupported", "driverType"), True)
    found = labels_of(scan(make_host(tmp_path, MI308X), amd.SOURCE, **options))
    assert found["compute-memory-partition"] == "cpx_nps1"
    assert found["compute-partitioning-supported"] == "false"
    assert found["mode"] == "container"


def test_a_name_that_is_no_label_is_cleaned(tmp_path: Path) -> None:
    found = labels_of(scan(make_host(tmp_path, BROKEN_NAME), amd.SOURCE))
    assert found["product-name"] == "AMD_INSTINCT_MI250X_MCM_OAM_AC_MBA_MSFT"


def deny(machine: dict[str, str], number: int) -> dict[str, str]:
    failures = {f"{KFD}/{one}/properties": [errno.EPERM, "Operation not permitted"] for one in range(1, number + 1)}
    return machine | {"host.json": json.dumps({"failures": failures})}


@pytest.mark.parametrize("number", [7, 40])
def test_a_topology_that_may_not_be_read_loses_no_label(tmp_path: Path, number: int) -> None:
    """The kernel lets nobody read it who may not open the render device, which is no news about the GPU."""
    before = scan(make_host(tmp_path / "a", MI308X), amd.SOURCE, beta=True)
    found = scan(make_host(tmp_path / "b", deny(MI308X, number)), amd.SOURCE, beta=True)
    assert found.labels == before.labels
    assert not found.failed


def test_what_is_not_known_otherwise_is_unknown(tmp_path: Path) -> None:
    """A GPU of which no table has the compute units: the source counts as failed, so that none of its labels goes."""
    machine = CPU | gpu("0000:01:00.0", "7999", mem_info_vram_total=str(16 << 30)) | node(1, 1, simd_count=64)
    before = scan(make_host(tmp_path / "a", machine), amd.SOURCE)
    assert labels_of(before)["cu-count"] == "16"
    denied = make_host(tmp_path / "b", deny(machine, 1))
    assert scan(denied, amd.SOURCE, before).labels == before.labels
    first = scan(denied, amd.SOURCE)
    assert "amd" in first.doubtful
    assert labels_of(first) == {"device-id": "7999", "vram": "16G"}


def test_before_the_driver(tmp_path: Path) -> None:
    with_driver = scan(make_host(tmp_path / "a", gpu("0000:05:00.0", "74a1")), amd.SOURCE)
    without = scan(make_host(tmp_path / "b", gpu("0000:05:00.0", "74a1", driver=NO_DRIVER)), amd.SOURCE)
    assert without.labels == with_driver.labels


def test_what_virtual_machines_have_is_not_counted(tmp_path: Path) -> None:
    machine = gpu("0000:05:00.0", "74a1", driver="vfio-pci")
    found = labels_of(scan(make_host(tmp_path, machine), amd.SOURCE, driverType=True))
    assert found == {"mode": "pf-passthrough"}


def test_a_gpu_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    before = scan(make_host(tmp_path / "a", MIXED), amd.SOURCE)
    found = scan(make_host(tmp_path / "b", gpu("0000:01:00.0", "740f")), amd.SOURCE, before)
    assert labels_of(found)["device-id"] == "740f"
    assert not any("74a1" in key for key in found.labels)
    assert scan(make_host(tmp_path / "c", {f"{PCI}/": ""}), amd.SOURCE, before).labels == {}
