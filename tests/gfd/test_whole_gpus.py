"""The labels of whole GPUs, as pure functions of an inventory."""

from dataclasses import replace

import pytest

from gfd.inventory import Driver, Gpu, Inventory, MigDevice, Node
from gfd.labels import label
from gfd.labels.gpus import models
from gfd.labels.settings import LabelSettings
from gfd.pci import canonical
from gfd.sharing import Sharing
from nfd.host.pcie import is_vfio


def gpu(name: str, memory: int = 100, *, carved: bool = False) -> Gpu:
    return Gpu(0, name, memory=memory, mig_enabled=carved)


RANKS = {
    "most numerous": ([gpu("a"), gpu("b"), gpu("b")], "b"),
    "less memory": ([gpu("a", 2), gpu("b", 1)], "b"),
    "by name": ([gpu("b"), gpu("a")], "a"),
    "out of MIG mode": ([gpu("a", carved=True), gpu("a", carved=True), gpu("b")], "b"),
    "partly out of MIG mode": ([gpu("a", carved=True), gpu("a"), gpu("b")], "a"),
    "all in MIG mode": ([gpu("a", carved=True), gpu("b", carved=True), gpu("b", carved=True)], "b"),
}


@pytest.mark.parametrize("case", RANKS)
def test_the_model_that_speaks(case: str) -> None:
    gpus, name = RANKS[case]
    assert models(Inventory("nvml", gpus=tuple(gpus)))[0].name == name


@pytest.mark.parametrize(("name", "text"), [("NVIDIA L4", "NVIDIA-L4-SHARED"), ("()", "-SHARED"), ("", None)])
def test_a_shared_product(name: str, text: str | None) -> None:
    """A device without a name is no product, shared or not."""
    sharing = Sharing.model_validate({"timeSlicing": {"resources": [{"name": "gpu", "replicas": 2}]}})
    found = label(Inventory("nvml", gpus=(gpu(name),)), LabelSettings(sharing=sharing))
    assert found.labels.get("nvidia.com/gpu.product") == text


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_where_mps_cannot_work_nothing_is_shared_by_it(strategy: str) -> None:
    """Neither GPUs nor MIG devices: `mps.capable=false` stands beside no `sharing-strategy=mps`."""
    names = ("gpu", "mig-1g.10gb")
    sharing = Sharing.model_validate({"mps": {"resources": [{"name": name, "replicas": 4} for name in names]}})
    migs = (MigDevice(0, "1g.10gb"),)
    for gpus in ([gpu("a", carved=True)], [gpu("a", carved=True), replace(gpu("a"), index=1)]):
        found = label(Inventory("nvml", gpus=tuple(gpus), migs=migs), LabelSettings(strategy, sharing)).labels
        assert found["nvidia.com/mps.capable"] == "false"
        assert not [key for key, value in found.items() if value == "mps" or value.endswith("-SHARED")]
        assert {value for key, value in found.items() if key.endswith(".replicas")} <= {"0", "1"}
    found = label(Inventory("nvml", gpus=(gpu("a"),)), LabelSettings(strategy, sharing)).labels
    assert (found["nvidia.com/mps.capable"], found["nvidia.com/gpu.sharing-strategy"]) == ("true", "mps")


REVISION = frozenset(("nvidia.com/cuda.driver.rev", "nvidia.com/cuda.driver-version.revision"))
"""Empty for a version of two parts, as GPU feature discovery has them."""


@pytest.mark.parametrize("name", ["", "()", "a"])
@pytest.mark.parametrize("machine", ["", " ", "()", "x"])
def test_an_empty_text_is_no_value(name: str, machine: str) -> None:
    node = Node(machine, vgpu_present=True, vgpu_version="", vgpu_branch="r580")
    driver = Driver("580.95", 13000)
    for gpus in ((gpu(name),), (gpu(name), gpu("b"))):
        for strategy in ("none", "single", "mixed"):
            inventory = Inventory("nvml", driver, gpus, (MigDevice(0, "1g.10gb"),), node)
            found = label(inventory, LabelSettings(strategy, alone=True)).labels
            assert {key for key, value in found.items() if not value} <= REVISION


@pytest.mark.parametrize(
    ("driver", "passed"),
    [
        ("vfio-pci", True),
        ("vfio_pci", True),
        ("nvgrace-gpu-vfio-pci", True),
        ("nvgrace_gpu_vfio_pci", True),
        ("mlx5_vfio_pci", True),
        ("virtio_vfio_pci", True),
        ("xe-vfio-pci", True),
        ("nvidia-vgpu-vfio", True),
        ("nvidia", False),
        ("nouveau", False),
        ("", False),
        ("pcieport", False),
    ],
)
def test_drivers_that_pass_a_device_through(driver: str, passed: bool) -> None:
    assert is_vfio(driver) == passed


@pytest.mark.parametrize(
    ("text", "pci_class"),
    [("0x030200", "0x030200"), ("0x30200", "0x030200"), ("197120", "0x030200"), ("0X00030000", "0x030000")]
    + [(text, text) for text in ("", "0x", "zzz")],
)
def test_any_spelling_of_a_class(text: str, pci_class: str) -> None:
    assert canonical(text) == pci_class
