"""What DRA drivers offer and claims hold, for the page: read when a page asks for it, and kept for a while."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from nfd.errors import KubeError
from nfd.fleet.dra_devices import COUNTED, Dra, Held, Slice, by_node, read_claim, read_slice
from nfd.kube.client import KubeClient
from nfd.kube.dra_lists import DraLists, Json, list_dra

FRESH = 30.0
"""Seconds for which a reading is reused: a page asks every 30 s, so many viewers cost no more than one."""
SHARE = 10
"""A reading is reused for at least so many times as long as it took."""
PAGE = 50
"""Objects in one answer of the API server: the event loop, which serves workers, parses one answer at a time."""


class DraReader:
    """`found` is the last reading, None if there is none yet; `fresh` and `share` say for how long it is reused."""

    def __init__(self, client: KubeClient, fresh: float = FRESH, share: float = SHARE) -> None:
        self._client = client
        self._fresh, self._share = fresh, share
        self._until = 0.0
        self._reading = asyncio.Lock()
        self.found: Dra | None = None

    async def read(self) -> Dra:
        """A reading that is new enough. An error of the API server is its note, with what was read before."""
        async with self._reading:
            began = time.monotonic()
            if self.found is not None and began < self._until:
                return self.found
            try:
                lists = await list_dra(self._client, counted_slice, read_claim, PAGE)
                found = await asyncio.to_thread(count, lists)
            except KubeError as error:
                before = self.found.nodes if self.found else None
                found = Dra(before, f"DRA cannot be read{', the numbers are old' if before else ''}: {error}")
            ended = time.monotonic()
            self._until = ended + max(self._fresh, self._share * (ended - began))
            if self.found is None or found != self.found:
                self.found = found
            return self.found


def counted_slice(item: Json) -> Slice | None:
    """A slice with those attributes alone that are needed to count its devices."""
    return read_slice(item, COUNTED)


def count(lists: DraLists[Slice, Held]) -> Dra:
    """What is counted on each node, without the single devices."""
    if lists.refused:
        return Dra(None, lists.note)
    nodes = by_node(lists.slices, lists.claims)
    return Dra({name: replace(one, devices=(), held=()) for name, one in nodes.items()}, lists.note)
