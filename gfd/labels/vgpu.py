"""Whether the node is a guest with a vGPU, and what serves it."""

from __future__ import annotations

from gfd.inventory import Inventory
from gfd.labels.settings import Settings
from nfd.source import Labelled


def guest(inventory: Inventory, settings: Settings) -> Labelled:
    """`vgpu.present` where PCI configuration space can be read, and the host driver's version and branch."""
    node = inventory.node
    if node.vgpu_present is None or not (settings.alone or inventory.gpus):
        return Labelled({})
    labels = {"vgpu.present": str(node.vgpu_present).lower()}
    if node.vgpu_version is not None and node.vgpu_branch is not None:
        labels["vgpu.host-driver-version"] = node.vgpu_version
        labels["vgpu.host-driver-branch"] = node.vgpu_branch
    return Labelled(labels)
