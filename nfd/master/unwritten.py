"""Keys that nodes should have and do not get, and who stands in the way: for metrics, `nfd explain` and `nfd nodes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

MOST_TOLD = 4
"""Texts of one node."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """One key on some nodes. `kind` is as in `Dropped`; key `*` stands for all keys of all kinds.

    `by` is the admission policy or webhook that refuses it, or the manager that sets it to something else. `removal`
    tells that it is to be removed.
    """

    kind: str
    key: str
    by: str
    reason: str
    nodes: tuple[str, ...] = ()
    removal: bool = False

    def what(self) -> str:
        """The key in words: `label a/b`."""
        if self.key == "*":
            return "every change of the Node"
        return f"{'removal of ' if self.removal else ''}{self.kind} {self.key}"


def texts_by_node(found: Iterable[Unwritten]) -> dict[str, list[str]]:
    """For each node what it is without, in words: the first few, and how many more there are."""
    texts: dict[str, list[str]] = {}
    for one in found:
        for node in one.nodes:
            texts.setdefault(node, []).append(f"{one.what()} not written: {one.by}")
    return {
        node: told
        if len(told) <= MOST_TOLD
        else [*told[: MOST_TOLD - 1], f"{len(told) - MOST_TOLD + 1} more not written"]
        for node, told in texts.items()
    }


def render_unwritten(one: Unwritten) -> dict[str, Any]:
    return asdict(one)


def parse_unwritten(data: Mapping[str, Any]) -> Unwritten:
    """The reverse. Raises: TypeError, KeyError for what is none."""
    known = {one.name: data[one.name] for one in fields(Unwritten) if one.name in data}
    return Unwritten(**{**known, "nodes": tuple(map(str, known.get("nodes") or ()))})
