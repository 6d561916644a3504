"""Which listed Xids the GPUs of a machine had, and when one of them is over (pure; in memory alone).

An Xid is an event: nothing says later that it was there (NVIDIA, "XID Errors"). So it counts until there is evidence
that it does not hold any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from gfd.inventory import Fact, Gpu, Inventory, Trouble

SAFE = (79, 46, 48, 62, 64, 74, 95, 110, 119, 120, 140, 143)
"""Xids that make a GPU unusable until it is reset, of 79 until the node is rebooted. The first is the worst."""
SETTLES = 60.0
"""Seconds for which an Xid counts at least: the driver decides on a recovery action after it."""
ANY = "-"
"""In place of a UUID: a GPU of which it is not known which one."""


class Xids:
    """By UUID, the Xids of a GPU, and when it had the last of each."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, float]] = {}

    def add(self, uuid: str, xid: int, now: float) -> bool:
        """Whether it is a new one of that GPU."""
        of_gpu = self._seen.setdefault(uuid, {})
        new = xid not in of_gpu
        of_gpu[xid] = now
        return new

    def keep(self, listed: Iterable[int]) -> None:
        """Forget those that are not listed."""
        wanted = frozenset(listed)
        for of_gpu in self._seen.values():
            for xid in of_gpu.keys() - wanted:
                del of_gpu[xid]

    def review(self, fresh: Inventory, now: float) -> None:
        """Forget what a reading shows to be over. It is the reading alone, without what was known before."""
        if fresh.trouble is Trouble.NO_DRIVER:
            self._seen.clear()
        elif fresh.trouble is None:
            over = [
                uuid
                for uuid, of_gpu in self._seen.items()
                if is_over(fresh, uuid, now - max(of_gpu.values(), default=0))
            ]
            for uuid in over:
                del self._seen[uuid]

    def due(self, now: float) -> float:
        """Seconds until one that counts may be over; infinite if there is none."""
        left = [SETTLES - (now - last) for of_gpu in self._seen.values() for last in of_gpu.values()]
        return min((one for one in left if one > 0), default=inf)

    def mark(self, inventory: Inventory, listed: Sequence[int]) -> Inventory:
        """The inventory with the Xids of each GPU, in the order of the list."""
        gpus = tuple(replace(gpu, xid=self._text(gpu, listed)) for gpu in inventory.gpus)
        return inventory if gpus == inventory.gpus else replace(inventory, gpus=gpus)

    def _text(self, gpu: Gpu, listed: Sequence[int]) -> str:
        found = self._seen.get(gpu.uuid, {}).keys() | self._seen.get(ANY, {}).keys()
        return " ".join(str(xid) for xid in listed if xid in found)


def is_over(fresh: Inventory, uuid: str, age: float) -> bool:
    """Whether the driver, which says what has to be done to a GPU, says nothing has to be done to this one; or it is
    gone.

    A GPU that a driver does not list or that does not answer is not gone as long as it may be one on PCI.
    """
    gpus = [gpu for gpu in fresh.gpus if uuid in (gpu.uuid, ANY)]
    if not gpus:
        return not fresh.node.pci_missing and all(gpu.uuid for gpu in fresh.gpus)
    return age >= SETTLES and all(is_well(gpu) for gpu in gpus)


def is_well(gpu: Gpu) -> bool:
    return gpu.recovery == "none" and not gpu.mute and Fact.RECOVERY not in gpu.unknown
