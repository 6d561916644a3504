"""What was made of features that were seen before: nodes that are alike are judged once (pure).

Rules are a function of the features that their terms look at. The contents of a feature that thousands of nodes share
are one value in memory, so the identity of those contents tells whether rules were evaluated on them before; what is
remembered keeps them alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nfd.features import Features
from nfd.rules.terms import Feature, View

KNOWN = 256
"""Outcomes that are remembered; with one more, all start afresh."""

Identity = tuple[int, int, int] | None
Seen = tuple[Feature | None, ...]
T = TypeVar("T")


@dataclass(slots=True)
class Latest(Generic[T]):
    """Outcomes by what they were made of."""

    _known: dict[tuple[Identity, ...], tuple[Seen, T]] = field(default_factory=dict)

    def get(self, seen: Seen) -> T | None:
        found = self._known.get(identity(seen))
        return None if found is None else found[1]

    def put(self, seen: Seen, outcome: T) -> None:
        if len(self._known) >= KNOWN:
            self._known.clear()
        self._known[identity(seen)] = seen, outcome


def look(features: Features, names: Sequence[str]) -> Seen:
    """Those of the features, by their lower-case names."""
    return tuple(map(View(features).get, names))


def identity(seen: Seen) -> tuple[Identity, ...]:
    """Equal for the very same contents, and for nothing else while those are alive."""
    return tuple(None if one is None else (id(one.flags), id(one.attributes), id(one.instances)) for one in seen)
