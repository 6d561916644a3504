"""What a process that has just started can go on from: the labels that the one before it left behind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from gfd.inventory import Gpu, Inventory
from gfd.labels.models import models
from gfd.labels.text import product
from gfd.memory import gaps, is_empty
from nfd.features import Labels

NS = "nvidia.com/"
_OF_THE_MOMENT = frozenset(
    f"{NS}{name}" for name in ("gfd.timestamp", "gpu.state", "gpu.present", "gpu.count.present", "gpu.count.failing")
)
_KEPT_WHILE_CARVING = ("gpu.count", "gpu.memory", "gpu.multiprocessors", "gpu.product", "gpu.replicas", "gpu.sharing-")
_CARVED = ("gpu.slices.", "gpu.engines.", "mig-")


def is_needed(inventory: Inventory) -> bool:
    """Whether the reading, with all that this process knows from before, leaves something open."""
    return bool(gaps(inventory)) or any(map(partial(_is_bare, inventory), inventory.compute_gpus))


def complete(labels: Labels, remembered: Mapping[str, str], inventory: Inventory) -> dict[str, str]:
    """The labels, with those of before where the reading leaves something open.

    Nothing is added if the devices are gone from PCI, or if those that answer are of another model or strategy.
    """
    kept = {key: value for key, value in remembered.items() if key not in _OF_THE_MOMENT}
    if not is_needed(inventory) or f"{NS}gpu.product" not in kept:
        return dict(labels)
    if inventory.trouble is not None:
        if inventory.node.pci_gpus <= inventory.node.pci_passed:
            return dict(labels)
        return {**labels, **kept, f"{NS}gpu.state": "stale"}
    found = models(inventory)
    if found and not kept[f"{NS}gpu.product"].startswith(product(found[0].name)):
        return dict(labels)
    if kept.get(f"{NS}mig.strategy") != labels.get(f"{NS}mig.strategy"):
        return dict(labels)
    if not any(map(partial(_is_bare, inventory), inventory.compute_gpus)):
        return {**kept, **labels}
    carved = {key: value for key, value in kept.items() if _starts(key, (*_KEPT_WHILE_CARVING, *_CARVED))}
    return {**labels, **carved}


def _is_bare(inventory: Inventory, gpu: Gpu) -> bool:
    """In MIG mode, without MIG devices, and none known from before."""
    return is_empty(inventory, gpu) and not inventory.migs_of(gpu)


def _starts(key: str, names: tuple[str, ...]) -> bool:
    return key.startswith(tuple(NS + name for name in names))
