"""Whether the node is a guest with a vGPU, and what serves it."""

from __future__ import annotations

from gfd.inventory import Inventory
from gfd.labels.settings import Settings
from nfd.source import Labelled


def guest(inventory: Inventory, settings: Settings) -> Labelled:
    """Where PCI configuration space can be read.

    Labels:
        vgpu.present = true, false: whether the node is a guest with a vGPU
        vgpu.host-driver-version = text: the version of the host's driver
        vgpu.host-driver-branch = text: the branch of the host's driver
    """
    node = inventory.node
    if node.vgpu_present is None or not (settings.alone or inventory.gpus):
        return Labelled({})
    labels = {"vgpu.present": str(node.vgpu_present).lower()}
    if node.vgpu_version:
        labels["vgpu.host-driver-version"] = node.vgpu_version
    if node.vgpu_branch:
        labels["vgpu.host-driver-branch"] = node.vgpu_branch
    return Labelled(labels)
