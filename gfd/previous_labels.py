"""What a process that has just started can go on from: the labels that the one before it left behind."""

from __future__ import annotations

from collections.abc import Mapping

from gfd.inventory import OF_LIBRARY, Inventory
from gfd.labels.faults import is_ruled_out
from gfd.labels.gpus import models
from gfd.labels.productname import is_product_of
from gfd.labels.uncertain import OF_ONE_MODEL, is_of_mig, is_uncertain
from gfd.last_reading import gaps, lists_none, unread
from nfd.features import Labels

NS = "nvidia.com/"
_OF_THE_MOMENT = frozenset(
    ("gfd.timestamp", "gpu.state", "gpu.present", "gpu.count.present", "gpu.count.failing", "gpu.xid")
)
_ON_PCI = ("graphics", "compute")
"""Values of `gpu.mode` that only a device on PCI has."""


def complete(labels: Labels, remembered: Mapping[str, str], inventory: Inventory) -> dict[str, str]:
    """The labels, with those of before where the reading leaves something open.

    Nothing is added if the devices are gone from PCI, or if those that answer are of another model; nothing about MIG
    devices if the strategy is another one.
    """
    before = {key.removeprefix(NS): value for key, value in remembered.items()}
    kept = {name: value for name, value in before.items() if name not in _OF_THE_MOMENT}
    if not gaps(inventory) or not kept.keys() & {"gpu.product", "gpu.count"}:
        return dict(labels)
    if inventory.trouble is not None or lists_none(inventory):
        state = str(inventory.trouble) if inventory.trouble in OF_LIBRARY else "stale"
        found = {**kept, "gpu.state": state} if _may_be_there(inventory, before) else {}
        return {**labels, **_full(found)}
    if not _is_same_hardware(inventory, kept):
        return dict(labels)
    kept = {name: value for name, value in kept.items() if not is_ruled_out(inventory, name)}
    strategy = labels.get(f"{NS}mig.strategy", "") if inventory.compute_gpus else kept.get("mig.strategy", "")
    added, instead = _held(inventory, kept, strategy)
    return {**_full(added), **labels, **_full(instead)}


def _held(inventory: Inventory, kept: Mapping[str, str], strategy: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """What stands where the reading has nothing, and what stands in place of what it has."""
    if (former := kept.get("mig.strategy", "")) != strategy:
        kept = {name: value for name, value in kept.items() if not is_of_mig(name, former)}
    instead = {name: value for name, value in kept.items() if is_uncertain(inventory, strategy, name)}
    if not unread(inventory):
        return {name: value for name, value in kept.items() if is_of_mig(name, strategy)}, instead
    found = models(inventory)
    if found and "gpu.product" in kept and not is_product_of(kept["gpu.product"], found[0].name):
        instead |= {name: value for name, value in kept.items() if name.startswith(OF_ONE_MODEL)}
    return kept, instead


def _may_be_there(inventory: Inventory, before: Mapping[str, str]) -> bool:
    """Whether the devices can still be in the machine: on PCI, or on none, as those of Tegra and WSL."""
    on_pci = "gpu.present" in before or before.get("gpu.mode") in _ON_PCI
    return inventory.node.pci_gpus > inventory.node.pci_passed or (not on_pci and inventory.trouble is not None)


def _is_same_hardware(inventory: Inventory, kept: Mapping[str, str]) -> bool:
    """Whether one of the models that answer is among those of before, as far as both are known."""
    products = [value for name, value in kept.items() if name == "gpu.product" or _is_model(name)]
    names = [model.name for model in models(inventory) if model.name]
    return not names or not products or any(is_product_of(value, name) for value in products for name in names)


def _is_model(name: str) -> bool:
    return name.startswith("gpu.model.") and name.endswith(".product")


def _full(labels: Mapping[str, str]) -> dict[str, str]:
    return {NS + name: value for name, value in labels.items()}
