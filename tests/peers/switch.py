"""A change from one program to another on some Nodes, counted from its beginning to when the Nodes are settled."""

from __future__ import annotations

from collections.abc import Sequence

from tests.e2e.nodes import Node
from tests.peers.conftest import AddRow
from tests.peers.history import KINDS, Key, Moment, changed_back, look, removed, settled, states

LEAST = 20
"""Labels that both give, so that a comparison of almost nothing does not pass."""


class Switch:
    """`initial`: the Nodes before anybody labelled them; those keys are not counted."""

    def __init__(self, add_row: AddRow, nodes: Sequence[Node], initial: Sequence[Moment]) -> None:
        self._add_row, self._nodes, self._initial = add_row, nodes, initial
        self.begin()

    def begin(self) -> None:
        self._before = [look(node) for node in self._nodes]

    def end(self, name: str, prefix: str = "") -> None:
        """Add the row, check it, and begin again. `prefix`: of the names that count."""
        counts = dict.fromkeys(KINDS, 0)
        former: set[Key] = set()
        gone: set[Key] = set()
        flipped: set[Key] = set()
        for node, initial, before in zip(self._nodes, self._initial, self._before, strict=True):
            after = settled(node)
            given = {key for key in before.state.keys() - initial.state.keys() if key.name.startswith(prefix)}
            both = frozenset(given & after.state.keys())
            for key in both:
                counts[key.kind] += 1
            history = states(node, before)
            former |= given - after.state.keys()
            gone |= removed(history, both)
            flipped |= changed_back(history, both)
        alone = ", ".join(sorted({f"`{key.name}`" for key in former})) or "0"
        self._add_row("take-over", name, *counts.values(), alone, len(gone), len(flipped))
        assert counts["labels"] > LEAST
        assert (gone, flipped) == (set(), set())
        self.begin()
