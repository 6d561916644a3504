"""What labels say about accelerators of vendors other than NVIDIA, and whose an extended resource is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from nfd.accelerators.vendors import Vendor, entries, load
from nfd.fleet.gpu_labels import NVIDIA, Gpus, Model, number
from nfd.names import FEATURE_NS

DEVICE, PARTITION, SHARE, VIEW = "device", "partition", "share", "view"
"""What one of a resource is: a whole device, a part of one, one of several shares of one, or a device or a part of one
that another resource of the same plug-in offers, too."""
ANY = "any"
_PREFIX = f"{FEATURE_NS}/accelerator-"
_OF_ONE = re.compile(rf"{re.escape(_PREFIX)}[a-z0-9-]+\.(product|driver)", re.ASCII)
_PRESENT = re.compile(rf"{re.escape(_PREFIX)}([a-z0-9.-]+)\.present", re.ASCII)


class Unit(NamedTuple):
    """Whose a resource is, and what one of it is."""

    vendor: str
    kind: str


def read_accelerators(labels: Mapping[str, str]) -> tuple[Gpus, ...]:
    """One for each vendor, by name. NVIDIA is not among them where it has labels of its own."""
    names = sorted(found[1] for key in labels if (found := _PRESENT.fullmatch(key)))
    own = {ANY, NVIDIA} if any(key.startswith("nvidia.com/gpu.") for key in labels) else {ANY}
    return tuple(_read(name, labels) for name in names if name not in own)


def fact_of_label(key: str) -> str:
    """`product` or `driver` if the label's value is that of all accelerators of one vendor, else ""."""
    found = _OF_ONE.fullmatch(key)
    return found[1] if found else ""


def _read(name: str, labels: Mapping[str, str]) -> Gpus:
    prefix = f"{_PREFIX}{name}"
    present, failing = number(labels, f"{prefix}.count"), number(labels, f"{prefix}.count.failing")
    usable = max(present - failing - number(labels, f"{prefix}.count.vfio"), 0)
    models = tuple(_models(prefix, labels, title_of(name), present))
    driver, state = labels.get(f"{prefix}.driver", ""), labels.get(f"{prefix}.state", "")
    return Gpus(models, {}, usable, present, failing, state, driver, vendor=name, title=title_of(name))


def _models(prefix: str, labels: Mapping[str, str], title: str, present: int) -> Iterator[Model]:
    """The products; what is left over has the name of the vendor. The memory is known of all of one product only."""
    product, start = labels.get(f"{prefix}.product", ""), f"{prefix}.product."
    named = {key.removeprefix(start): number(labels, key) for key in labels if key.startswith(start)}
    counts = {product: present} if product else dict(sorted(named.items()))
    rest = present - sum(counts.values())
    memory = number(labels, f"{prefix}.memory") if len(counts) + (rest > 0) == 1 else 0
    yield from (Model(name, count, memory) for name, count in counts.items() if count)
    if rest > 0:
        yield Model(title.replace(" ", "_"), rest, memory)


@cache
def title_of(vendor: str) -> str:
    """The vendor's name for people; that of the label where no data has it."""
    return next((one.title for one in _vendors() if one.name == vendor), vendor)


@cache
def unit_of(resource: str) -> Unit | None:
    """None: not one of accelerators, or one for monitoring. NVIDIA's names are known to nfd.fleet.pods."""
    for vendor in _vendors():
        for pattern, kind in vendor.resources.items():
            if fnmatchcase(resource, pattern):
                return Unit(vendor.name, kind)
    return None


@cache
def vendor_of_driver(driver: str) -> str:
    """The vendor whose accelerators a DRA driver hands out; "" if it is another kind of driver."""
    return next((vendor.name for vendor in _vendors() if driver in vendor.dra), "")


@cache
def is_often_integrated(vendor: str) -> bool:
    """Whether the vendor has devices inside processors, which labels cannot always tell from others."""
    found = next((one for one in _vendors() if one.name == vendor), None)
    return found is None or found.integrated or any(one.integrated for one in found.devices.values())


@cache
def _vendors() -> tuple[Vendor, ...]:
    return tuple(_loaded())


def _loaded() -> Iterator[Vendor]:
    for entry in entries():
        try:
            yield load(entry)
        except ValueError:  # the worker reports it, where such a device is
            continue
