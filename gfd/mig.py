"""Names of MIG profiles, as the driver's tools show them and labels repeat them.

A name is `<G>g.<GB>gb<suffix>`, or `<C>c.<G>g.<GB>gb<suffix>` for a compute instance smaller than its GPU instance.
G and the suffix follow from the number by which NVML is asked for the GPU-instance profile, C from that of the compute
instance (NVML API reference, "Multi Instance GPU Management": NVML_GPU_INSTANCE_PROFILE_*).
"""

from __future__ import annotations

import re

GPU_INSTANCES: tuple[tuple[int, str], ...] = (
    (1, ""),
    (2, ""),
    (3, ""),
    (4, ""),
    (7, ""),
    (8, ""),
    (6, ""),
    (1, ".me"),
    (2, ".me"),
    (1, ""),
    (1, ".gfx"),
    (2, ".gfx"),
    (4, ".gfx"),
    (1, "-me"),
    (2, "-me"),
    (1, ".me.all"),
    (2, ".me.all"),
    (3, ".gfx"),
)
"""(slices, suffix) by profile number; where the driver's tools show `+`, labels have a dot."""

COMPUTE_INSTANCES: tuple[int, ...] = (1, 2, 3, 4, 7, 8, 6, 1, 7)
"""Slices by profile number."""

_EIGHTHS = 8
_MIB = 1024 * 1024
_GIB = 1024 * _MIB


_PROFILE = re.compile(r"(?:MIG )?((?:\d+c\.)?\d+g\.\d+gb(?:[+.-][a-z0-9.+-]*)?)$", re.ASCII)


def profile_name(gi_profile: int, ci_profile: int, memory_mb: int, total_bytes: int) -> str:
    """The name of a MIG device, from its profile numbers, its memory in MB and that of its GPU in bytes."""
    slices, suffix = GPU_INSTANCES[gi_profile]
    return f"{compute_prefix(gi_profile, ci_profile)}{slices}g.{gigabytes(memory_mb, total_bytes)}gb{suffix}"


def compute_prefix(gi_profile: int, ci_profile: int) -> str:
    """`1c.` for a compute instance of one slice in a GPU instance of several; empty for one that is all of it."""
    computing = COMPUTE_INSTANCES[ci_profile]
    return "" if computing == GPU_INSTANCES[gi_profile][0] else f"{computing}c."


def parse_profile(text: str) -> str:
    """The profile's name at the end of a name of the driver's, `MIG 1g.10gb+me`, as labels have it; "" if none is."""
    found = _PROFILE.search(text)
    return found[1].replace("+", ".") if found else ""


def gigabytes(memory_mb: int, total_bytes: int) -> int:
    """The memory in a profile's name: eighths of the GPU, rounded up, of its GiB, rounded up; halves go up."""
    eighths = -(-memory_mb * _MIB * _EIGHTHS // total_bytes)
    total = -(-total_bytes // _GIB)
    return (2 * eighths * total + _EIGHTHS) // (2 * _EIGHTHS)
