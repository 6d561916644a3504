"""Accelerators of every vendor, by labels and resources: no share, partition or monitoring resource is a device."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.cli.gpus import as_bars
from nfd.cli.nodes import HEAD, WIDE, cells_of
from nfd.cli.terminal_tables import Style
from nfd.fleet.accelerators import DEVICE, PARTITION, SHARE, VIEW, read_accelerators, unit_of
from nfd.fleet.dra_devices import NOTHING
from nfd.fleet.gpus import group
from nfd.fleet.node_summary import summarize, to_json
from nfd.fleet.pods import ask_of
from nfd.master.page.picture import fleet_data
from nfd.store.base import Node
from tests.fleet.dra_objects import AMD, amd_gpu, count, resource_slice
from tests.fleet.test_summary import T4, node, pod

A = "feature.node.kubernetes.io/accelerator-"
PLAIN = Style(False)


def of(vendor: str, product: str, count: int, memory: int = 0, **more: str) -> dict[str, str]:
    found = {"present": "true", "product": product, "count": str(count)} | ({"memory": str(memory)} if memory else {})
    return {f"{A}{vendor}.{key}": value for key, value in {**found, **more}.items()}


def offering(labels: dict[str, str], amounts: dict[str, str], name: str = "n") -> dict[str, Any]:
    found = node(labels, name)
    found["status"]["capacity"] |= amounts
    found["status"]["allocatable"] |= amounts
    return found


MI300X = of("amd", "AMD_Instinct_MI300X", 8, 196592, driver="amdgpu")
NEURON = of("aws", "Trainium", 16, 32768)
MIXED = {**T4, **of("amd", "AMD_Instinct_MI210", 2, 65536), **of("habana", "Gaudi2", 1, 98304)}
MIXED |= of("intel-npu", "Meteor_Lake_NPU", 1)


@pytest.mark.parametrize(
    ("resource", "vendor", "kind"),
    [
        ("amd.com/gpu", "amd", DEVICE),
        ("amd.com/cpx_nps4", "amd", PARTITION),
        ("gpu.intel.com/i915", "intel", SHARE),
        ("gpu.intel.com/xe", "intel", SHARE),
        ("npu.intel.com/accel", "intel-npu", SHARE),
        ("habana.ai/gaudi", "habana", DEVICE),
        ("aws.amazon.com/neuron", "aws", DEVICE),
        ("aws.amazon.com/neuroncore", "aws", VIEW),
        ("google.com/tpu", "google", DEVICE),
        ("qualcomm.com/qaic", "qualcomm", DEVICE),
        ("huawei.com/Ascend910", "huawei", DEVICE),
        ("huawei.com/Ascend910-2c", "huawei", PARTITION),
        ("huawei.com/Ascend910-5c.1cpu.8g", "huawei", PARTITION),
        ("furiosa.ai/rngd", "furiosa", DEVICE),
        ("furiosa.ai/rngd-2core.12gb", "furiosa", PARTITION),
        ("rebellions.ai/ATOM", "rebellions", DEVICE),
        ("tenstorrent.com/n150", "tenstorrent", DEVICE),
    ],
)
def test_what_one_of_a_resource_is(resource: str, vendor: str, kind: str) -> None:
    assert unit_of(resource) == (vendor, kind)


@pytest.mark.parametrize(
    "resource",
    [
        "gpu.intel.com/monitoring",
        "gpu.intel.com/i915_monitoring",
        "gpu.intel.com/memory.max",
        "rdma/hca",
        "qat.intel.com/cy",
    ],
)
def test_what_no_device_is_behind(resource: str) -> None:
    assert unit_of(resource) is None


def test_a_mixed_node_is_in_a_group_for_each_vendor() -> None:
    amounts = {"nvidia.com/gpu": "2", "amd.com/gpu": "2", "habana.ai/gaudi": "1", "npu.intel.com/accel": "10"}
    held = ask_of(pod({"amd.com/gpu": "1", "npu.intel.com/accel": "3", "gpu.intel.com/monitoring": "1"}))
    assert held is not None
    assert held.resources == {"amd.com/gpu": 1, "npu.intel.com/accel": 3}
    found = group([summarize(offering(MIXED, amounts), [held])])
    assert [(one.vendor, one.product, one.memory, one.usable, one.present) for one in found] == [
        ("amd", "AMD_Instinct_MI210", 65536, 2, 2),
        ("nvidia", "Tesla-T4", 15360, 2, 2),
        ("habana", "Gaudi2", 98304, 1, 1),
        ("intel-npu", "Meteor_Lake_NPU", 0, 1, 1),
    ]
    text = as_bars(found, {"n": summarize(offering(MIXED, amounts), [held])}, PLAIN)
    assert "AMD_Instinct_MI210 · 64 GiB · 2 AMD GPUs on 1 node" in text
    assert "Meteor_Lake_NPU · 1 device on 1 node" in text
    assert "3/10  shares" in text


def test_partitions_and_views_are_no_further_devices() -> None:
    cpx = group([summarize(offering(MI300X, {"amd.com/cpx_nps1": "64"}))])[0]
    assert (cpx.usable, cpx.present) == (8, 8)
    assert cpx.to_json()["resources"] == {"amd.com/cpx_nps1": {"allocatable": 64, "allocated": 0, "unit": PARTITION}}
    offered = {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32", "aws.amazon.com/neurondevice": "16"}
    neuron = group([summarize(offering(NEURON, offered))])[0]
    assert neuron.present == 16
    assert {name: one.unit for name, one in neuron.resources.items()} == {
        "aws.amazon.com/neuron": DEVICE,
        "aws.amazon.com/neuroncore": VIEW,
        "aws.amazon.com/neurondevice": VIEW,
    }


def test_several_products_and_devices_without_name() -> None:
    labels = {f"{A}intel.present": "true", f"{A}intel.count": "3", f"{A}intel.memory": "6144"}
    labels |= {f"{A}intel.product.Flex_140": "2"}
    (found,) = read_accelerators(labels)
    assert [(one.product, one.count, one.memory) for one in found.models] == [("Flex_140", 2, 0), ("Intel_GPU", 1, 0)]


def test_what_is_wrong() -> None:
    labels = {f"{A}x": "", **MI300X, f"{A}amd.state": "degraded", f"{A}amd.count.failing": "1"}
    found = summarize(node(labels))
    assert found.problems == ("AMD GPU: degraded", "AMD GPU: 1 of 8 failing")
    assert (found.others[0].usable, found.others[0].present) == (7, 8)
    assert summarize(node(of("amd", "x", 1, **{"state": "vfio", "count.vfio": "1"}))).problems == ()


@pytest.mark.parametrize(
    ("labels", "offered", "problems"),
    [
        (MI300X, {}, ("AMD GPU: not offered, no device plug-in",)),
        (MI300X, {"amd.com/gpu": "0"}, ("AMD GPU: not offered, no device plug-in",)),
        (MI300X, {"amd.com/gpu": "8"}, ()),
        (MI300X, {"amd.com/cpx_nps1": "64"}, ()),
        (of("habana", "Gaudi2", 8, 98304), {"amd.com/gpu": "8"}, ("Intel Gaudi: not offered, no device plug-in",)),
        (of("qualcomm", "x", 4), {}, ("Qualcomm Cloud AI: not offered, no device plug-in",)),
        (of("intel", "x", 1), {}, ()),
        (of("intel-npu", "Meteor_Lake_NPU", 1), {}, ()),
        (of("amd", "x", 8, 65536, state="vfio"), {}, ()),
        (of("amd", "x", 8, 65536, state="no-driver"), {}, ("AMD GPU: no-driver",)),
    ],
)
def test_devices_that_nobody_offers(labels: dict[str, str], offered: dict[str, str], problems: tuple[str, ...]) -> None:
    """A processor's own device is often not meant for pods."""
    found = offering({f"{A}x": "", **labels}, offered)
    assert summarize(found, known=NOTHING).problems == problems
    without = tuple(text for text in problems if "not offered" not in text)
    assert summarize(found).problems == without, "while DRA is not known"


