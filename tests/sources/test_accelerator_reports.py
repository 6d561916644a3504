"""Public reports about the labellers of vendors, as machines: what went wrong there is right here."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.discovery import Plan, discover
from nfd.fleet.dra_devices import NOTHING
from nfd.fleet.node_summary import summarize
from nfd.rules.parse import parse_custom
from nfd.source import Source
from nfd.sources import accelerator, amd, intel
from tests.sources import test_amd as amds
from tests.sources import test_intel as intels
from tests.sources.hosts import make_host
from tests.sources.test_accelerator import device as any_device

Files = dict[str, str]
Wanted = dict[str, str | None]
SOURCES = (accelerator.SOURCE, amd.SOURCE, intel.SOURCE)
GPU, ANY = "amd.com/gpu.", "feature.node.kubernetes.io/accelerator-"
INTEL, HAS = "gpu.intel.com/", "intel.feature.node.kubernetes.io/"


def partitions(device: str, parts: int, mode: str, memory: int, simds: int, bus: int = 5) -> Files:
    """One GPU, divided, with KFD's nodes."""
    files = amds.gpu(f"0000:{bus:02x}:00.0", device, current_compute_partition=mode, current_memory_partition="NPS1")
    for part in range(parts):
        size = (memory << 20) // parts
        files |= amds.node(part + 1, bus, part=part, simd_count=simds // parts, simd_per_cu=4, memory=size)
    return amds.CPU | files


REPORTS: list[tuple[str, Files, Wanted]] = [
    (
        "ROCm/k8s-device-plugin 112: a virtual function has no product name, and 191G",
        amds.MI300X_VF,
        {f"{GPU}product-name": "AMD_Instinct_MI300X_VF", f"{GPU}vram": "192G"},
    ),
    (
        "ROCm/gpu-operator 183, 266: a virtual function is not labelled, its model cannot be told",
        amds.gpu("0002:00:00.0", "74b5"),
        {f"{GPU}device-id": "74b5", f"{GPU}product-name": "AMD_Instinct_MI300X_VF", f"{ANY}amd.count": "1"},
    ),
    (
        "ROCm/k8s-device-plugin 104: parentheses in a name cost all labels",
        amds.BROKEN_NAME,
        {f"{GPU}product-name": "AMD_INSTINCT_MI250X_MCM_OAM_AC_MBA_MSFT", f"{GPU}device-id": "7408"},
    ),
    (
        "ROCm/k8s-device-plugin 108: partitions have the memory of the whole GPU",
        partitions("74a1", 8, "CPX", 196592, 1216),
        {f"{GPU}vram": "24G", f"{GPU}cu-count": "38", f"{GPU}device-id": "74a1"},
    ),
    (
        "ROCm/gpu-operator 555: memory of a partition and of the GPU are one label",
        partitions("75a3", 2, "DPX", 294896, 1024),
        {f"{GPU}vram": "144G", f"{ANY}amd.memory": "294896", f"{ANY}any.memory": "294896", f"{ANY}amd.count": "1"},
    ),
    (
        "ROCm/gpu-operator 1.5: a Radeon AI PRO has a general name",
        amds.gpu("0000:03:00.0", "7551", kind="0x030000", revision="0xc0"),
        {f"{GPU}product-name": "AMD_Radeon_AI_PRO_R9700"},
    ),
    (
        "ROCm/k8s-device-plugin 23: without the compute driver all is missing",
        amds.gpu("0000:03:00.0", "7999", mem_info_vram_total=str(16 << 30)),
        {f"{GPU}vram": "16G", f"{GPU}device-id": "7999", f"{GPU}cu-count": None, f"{GPU}simd-count": None},
    ),
    (
        "ROCm/k8s-device-plugin 33, 42: a GPU that compute does not support is labelled as if it were",
        amds.gpu("0000:03:00.0", "67df", kind="0x030000", mem_info_vram_total=str(8 << 30)),
        {f"{GPU}device-id": "67df", f"{GPU}cu-count": None, f"{GPU}simd-count": None, f"{ANY}amd.count": "1"},
    ),
    (
        "intel/intel-device-plugins-for-kubernetes 1255: numbers are right only if the first card is Intel's",
        intels.machine(
            intels.device("0000:02:00.0", "2000", "0300", "ast", vendor="1a03"),
            intels.device("0000:81:00.0", "56c0", "0380", "i915"),
            intels.modules("i915"),
        ),
        {f"{INTEL}device-id.0380-56c0.count": "1", f"{INTEL}device.count": "1", f"{ANY}intel.count": "1"},
    ),
    (
        "ROCm/k8s-device-plugin 86f10e02: two properties write one label",
        amds.MI25,
        {f"{GPU}simd-count": "256", f"{GPU}cu-count": "64"},
    ),
    (
        "intel/intel-device-plugins-for-kubernetes 877: GPUs of class 0380 have no label",
        intels.machine(intels.device("0000:03:00.0", "56c0", "0380", "i915"), intels.modules("i915")),
        {f"{HAS}gpu": "true", f"{INTEL}product": "Flex_170", f"{INTEL}family": "Flex_Series"},
    ),
    (
        "truecharts 29531: one id has the number of all GPUs",
        intels.ARC_750,
        {f"{INTEL}device-id.0300-4680.count": "1", f"{INTEL}device-id.0300-56a1.count": "1"},
    ),
    (
        "intel/intel-device-plugins-for-kubernetes 1907: labels without a driver promise a GPU",
        intels.device("0000:03:00.0", "56a6", "0300"),
        {f"{HAS}gpu": None, f"{INTEL}device-id.0300-56a6.present": "true", f"{ANY}intel.state": "no-driver"},
    ),
    (
        "intel/intel-device-plugins-for-kubernetes 1539: a processor's own GPU has a memory of 0",
        intels.TIGER_LAKE,
        {f"{ANY}intel.memory": None, f"{ANY}any.memory": None, f"{ANY}any.present": "true"},
    ),
    (
        "intel/intel-device-plugins-for-kubernetes 1964: ids of A-series GPUs are missing",
        intels.device("0000:03:00.0", "56bd", "0300", "i915"),
        {f"{INTEL}family": "A_Series"},
    ),
    (
        "intel/intel-resource-drivers-for-kubernetes: a Gaudi3 (1060) has no label",
        any_device("0000:19:00.0", "1da3:1060", "habanalabs"),
        {f"{HAS}gaudi": "true", f"{ANY}habana.product": "Gaudi3"},
    ),
    (
        "dell/omnia 2359: a new Gaudi node has no label until something else works",
        any_device("0000:19:00.0", "1da3:1020", ""),
        {f"{HAS}gaudi": "true", f"{ANY}habana.present": "true", f"{ANY}habana.state": "no-driver"},
    ),
    (
        "rebellions-sw/rbln-npu-feature-discovery: an id that is not known costs all labels",
        any_device("0000:01:00.0", "1eff:1251", "rebellions"),
        {"rebellions.ai/npu.product": "RBLN-CA25", "rebellions.ai/npu.present": "true"},
    ),
    (
        "NVIDIA/gpu-feature-discovery 13: a mixed node has the memory of the first GPU",
        amds.MIXED,
        {f"{GPU}vram": None, f"{GPU}vram.64G": "1", f"{GPU}vram.192G": "2", f"{ANY}amd.memory": "65536"},
    ),
]


def plan(sources: tuple[Source, ...]) -> Plan:
    return Plan(sources, sources, {source.name: source.config() for source in sources})


@pytest.mark.parametrize(("files", "wanted"), [pytest.param(*rest, id=name) for name, *rest in REPORTS])
def test_report(tmp_path: Path, files: Files, wanted: Wanted) -> None:
    found = discover(make_host(tmp_path, files), plan(SOURCES))
    assert not found.failed
    assert {key: found.labels.get(key) for key in wanted} == wanted
    assert "" not in found.labels.values()


def test_a_gpu_that_compute_does_not_support_is_named(tmp_path: Path) -> None:
    """ROCm/k8s-device-plugin 33, 42: labels are there, and no resource is."""
    files = next(files for name, files, _ in REPORTS if "33, 42" in name)
    labels = discover(make_host(tmp_path, files), plan(SOURCES)).labels
    node = {
        "metadata": {"name": "n", "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert summarize(node, known=NOTHING).problems == ("AMD GPU: not offered, no device plug-in",)


def test_a_rule_without_labels(tmp_path: Path) -> None:
    """intel/intel-device-plugins-for-kubernetes 1556, helm-charts 41: a rule whose key `labels` has no value."""
    (parsed,) = parse_custom([{"name": "r", "labels": None, "matchFeatures": []}])
    assert parsed.rule is not None, parsed
    assert not parsed.rule.labels


def test_nothing_stays_of_a_source_that_is_switched_off(tmp_path: Path) -> None:
    """intel/intel-device-plugins-for-kubernetes 1181: labels and files stay after the plug-in is gone."""
    host = make_host(tmp_path, intels.TIGER_LAKE)
    before = discover(host, plan(SOURCES))
    assert {f"{HAS}gpu", f"{ANY}any.present"} < before.labels.keys()
    after = discover(host, plan((accelerator.SOURCE, amd.SOURCE)), before)
    assert {key for key in before.labels if key not in after.labels} == {
        key for key in before.labels if key.startswith((INTEL, HAS))
    }
    assert discover(host, plan((amd.SOURCE,)), after).labels == {}
