"""What labels say about the GPUs of a node, and which states do not count because another program reads the GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd.host.blanks_and_numbers import parse_natural
from nfd.names import NVIDIA_NS

GPU = f"{NVIDIA_NS}/gpu"
NVIDIA = "nvidia"
_MIG = re.compile(rf"{re.escape(NVIDIA_NS)}/mig-(.+)\.count", re.ASCII)
_MODEL = re.compile(rf"{re.escape(GPU)}\.model\.(.+)\.count", re.ASCII)
_CARVED = re.compile(r"(.+?)-MIG-(\d.*)", re.ASCII)
_SHARED = "-SHARED"


STATE, PRODUCT = f"{GPU}.state", f"{GPU}.product"
UNSEEN = frozenset(("no-driver", "library-missing"))
"""States that say only that the reader of the GPUs has no driver library, or sees none."""
RULE = "rule:"


def disproved_labels(labels: Mapping[str, str], origins: Mapping[str, str | None]) -> dict[str, str]:
    """Labels of the worker that those of another reader of the GPUs disprove, and which origin that is.

    GFD beside a worker without driver library gives the product, which only a driver knows. What a rule gives disproves
    nothing, since it may come from PCI.
    """
    by = origins.get(PRODUCT) or ""
    return {STATE: by} if is_unseen(labels, origins) and PRODUCT in labels and is_reader(by) else {}


def is_unseen(labels: Mapping[str, str], origins: Mapping[str, str | None]) -> bool:
    """Whether the worker gives a state that another reader of the GPUs would disprove."""
    return labels.get(STATE) in UNSEEN and origins.get(STATE) == NVIDIA


def is_reader(origin: str) -> bool:
    """Whether labels of that origin come from another reader of the GPUs than the worker."""
    return origin not in ("", NVIDIA) and not origin.startswith(RULE)


@dataclass(frozen=True, slots=True)
class Model:
    """Devices of one kind; memory in MiB of one of them, 0 if it is not known."""

    product: str
    count: int
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Gpus:
    """All of a node's that are of one vendor; `title` is its name for people.

    `mig` is the layout, profile → devices; with the strategy `single`, `usable` counts these. `present` is the number
    of devices on PCI where labels have a different number, else `usable`.
    """

    models: tuple[Model, ...] = ()
    mig: Mapping[str, int] = field(default_factory=dict)
    usable: int = 0
    present: int = 0
    failing: int = 0
    state: str = ""
    driver: str = ""
    cuda: str = ""
    vendor: str = NVIDIA
    title: str = "GPU"

    def __bool__(self) -> bool:
        return bool(self.models or self.present or self.state)

    @property
    def product(self) -> str:
        """The product, or several joined by plus signs."""
        return " + ".join(model.product for model in self.models)

    @property
    def layout(self) -> str:
        """`1g.5gb×7 3g.20gb×1`."""
        return " ".join(f"{profile}×{count}" for profile, count in self.mig.items())

    def to_json(self) -> dict[str, Any]:
        """What is known of them."""
        models = [{"product": one.product, "count": one.count, "memory": one.memory} for one in self.models]
        found: dict[str, Any] = {
            "models": [{key: value for key, value in one.items() if value} for one in models],
            "mig": dict(self.mig),
            **{name: getattr(self, name) for name in ("usable", "present", "failing", "state", "driver", "cuda")},
        }
        found |= {} if self.vendor == NVIDIA else {"vendor": self.vendor}
        counted = ("usable", "present") if self else ()
        return {key: value for key, value in found.items() if value or key in counted}


def read_gpus(labels: Mapping[str, str]) -> Gpus:
    """What there is; falsy where nothing is."""
    driver = labels.get(f"{NVIDIA_NS}/cuda.driver-version.full") or ".".join(
        part for name in ("major", "minor", "rev") if (part := labels.get(f"{NVIDIA_NS}/cuda.driver.{name}", ""))
    )
    models, mig = tuple(_models(labels)), dict(_profiles(labels))
    usable = sum(model.count for model in models)
    found = labels.get(f"{GPU}.present") == "true"
    return Gpus(
        models,
        mig,
        usable,
        max(gpus_on_pci(labels), usable, int(found)),
        number(labels, f"{GPU}.count.failing"),
        labels.get(f"{GPU}.state", ""),
        driver,
        labels.get(f"{NVIDIA_NS}/cuda.runtime-version.full", ""),
    )


def gpus_on_pci(labels: Mapping[str, str]) -> int:
    """How many GPUs the machine has, where labels have another number than `gpu.count`; else 0."""
    return number(labels, f"{GPU}.count.present")


def is_mig_device(product: str) -> bool:
    """Whether devices of that name are parts of a GPU: with the MIG strategy `single`, GFD counts and names these."""
    return _CARVED.fullmatch(product.removesuffix(_SHARED)) is not None


def number(labels: Mapping[str, str], key: str) -> int:
    """A label's value as a number; 0 for none."""
    return parse_natural(labels.get(key, "")) or 0


def _models(labels: Mapping[str, str]) -> Iterator[Model]:
    several = sorted(found[1] for key in labels if (found := _MODEL.fullmatch(key)))
    for name in several:
        prefix = f"{GPU}.model.{name}"
        memory = number(labels, f"{prefix}.memory")
        yield Model(labels.get(f"{prefix}.product") or name, number(labels, f"{prefix}.count"), memory)
    count = number(labels, f"{GPU}.count")
    if count and not several:
        product = labels.get(f"{GPU}.product", "").removesuffix(_SHARED)
        yield Model(product or "unnamed", count, number(labels, f"{GPU}.memory"))


def _profiles(labels: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """By strategy: `mixed` has labels for each profile, `single` names the only one in the product."""
    for key in sorted(labels):
        if found := _MIG.fullmatch(key):
            yield found[1], number(labels, key)
    product = labels.get(f"{GPU}.product", "").removesuffix(_SHARED)
    if found := _CARVED.fullmatch(product):
        yield found[2], number(labels, f"{GPU}.count")
