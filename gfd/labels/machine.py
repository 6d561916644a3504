"""`gfd.timestamp` and `gpu.machine`."""

from __future__ import annotations

from gfd.inventory import Inventory
from gfd.labels.settings import Settings
from gfd.labels.text import sanitize
from nfd.source import Labelled


def timestamp(inventory: Inventory, settings: Settings) -> Labelled:
    """When.

    Labels:
        gfd.timestamp = number: seconds since the epoch; when the GPU labels last changed, alone when it started
    """
    when = inventory.node.timestamp
    if when is None or not (settings.alone or inventory.gpus):
        return Labelled({})
    return Labelled({"gfd.timestamp": str(when)})


def machine(inventory: Inventory, settings: Settings) -> Labelled:
    """The product. Firmware that leaves its name empty, or gives one of which nothing can stand in a label, says none.

    Labels:
        gpu.machine = text: the machine's product name, or `unknown`
    """
    name = sanitize(inventory.node.machine)
    return Labelled({"gpu.machine": name} if name and inventory.compute_gpus else {})
