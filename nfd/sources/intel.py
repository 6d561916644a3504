"""Intel's GPUs, NPUs, SGX and accelerators inside processors: feature `intel.device`, its options and labels.

Labels are those of the NodeFeatureRules that Intel's device plug-ins ship, with right numbers where GPUs differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from nfd.accelerators.vendors import named
from nfd.config.section import Section
from nfd.features import Features, Instance, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.device_labels import whole_devices
from nfd.sources.feature_reader import FeatureReader, gather
from nfd.sources.pci_functions import Function, Ids, read_functions

DEVICE = "intel.device"
HAS, GPUS = "intel.feature.node.kubernetes.io", "gpu.intel.com"
PRODUCTS = frozenset({"Max_1100", "Max_1550", "Flex_170", "Flex_140"})
FAMILIES = frozenset({"Max_Series", "Flex_Series", "A_Series"})
"""What Intel's rules have names for. Others are in `accelerator-intel.product`."""
VENDOR = "8086"
GPU, NPU = "gpu", "npu"
_TILE = re.compile(r"tile\d+", re.ASCII)


class Kind(NamedTuple):
    """What Intel's rules have one label for. Of `drivers` one is needed, and of `helpers` too if there are any."""

    name: str
    classes: tuple[str, ...]
    drivers: tuple[str, ...]
    devices: tuple[str, ...] = ()
    helpers: tuple[str, ...] = ()
    passed: bool = True
    """Whether a device that a virtual machine has, or a program by way of VFIO, counts all the same."""


KINDS = (
    Kind(GPU, ("0300", "0302", "0380"), ("i915", "xe"), passed=False),
    Kind(NPU, ("1200",), ("intel_vpu",), passed=False),
    Kind("dlb", ("0b40",), ("dlb2",), ("2710",)),
    Kind("dsa", ("0880",), ("idxd",), ("0b25", "11fb", "1212")),
    Kind("iaa", ("0880",), ("idxd",), ("0cfe", "1216")),
    Kind("qat", ("0b40",), ("intel_qat",), ("37c8", "4940", "4942", "4944", "4946", "4948"), ("vfio_pci",)),
    Kind("fpga-arria10", ("1200",), ("dfl_pci", "intel_fpga_pci"), ("09c4",)),
)
"""Source: intel/intel-device-plugins-for-kubernetes, deployments/nfd/overlays/node-feature-rules. The NPUs are those of
the table `intel-npu`."""
_CLASSES = frozenset(one for kind in KINDS for one in kind.classes)


class Config(Section):
    """Which of Intel's labels are written."""

    gpu_devices: bool = True
    """Labels `gpu.intel.com/…`: which GPUs there are, and how many."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List the devices.

    Reads: as `nfd.sources.pci_functions`; sys/module; of a GPU that has the driver xe also the names below its PCI
    function, one `tile<N>` for each tile (Linux drivers/gpu/drm/xe/xe_tile_sysfs.c).
    Absent: a machine without one has no feature.
    """
    return gather(host, {DEVICE: read_devices})


def read_devices(reading: FeatureReader) -> Features:
    """`address`, `kind` (`gpu`, `npu`, `dsa` …), `class`, `device`, and as far as they are known `driver`, and of a GPU
    `product`, `family` and `tiles`; `ready` (it has its driver), `virtual` and `passed` are `true` or missing.
    """
    functions = read_functions(reading, lambda ids: kind_of(ids) is not None)
    kinds = [(one, kind_of(one.ids)) for one in functions]
    loaded = {kind: is_loaded(reading, kind) for _, kind in kinds if kind is not None}
    found: dict[str, Sequence[Instance]] = {}
    for one, kind in kinds:
        if kind is not None:
            with reading.device(one.address):
                found[one.address] = [_device(reading, one, kind, loaded=loaded[kind])]
    found |= reading.last(DEVICE, found)
    devices = tuple(chain(*found.values()))
    return Features(instances={DEVICE: devices}) if devices else Features()


def kind_of(ids: Ids) -> Kind | None:
    if ids.vendor != VENDOR or ids.kind not in _CLASSES:
        return None
    return next((kind for kind in KINDS if ids.kind in kind.classes and _is_one(kind, ids.device)), None)


def _is_one(kind: Kind, device: str) -> bool:
    known = named("intel-npu").devices if kind.name == NPU else kind.devices
    return kind.name == GPU or device in known


def is_loaded(reading: FeatureReader, kind: Kind) -> bool:
    """Whether the kernel has the modules that a kind needs, loaded or built in."""
    return _any_module(reading, kind.drivers) and (not kind.helpers or _any_module(reading, kind.helpers))


def _any_module(reading: FeatureReader, modules: Iterable[str]) -> bool:
    return any(reading.has_dir(f"sys/module/{name}") for name in modules)


def _device(reading: FeatureReader, function: Function, kind: Kind, *, loaded: bool) -> Instance:
    bound = function.driver in kind.drivers and not kind.helpers
    ready = (bound or loaded) and (kind.passed or not function.is_passed)
    device = {
        "address": printable(function.address),
        "kind": kind.name,
        "class": function.ids.kind,
        "device": function.ids.device,
        "driver": function.driver,
        "ready": "true" if ready else "",
        "virtual": "true" if function.virtual else "",
        "passed": "true" if function.is_passed else "",
    }
    if kind.name == GPU:
        model = named("intel").model(function.ids.device, function.revision)
        device |= {"product": model.product, "family": model.family, "tiles": read_tiles(reading, function)}
    return {key: value for key, value in device.items() if value}


def read_tiles(reading: FeatureReader, function: Function) -> str:
    """Number of tiles; "" where the driver does not tell. Media engines that i915 shows as a `gt` are none."""
    if function.driver != "xe":
        return ""
    return str(sum(_TILE.fullmatch(name) is not None for name in reading.names(function.path)) or "")


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
    whole = whole_devices(gpus)
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
