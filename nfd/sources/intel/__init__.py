"""Intel's GPUs, NPUs, SGX and accelerators inside processors: feature `intel.device`, its options and labels.

Labels are those of the NodeFeatureRules that Intel's device plug-ins ship, with right numbers where GPUs differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, gather
from nfd.sources.intel.devices import GPU, read_devices

DEVICE = "intel.device"
HAS, GPUS = "intel.feature.node.kubernetes.io", "gpu.intel.com"
PRODUCTS = frozenset({"Max_1100", "Max_1550", "Flex_170", "Flex_140"})
FAMILIES = frozenset({"Max_Series", "Flex_Series", "A_Series"})
"""What Intel's rules have names for. Others are in `accelerator-intel.product`."""


class Config(Section):
    """Which of Intel's labels are written."""

    gpu_devices: bool = True
    """Labels `gpu.intel.com/…`: which GPUs there are, and how many."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List the devices.

    Reads: as `nfd.sources.pci_functions` and `nfd.sources.intel.devices`.  Absent: a machine without one has no
    feature.
    """

    def read(reading: FeatureReader) -> Features:
        found = read_devices(reading)
        return Features(instances={DEVICE: found}) if found else Features()

    return gather(host, {DEVICE: read})


def labels(features: Features, config: Config) -> Labels:
    """A device has its label if its driver is there; GPUs have theirs without it.

    Labels:
        intel.feature.node.kubernetes.io/gpu = true: an Intel GPU and its driver are there
        intel.feature.node.kubernetes.io/npu = true: an Intel NPU and its driver are there
        intel.feature.node.kubernetes.io/dlb = true: a Dynamic Load Balancer and its driver are there
        intel.feature.node.kubernetes.io/dsa = true: a Data Streaming Accelerator and its driver are there
        intel.feature.node.kubernetes.io/iaa = true: an In-Memory Analytics Accelerator and its driver are there
        intel.feature.node.kubernetes.io/qat = true: a QuickAssist device, its driver and the VFIO driver are there
        intel.feature.node.kubernetes.io/fpga-arria10 = true: an Arria 10 and its driver are there
        intel.feature.node.kubernetes.io/sgx = true: SGX with flexible launch control is on, and the kernel supports it
        gpu.intel.com/device-id.<class>-<device>.present = true: a GPU with this PCI class and device ID is there
        gpu.intel.com/device-id.<class>-<device>.count = number: GPUs with this PCI class and device ID
        gpu.intel.com/product = Max_1100, Max_1550, Flex_170, Flex_140: the product, if the node has GPUs of only
            one of these
        gpu.intel.com/product.<product> = number: GPUs of that product, if there are several products
        gpu.intel.com/device.count = number: GPUs of the products Max 1100, Max 1550, Flex 170 and Flex 140
        gpu.intel.com/family = Max_Series, Flex_Series, A_Series: the family, if the node has GPUs of only one of
            these
        gpu.intel.com/family.<family> = number: GPUs of that family, if there are several families
        gpu.intel.com/tiles = number: tiles of all GPUs together, if all GPUs have the driver xe
    """
    devices = features.instances.get(DEVICE, ())
    found = {f"{HAS}/{one['kind']}": "true" for one in devices if "ready" in one}
    if has_sgx(features):
        found[f"{HAS}/sgx"] = "true"
    gpus = [one for one in devices if one["kind"] == GPU]
    return found | (dict(gpu_labels(gpus)) if config.gpu_devices else {})


def has_sgx(features: Features) -> bool:
    flags, config = features.flags.get("cpu.cpuid", ()), features.attributes.get("kernel.config", {})
    on = features.attributes.get("cpu.security", {}).get("sgx.enabled") == "true"
    return on and "SGX" in flags and "SGXLC" in flags and "X86_SGX" in config


def gpu_labels(gpus: Sequence[Instance]) -> Iterator[tuple[str, str]]:
    """Virtual functions count only on a machine that has nothing else, as in a virtual machine."""
    whole = [one for one in gpus if "virtual" not in one] or gpus
    for (kind, device), number in Counter((one["class"], one["device"]) for one in whole).items():
        yield f"{GPUS}/device-id.{kind}-{device}.present", "true"
        yield f"{GPUS}/device-id.{kind}-{device}.count", str(number)
    products = Counter(one["product"] for one in whole if one.get("product") in PRODUCTS)
    yield from one_or_counts("product", products)
    if products:
        yield f"{GPUS}/device.count", str(products.total())
    yield from one_or_counts("family", Counter(one["family"] for one in whole if one.get("family") in FAMILIES))
    if whole and all("tiles" in one for one in whole):
        yield f"{GPUS}/tiles", str(sum(int(one["tiles"]) for one in whole))


def one_or_counts(name: str, counted: Counter[str]) -> Iterator[tuple[str, str]]:
    """The one value, or how many GPUs have each."""
    if len(counted) == 1:
        yield f"{GPUS}/{name}", next(iter(counted))
    else:
        yield from ((f"{GPUS}/{name}.{value}", str(number)) for value, number in counted.items())


SOURCE = Source(
    "intel",
    Config,
    discover,
    labels,
    namespaced=True,
    depends=frozenset({"cpu", "kernel"}),
    wakes=frozenset({"pci", "module", "drm"}),
)
