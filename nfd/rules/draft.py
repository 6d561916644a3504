"""A copy of the data of a rule that is repaired until it has the right shape; only what changes is copied."""

from __future__ import annotations

from typing import Any

from nfd.config.yamltext import Path

_SHORT = "value"
"""Where a list of values that stands for a whole expression, `x: [a, b]`, is after it was expanded."""


class Draft:
    """The data as it stands, and the places in `broken` whose content is not what was written."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.broken: set[Path] = set()
        self._own: dict[int, Any] = {}

    def is_broken(self, place: Path) -> bool:
        """Whether a place is, or is inside of, one that was given up."""
        return bool(self.broken) and any(place[:end] in self.broken for end in range(len(place) + 1))

    def replace(self, place: Path, value: Any) -> None:
        """Put another value there. Raises: LookupError if there is no such place."""
        around, key = self._around(place)
        around[key]
        around[key] = value

    def remove(self, place: Path) -> None:
        """Take out a key of a mapping. Raises: LookupError if there is no such place."""
        around, key = self._around(place)
        if not isinstance(around, dict):
            raise LookupError(place)
        around.pop(key, None)

    def give_up(self, place: Path, stand_in: Any) -> None:
        """Take out what is wrong: a key of a mapping goes, or comes if it is missing; an item of a list is replaced."""
        around, key = self._around(place)
        if isinstance(around, dict) and key in around:
            del around[key]
        else:
            around[key] = stand_in
        self.broken.add(place)

    def _around(self, place: Path) -> tuple[Any, Any]:
        """What is around a place, as a copy of our own, and the key in it."""
        if not place:
            raise LookupError(place)
        self.data = around = self._copy(self.data)
        *way, last = place
        for key in way:
            if isinstance(around, list) and key == _SHORT:
                continue
            around[_fit(around, key)] = inner = self._copy(around[_fit(around, key)])
            around = inner
        return around, _fit(around, last)

    def _copy(self, value: Any) -> Any:
        if id(value) in self._own:
            return value
        if not isinstance(value, dict | list | tuple):
            raise LookupError
        copy = dict(value) if isinstance(value, dict) else list(value)
        self._own[id(copy)] = copy
        return copy


def _fit(around: Any, key: str | int) -> Any:
    """The key, if it is of the kind that what is around it has. Raises: LookupError."""
    if isinstance(around, list) != isinstance(key, int):
        raise LookupError(key)
    return key
