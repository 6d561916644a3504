"""Labels that appear when there is something to say: what is wrong, and how many devices there should be."""

from __future__ import annotations

from gfd.inventory import OF_LIBRARY, Inventory, Trouble
from gfd.labels.faults import find_faults
from gfd.labels.gpus import models
from gfd.labels.mig import is_pending, layout_problem
from gfd.labels.settings import SINGLE, LabelSettings
from nfd.source import Labelled


def health(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """Most of them only where something is wrong.

    Labels:
        gpu.present = true: an NVIDIA display controller is on PCI
        gpu.state = no-driver, library-missing, driver-error, driver-mismatch: why queries to the driver fail
        gpu.state = stale, degraded, mig-pending, mig-invalid: what is wrong with the GPUs
        gpu.count.present = number: GPUs on PCI, if there are more than `gpu.count`
        gpu.count.failing = number: GPUs that do not answer or return errors, if there are any
    """
    node = inventory.node
    labels: dict[str, str] = {}
    notes = [("driver", reason) for reason in driver_problems(inventory, settings)]
    notes += [(f"GPU {gpu.index}", gpu.failing) for gpu in inventory.gpus if gpu.failing]
    notes += [(f"GPU {fault.gpu}", fault.reason) for fault in find_faults(inventory)]
    if node.pci_gpus:
        labels["gpu.present"] = "true"
    counted = sum(model.count for model in models(inventory)) + sum(gpu.display_only for gpu in inventory.gpus)
    failing = sum(bool(gpu.failing) for gpu in inventory.gpus)
    if inventory.gpus and node.pci_gpus > counted:
        labels["gpu.count.present"] = str(node.pci_gpus)
    if failing:
        labels["gpu.count.failing"] = str(failing)
    state = state_of(inventory, settings)
    if state:
        labels["gpu.state"] = state
    return Labelled(labels, tuple(notes))


def driver_problems(inventory: Inventory, settings: LabelSettings) -> list[str]:
    """What the driver library said. In the worker, an absent library is no problem: a new node has none yet."""
    absent = inventory.trouble is Trouble.NO_DRIVER and not inventory.stale and not settings.alone
    return [reason for reason in ("" if absent else inventory.reason, inventory.driver.failing) if reason]


def state_of(inventory: Inventory, settings: LabelSettings) -> str:
    """What is worst about the devices; empty if all is well."""
    if inventory.stale:
        return str(inventory.trouble) if inventory.trouble in OF_LIBRARY else "stale"
    if inventory.trouble is not None:
        return str(inventory.trouble) if _concerns(inventory) else ""
    if inventory.node.pci_missing or (inventory.gpus and inventory.driver.failing):
        return "degraded"
    if any(gpu.failing for gpu in inventory.gpus) or find_faults(inventory):
        return "degraded"
    if settings.dra:
        return ""  # a claim may leave a GPU in MIG mode without MIG devices
    if settings.mig_strategy == SINGLE and layout_problem(inventory) and not is_pending(inventory):
        return "mig-invalid"
    return "mig-pending" if is_pending(inventory) else ""


def _concerns(inventory: Inventory) -> bool:
    """Whether there is a device that should have a driver of its own."""
    return inventory.node.pci_gpus > inventory.node.pci_passed
