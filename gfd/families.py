"""What follows from a compute capability: the architecture, and whether the GPU is a part of a system on a chip.

Architectures are a built-in table, and rows of the administrator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from nfd import names
from nfd.runtime import tsv_tables

Capability = tuple[int, int]
Families = Mapping[Capability, str]

INTEGRATED = frozenset({(3, 2), (5, 3), (6, 2), (7, 2), (8, 7), (10, 1), (11, 0), (12, 1)})
"""Compute capabilities of GPUs that share the memory of the machine: Tegra K1, X1, X2, Xavier, Orin, Thor (under two
numbers), GB10 (https://developer.nvidia.com/cuda/gpus, "Jetson" and "DGX Spark").
"""

_CAPABILITY = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})", re.ASCII)


@cache
def built_in() -> Families:
    """The table `families.tsv`."""
    return {parse_capability(capability): family for capability, family in tsv_tables.rows("gfd", "families.tsv")}


def overlay(rows: Mapping[str, str]) -> Families:
    """The built-in table with rows added or replaced; an empty family means that there is none."""
    return {**built_in(), **parse_rows(rows)}


def parse_rows(rows: Mapping[str, str]) -> Families:
    """Capability → family. Raises ValueError naming the row that is wrong."""
    for capability, family in rows.items():
        if problem := names.value_problem(family):
            raise ValueError(f"{capability}: {family!r} {problem}")
    return {parse_capability(capability): family for capability, family in rows.items()}


def parse_capability(text: str) -> Capability:
    """`8.9` → (8, 9)."""
    found = _CAPABILITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a compute capability such as 8.9")
    return int(found[1]), int(found[2])


def family_of(families: Families, major: int, minor: int) -> str:
    """The row of the same major number with the highest minor number up to `minor`; empty if there is none."""
    rows = [row for row in families if row[0] == major and row[1] <= minor]
    return families[max(rows)] if rows else ""
