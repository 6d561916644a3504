"""Labels that cannot be derived from a reading, since they also depend on unknown values.

They keep their earlier value: `gpu-feature-discovery` takes it from its file or object, the master from the Node.
"""

from __future__ import annotations

from gfd.inventory import Fact, Inventory
from gfd.labels.gpus import Model, models
from gfd.labels.mig import mig_devices
from gfd.labels.settings import MIXED, SINGLE
from gfd.last_reading import are_migs_unknown, are_some_unknown, count_not_listed

_OF_WHOLE_OR_MIG = ("gpu.product", "gpu.replicas", "gpu.sharing-strategy")
"""Differ for a GPU in MIG mode, whatever the strategy."""
_OF_SINGLE = (
    *_OF_WHOLE_OR_MIG,
    "gpu.count",
    "gpu.memory",
    "gpu.multiprocessors",
    "gpu.slices.gi",
    "gpu.slices.ci",
    "gpu.engines.",
)

OF_ONE_MODEL = ("gpu.product", "gpu.count", "gpu.memory", "gpu.replicas", "gpu.sharing-", "gpu.family", "gpu.compute.")
"""Prefixes of labels about the model that represents the node."""


def is_of_mig(name: str, strategy: str) -> bool:
    """Whether a label, named without its namespace, may be about MIG devices under that strategy."""
    if strategy == SINGLE:
        return name.startswith("gpu.engines.") or name in _OF_SINGLE
    return strategy == MIXED and name.startswith("mig-")


def is_uncertain(inventory: Inventory, strategy: str, name: str) -> bool:
    """Whether the value of a label, named without its namespace, cannot be determined from this reading."""
    if name == "mig.capable":
        return are_some_unknown(inventory) and not any(gpu.mig_capable for gpu in inventory.gpus)
    if name.startswith(OF_ONE_MODEL) and may_another_speak(inventory):
        return True
    if not are_migs_unknown(inventory):
        return False
    if strategy == SINGLE:
        return is_of_mig(name, SINGLE) and not is_invalid(inventory)
    if strategy == MIXED and name.startswith("mig-") and name.endswith(".count"):
        return True
    return name in _OF_WHOLE_OR_MIG and any(Fact.MIG in gpu.unknown for gpu in inventory.compute_gpus)


def may_another_speak(inventory: Inventory) -> bool:
    """Whether, of several models, another one might represent the node if all values were known: as many GPUs, or as
    many as may be its."""
    found = models(inventory)
    if len(found) < 2:
        return False
    first, *others = found
    if any(Fact.MIG in gpu.unknown for gpu in inventory.compute_gpus):
        return True
    known = sum(len(model.gpus) for model in (first, *others))
    unknown = sum(not gpu.display_only for gpu in inventory.gpus) - known + count_not_listed(inventory)
    rivals = [one for one in others if one.carved == first.carved and len(first.gpus) - len(one.gpus) <= unknown]
    return bool(rivals) and (unknown > 0 or any(map(is_memory_unread, (first, *rivals))))


def is_memory_unread(model: Model) -> bool:
    return model.memory is None and any(Fact.MEMORY in gpu.unknown for gpu in model.gpus)


def is_invalid(inventory: Inventory) -> bool:
    """Whether the layout fits the strategy `single` in no case, whatever it is that is not known."""
    gpus = inventory.compute_gpus
    whole = any(not gpu.mig_enabled and Fact.MIG not in gpu.unknown for gpu in gpus)
    carved = any(gpu.mig_enabled for gpu in gpus)
    return (whole and carved) or len({mig.profile for _, mig in mig_devices(inventory)}) > 1
