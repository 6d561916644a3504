"""Intel's GPUs, NPUs and accelerators inside processors, as PCI and their drivers show them.

Reads: sys/module; of a GPU that has the driver xe also the names below its PCI function, one `tile<N>` for each tile
(Linux drivers/gpu/drm/xe/xe_tile_sysfs.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from nfd.accelerators.vendors import named
from nfd.features import Instance
from nfd.sources.feature_reader import FeatureReader
from nfd.sources.pci_functions import Function, Ids, read_functions

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


def read_devices(reading: FeatureReader) -> tuple[Instance, ...]:
    """`address`, `kind` (`gpu`, `npu`, `dsa` …), `class`, `device`, and as far as they are known `driver`, and of a GPU
    `product`, `family` and `tiles`; `ready` (it has its driver), `virtual` and `passed` are `true` or missing.
    """
    functions = read_functions(reading, lambda ids: kind_of(ids) is not None)
    kinds = [(one, kind_of(one.ids)) for one in functions]
    loaded = {kind: is_loaded(reading, kind) for _, kind in kinds if kind is not None}
    return tuple(_device(reading, one, kind, loaded=loaded[kind]) for one, kind in kinds if kind is not None)


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
        "address": function.address,
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
