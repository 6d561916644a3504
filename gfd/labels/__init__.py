"""Labels of an inventory: pure labelers, each about one thing, joined by one tuple; a later one wins.

Source: NVIDIA/k8s-device-plugin `internal/lm` (names, values, order); `gpu.state` and related labels are additional.
"""

from __future__ import annotations

from collections.abc import Callable

from gfd.inventory import Inventory
from gfd.labels import faults, gpus, mig, node, state
from gfd.labels.settings import LabelSettings
from nfd import names
from nfd.source import Labelled

Labeler = Callable[[Inventory, LabelSettings], Labelled]

LABELERS: tuple[Labeler, ...] = (
    node.timestamp,
    node.machine,
    node.versions,
    gpus.capabilities,
    gpus.whole_gpus,
    mig.devices,
    gpus.per_model,
    gpus.mode,
    gpus.clique,
    gpus.topology,
    node.guest,
    faults.details,
    state.health,
)


def label(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """All labels with their full keys, and (subject, reason) notes about what could not be said."""
    labels: dict[str, str] = {}
    notes: list[tuple[str, str]] = []
    for labeler in LABELERS:
        found = labeler(inventory, settings)
        labels.update(found.labels)
        notes.extend(found.notes)
    kept = {f"{names.NVIDIA_NS}/{name}": value for name, value in labels.items() if settings.applies(name)}
    return Labelled(kept, tuple(notes))
