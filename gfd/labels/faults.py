"""What is wrong with GPUs (recovery, row remapping, fabric, NVLinks, PCIe width), and the labels of these faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gfd.inventory import Fact, Gpu, Inventory
from gfd.labels.settings import LabelSettings
from gfd.last_reading import count_not_listed
from nfd.host.blanks_and_numbers import parse_natural
from nfd.source import Labelled

KINDS = ("recovery", "remap", "fabric", "nvlink", "pcie")
"""Those that every scan of the worker can see."""

_LABELS: Mapping[str, str] = {
    "recovery": "gpu.recovery",
    "remap": "gpu.remap",
    "fabric": "gpu.fabric.state",
    "xid": "gpu.xid",
}
_FACTS: Mapping[str, frozenset[str]] = {
    "gpu.recovery": frozenset({Fact.RECOVERY}),
    "gpu.remap": frozenset({Fact.REMAP, Fact.UNREPAIRABLE}),
    "gpu.fabric.state": frozenset({Fact.CLIQUE}),
}
"""What a label is made from."""
_WORST: Mapping[str, Sequence[str]] = {
    "recovery": ("drain-p2p", "gpu-reset", "drain-and-reset", "", "node-reboot"),
    "remap": ("pending", "failed", "unrepairable"),
    "fabric": ("limited", "recovering", "in-progress", "not-started", "misconfigured", "unhealthy", "failed"),
}
"""Values in ascending order; the empty one stands for those not listed."""


class Fault(NamedTuple):
    """One fault of one GPU."""

    kind: str
    gpu: int
    reason: str
    value: str = ""
    """The label's value; empty for a kind without a label."""


def find_faults(inventory: Inventory) -> list[Fault]:
    """In the order of the GPUs."""
    gpus = inventory.compute_gpus
    return [fault for gpu in gpus for fault in _faults(gpu, gpus)]


def count_faults(inventory: Inventory) -> dict[str, int]:
    """GPUs with a fault of each kind."""
    found = Counter(fault.kind for fault in find_faults(inventory))
    return {kind: found[kind] for kind in KINDS}


def _faults(gpu: Gpu, gpus: Sequence[Gpu]) -> Iterator[Fault]:
    if gpu.recovery not in ("", "none"):
        yield Fault("recovery", gpu.index, f"recovery action: {gpu.recovery}", gpu.recovery)
    if gpu.unrepairable:
        yield Fault("remap", gpu.index, "memory that cannot be repaired", "unrepairable")
    elif gpu.remap not in ("", "none"):
        yield Fault("remap", gpu.index, f"row remapping: {gpu.remap}", gpu.remap)
    fabric = gpu.fabric_health if gpu.fabric_state == "completed" else gpu.fabric_state
    if fabric not in ("", "healthy"):
        yield Fault("fabric", gpu.index, f"fabric: {fabric}", fabric)
    if (expected := _expected_links(gpu, gpus)) > (gpu.nvlink_up or 0):
        yield Fault("nvlink", gpu.index, f"NVLinks that are up: {gpu.nvlink_up or 0} of {expected}")
    if gpu.pcie_width and gpu.pcie_width_max and gpu.pcie_width < gpu.pcie_width_max:
        yield Fault("pcie", gpu.index, f"PCIe lanes in use: {gpu.pcie_width} of {gpu.pcie_width_max}")
    for xid in gpu.xid.split():
        yield Fault("xid", gpu.index, f"Xid {xid}", xid)


def _expected_links(gpu: Gpu, gpus: Sequence[Gpu]) -> int:
    """How many NVLinks are up on another GPU of the model.

    On boards without switches, GPUs that no bridge connects have none: only with switches is each of them connected.
    """
    if gpu.nvlink_up is None:
        return 0
    same_model = [one for one in gpus if one.name == gpu.name and one.nvlink_up]
    switched = any(one.nvlink_peer == "switch" for one in same_model)
    return max((one.nvlink_up or 0 for one in same_model), default=0) if gpu.nvlink_up or switched else 0


def details(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """The worst value of all GPUs, where there is a fault.

    Labels:
        gpu.recovery = gpu-reset, node-reboot, drain-p2p, drain-and-reset, number, other:
            the recovery action that the driver requests for a GPU. A number (5 to 99) is the driver's own code for an
            action. Its meaning depends on the driver. `other` stands for all further codes
        gpu.remap = pending, failed, unrepairable: a GPU has faulty memory rows. `pending`: the next GPU reset replaces
            them. `failed`: no spare rows are left. `unrepairable`: the memory cannot be repaired
        gpu.fabric.state = not-started, in-progress, failed, limited, recovering, misconfigured, unhealthy:
            the problem of the NVLink fabric
        gpu.xid = number: an Xid that a GPU has had. Only `gpu-feature-discovery` with `--xid-events` writes this label
    """
    labels: dict[str, str] = {}
    found = find_faults(inventory)
    worst = {**_WORST, "xid": [str(xid) for xid in reversed(settings.xids)]}
    for kind, name in _LABELS.items():
        values = [fault.value for fault in found if fault.kind == kind]
        if values:
            labels[name] = max(values, key=lambda value: _rank(worst[kind], value))
    return Labelled(labels)


def _rank(order: Sequence[str], value: str) -> tuple[int, int]:
    place = order.index(value) if value in order else order.index("") if "" in order else -1
    return place, parse_natural(value) or 0


def is_ruled_out(inventory: Inventory, name: str) -> bool:
    """Whether a label of a fault, named without its namespace, that stood before does not hold any more: all GPUs
    answered what it is made from.
    """
    facts = _FACTS.get(name)
    if facts is None or count_not_listed(inventory) > 0:
        return False
    return not any(facts & gpu.unknown for gpu in inventory.gpus if not gpu.display_only)
