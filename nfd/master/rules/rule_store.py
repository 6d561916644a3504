"""Rule objects from the API server, compiled a slice at a time, and kept while they stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nfd.kube.check_responses import Key, specification
from nfd.kube.informer import Store
from nfd.master.rules.ruleset import Steps
from nfd.master.rules.time_slices import Slices
from nfd.runtime.failures import failed

T = TypeVar("T")
COMPILING = "rule compilation"
"""The name in the log of a failure outside every rule of an object."""


@dataclass(frozen=True, slots=True, eq=False)
class RawObject:
    """An object as parsed JSON; no two are equal."""

    item: Mapping[str, Any]


def written(field: str, item: Mapping[str, Any]) -> RawObject:
    """Check that the specification of an object has its required field. Raises: ValueError."""
    specification(item, field)
    return RawObject(item)


class Compiled(Generic[T]):
    """The compiled objects of one kind. An old version is used until the new one is compiled."""

    def __init__(
        self, written: Store[RawObject], steps: Callable[[Mapping[str, Any]], Steps[T]], slices: Slices
    ) -> None:
        self._written = written
        self._steps = steps
        self._slices = slices
        self._known: dict[Key, tuple[RawObject, T | None]] = {}
        self._updating = asyncio.Lock()

    async def update(self) -> None:
        """Compile new objects. An object that changes during its compilation is compiled again at the next update."""
        async with self._updating:  # of two at once, one could replace a newer version by an older one
            for key in list(self._written.items):
                written, known = self._written.items.get(key), self._known.get(key)
                if written is not None and (known is None or known[0] is not written):
                    self._known[key] = written, await self._compile(key, written, known[1] if known else None)
            for key in self._known.keys() - self._written.items.keys():
                del self._known[key]

    async def _compile(self, key: Key, written: RawObject, before: T | None) -> T | None:
        """The compiled object, or the earlier one if this cannot be compiled."""
        try:
            return await self._slices.run(self._steps(written.item))
        except Exception as error:
            failed(COMPILING, error, path="/".join(filter(None, key)))
            return before

    def items(self) -> Iterator[tuple[Key, T]]:
        """The compiled objects that still exist, by namespace and name."""
        for key, (_, one) in sorted(self._known.items(), key=lambda known: known[0]):
            if one is not None and key in self._written.items:
                yield key, one

    def missing(self) -> Iterator[Key]:
        """The objects of which no version is compiled yet."""
        return (key for key in self._written.items if self._known.get(key, (None, None))[1] is None)
