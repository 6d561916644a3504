"""docs/vendor-labels.md: what vendors' tools write on recorded machines, beside the labels of this product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

NAME = "docs/vendor-labels.md"
TESTS = Path(__file__).parents[1]
DATA = Path(__file__).with_name("vendor_labels.yaml")
INTRODUCTION = """# Labels beside those of vendors' tools

This page compares the labels that this product writes for accelerators with the labels of the vendors' own tools. Each
table is about one recorded machine. The column *vendor's tool* has the value that the vendor's tool writes, and the
column *here* has the value that this product writes. If they differ, the column *why* gives the reason.
[differences.md](differences.md) lists all intended differences.

The recordings are in `tests/hosts`. The README there says where each one comes from. Recordings whose names begin with
`made-` are written by hand, because nobody has published a recording of such a machine.

Two kinds of labels are not in the tables:

* AMD's older names `beta.amd.com/gpu.…`. The worker writes them only with `sources.amd.beta`.
* The labels `accelerator-<vendor>.…`, which have the same form for all vendors ([accelerators.md](accelerators.md)).
"""
Json = Mapping[str, Any]


def load() -> list[Json]:
    return list(yaml.safe_load(DATA.read_text()))


def ours(machine: str, prefixes: tuple[str, ...]) -> dict[str, str]:
    """The labels of a recording that begin with one of these."""
    lines = (TESTS / "hosts" / machine / "expected/labels.txt").read_text().splitlines()
    pairs = (line.partition("=") for line in lines)
    return {key: value for key, _, value in pairs if key.startswith(prefixes)}


def rows(tool: Json, machine: str) -> Iterator[tuple[str, str | None, str | None, str]]:
    """Label, its value by the vendor's tool, its value here, and why they differ, "" if they do not."""
    theirs: Mapping[str, str] = tool["machines"][machine]
    found = ours(machine, tuple(tool["prefixes"]))
    reasons = {**tool.get("why", {}), **tool.get("differs", {}).get(machine, {})}
    for key in sorted({*theirs, *found}):
        why = next((text for pattern, text in reasons.items() if fnmatchcase(key, pattern)), "")
        yield key, theirs.get(key), found.get(key), why if theirs.get(key) != found.get(key) else ""


def page() -> str:
    lines = [INTRODUCTION]
    for tool in load():
        lines += [f"## {tool['tool']}", ""]
        for machine in tool["machines"]:
            lines += [f"`{machine}`:", "", "| label | vendor's tool | here | why |", "| --- | --- | --- | --- |"]
            lines += [
                f"| `{key}` | {_cell(theirs)} | {_cell(mine)} | {why} |"
                for key, theirs, mine, why in rows(tool, machine)
            ]
            lines.append("")
    return "\n".join(lines)


def _cell(value: str | None) -> str:
    if value is None:
        return "no label"
    return value if value.startswith("(") else f"`{value}`" if value else "empty"
