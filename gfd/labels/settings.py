"""What an administrator chose about GPU labels, as the labelers want it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gfd.families import Families, built_in
from gfd.inventory import Inventory
from gfd.sharing import MPS, Shared, Sharing

NONE, SINGLE, MIXED = "none", "single", "mixed"
MIG_STRATEGIES = (NONE, SINGLE, MIXED)


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """`alone` is for gpu-feature-discovery, which labels nodes without a GPU too, as GFD does."""

    mig_strategy: str = NONE
    sharing: Sharing = field(default_factory=Sharing)
    families: Families = field(default_factory=built_in)
    alone: bool = False

    def shared(self, inventory: Inventory, resource: str) -> Shared:
        """How a resource is shared. MPS works on no node with a GPU in MIG mode: there nothing is shared by it."""
        return Shared() if self.is_mps_impossible(inventory) else self.sharing.of(resource)

    def is_mps_impossible(self, inventory: Inventory) -> bool:
        """Whether MPS is configured and cannot work."""
        return self.sharing.strategy == MPS and any(gpu.mig_enabled for gpu in inventory.compute_gpus)
