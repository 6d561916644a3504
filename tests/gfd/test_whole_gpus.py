"""The labels of whole GPUs, as pure functions of an inventory."""

import pytest

from gfd.inventory import Gpu, Inventory
from gfd.labels import label
from gfd.labels.models import models
from gfd.labels.settings import Settings
from gfd.pci import canonical
from gfd.sharing import parse_sharing


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


@pytest.mark.parametrize(("name", "text"), [("NVIDIA L4", "NVIDIA-L4-SHARED"), ("()", "-SHARED"), ("", "")])
def test_a_shared_product(name: str, text: str) -> None:
    """A device without a name has no suffix either."""
    sharing, _ = parse_sharing({"timeSlicing": {"resources": [{"name": "gpu", "replicas": 2}]}})
    found = label(Inventory("nvml", gpus=(gpu(name),)), Settings(sharing=sharing))
    assert found.labels["nvidia.com/gpu.product"] == text


@pytest.mark.parametrize(
    ("text", "pci_class"),
    [("0x030200", "0x030200"), ("0x30200", "0x030200"), ("197120", "0x030200"), ("0X00030000", "0x030000")]
    + [(text, text) for text in ("", "0x", "zzz")],
)
def test_any_spelling_of_a_class(text: str, pci_class: str) -> None:
    assert canonical(text) == pci_class