def test_a_dra_driver_offers_devices_of_its_vendor_alone() -> None:
    found = offering({f"{A}x": "", **MI300X, **of("habana", "Gaudi2", 8, 98304)}, {})
    dra = count([resource_slice("n", [amd_gpu(0)], driver=AMD)], [])["n"]
    assert summarize(found, known=dra).problems == ("Intel Gaudi: not offered, no device plug-in",)
    (group_of_amd, _) = group([summarize(found, known=dra)])
    assert group_of_amd.to_json()["resources"] == {AMD: {"allocatable": 1, "allocated": 0}}


def test_what_the_labeller_of_amd_left_behind() -> None:
    """Named only where nfd manages such labels; a label of a user alone is nobody's problem."""
    stale = {"amd.com/gpu.vram.64G": "2", "beta.amd.com/gpu.firmware.MEC.feat.49": "8"}
    found = node({"amd.com/gpu.vram": "192G", "feature.node.kubernetes.io/x": "1", **stale})
    assert summarize(found).problems == ()
    found["metadata"]["annotations"] = {"nfd.node.kubernetes.io/feature-labels": "amd.com/gpu.vram,x"}
    assert summarize(found).problems == (f"not managed by nfd: {', '.join(sorted(stale))}",)
    found["metadata"]["labels"] |= {f"beta.amd.com/gpu.cu-count.{one}": "1" for one in range(4)}
    assert summarize(found).problems[0].endswith(" and 3 more")


def test_a_table_and_data() -> None:
    found = summarize(node(MIXED))
    cells = cells_of(found, (*HEAD, *WIDE))
    assert "2×Tesla-T4 + 2×AMD_Instinct_MI210 + 1×Gaudi2 + 1×Meteor_Lake_NPU" in cells
    data = to_json(found)
    assert [one["vendor"] for one in data["accelerators"]] == ["amd", "habana", "intel-npu"]
    assert data["gpus"]["models"][0]["product"] == "Tesla-T4"
    assert "vendor" not in data["gpus"]


def test_nvidia_is_not_there_twice() -> None:
    found = summarize(node({**T4, **of("nvidia", "Tesla-T4", 2)}))
    assert found.others == ()
    alone = summarize(node(of("nvidia", "NVIDIA-L4", 1, 23034)))
    assert [one.product for one in alone.accelerators] == ["NVIDIA-L4"]


def test_the_page_has_all_vendors() -> None:
    nodes = [Node(name, "", "1", "", labels, {}, {}, ()) for name, labels in (("a", T4), ("b", MIXED), ("c", MI300X))]
    data = fleet_data(nodes)
    assert data["keys"]["product"] == [
        "nvidia.com/gpu.product",
        *(f"{A}{vendor}.product" for vendor in ("amd", "habana", "intel-npu")),
    ]
    products = {product: count for product, count, _, _, _ in data["models"]}
    assert products["AMD_Instinct_MI300X"] == 8
    assert data["facts"]["present"] == [[2, [0, 1]], [6, [1, 1]], [8, [2, 1]]]
