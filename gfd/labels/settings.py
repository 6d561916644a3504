"""What an administrator chose about GPU labels, as the labelers want it."""

from __future__ import annotations

from dataclasses import dataclass, field

from gfd.families import Families, built_in
from gfd.sharing import Sharing

NONE, SINGLE, MIXED = "none", "single", "mixed"
MIG_STRATEGIES = (NONE, SINGLE, MIXED)


@dataclass(frozen=True, slots=True)
class Settings:
    """`alone` is for gpu-feature-discovery, which labels nodes without a GPU too, as GFD does."""

    mig_strategy: str = NONE
    sharing: Sharing = field(default_factory=Sharing)
    families: Families = field(default_factory=built_in)
    alone: bool = False
