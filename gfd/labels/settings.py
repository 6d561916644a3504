"""What an administrator chose about GPU labels, as the labelers want it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gfd.families import Families, built_in
from gfd.inventory import Inventory
from gfd.sharing import MPS, Shared, Sharing

NONE, SINGLE, MIXED = "none", "single", "mixed"
MIG_STRATEGIES = (NONE, SINGLE, MIXED)

DEVICE_PLUGIN, DRA = "device-plugin", "dra"
"""What hands out the GPUs of a node: the device plugin, or NVIDIA's DRA driver."""
_OF_DEVICE_PLUGIN = frozenset({"gpu.replicas", "gpu.sharing-strategy", "mps.capable", "mig.strategy", "gfd.timestamp"})


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """`alone` is for gpu-feature-discovery, which labels nodes without a GPU too, as GFD does.

    `dra`: GPUs are handed out by DRA, where claims choose sharing and MIG devices. `xids`: those that are waited for,
    the worst first.
    """

    mig_strategy: str = NONE
    sharing: Sharing = field(default_factory=Sharing)
    families: Families = field(default_factory=built_in)
    alone: bool = False
    dra: bool = False
    xids: tuple[int, ...] = ()

    def shared(self, inventory: Inventory, resource: str) -> Shared:
        """How a resource is shared. MPS works on no node with a GPU in MIG mode: there nothing is shared by it."""
        return Shared() if self.is_mps_impossible(inventory) else self.sharing.of(resource)

    def is_mps_impossible(self, inventory: Inventory) -> bool:
        """Whether MPS is configured and cannot work."""
        return self.sharing.strategy == MPS and any(gpu.mig_enabled for gpu in inventory.compute_gpus)

    def applies(self, name: str) -> bool:
        """Whether a label, named without its namespace, can be true whoever hands out the GPUs."""
        return not (self.dra and (name in _OF_DEVICE_PLUGIN or name.startswith("mig-")))


def settings_for(
    profile: str, mig_strategy: str, sharing: Sharing, families: Families, *, alone: bool = False
) -> LabelSettings:
    """The settings of a profile: with DRA there is neither a strategy nor a sharing of the node."""
    if profile == DRA:
        return LabelSettings(families=families, alone=alone, dra=True)
    return LabelSettings(mig_strategy, sharing, families, alone)
