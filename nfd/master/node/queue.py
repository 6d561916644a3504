"""The work queue: each node is at most once in it and processed by one task at a time; failures are retried with
back-off."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from itertools import count

BACKOFF = (0.05, 100.0)
"""Back-off in seconds after a failed pass: the first and the longest, as in NFD."""


class Queue:
    """Names of nodes, in the order they were added; several tasks may take from it.

    Nodes with a new report come before those that are queued because of a change of rules or of the leader: a worker
    waits for the answer, while thousands of other nodes are written.
    """

    def __init__(self) -> None:
        self._ready: asyncio.PriorityQueue[tuple[bool, int, str]] = asyncio.PriorityQueue()
        self._numbers = count()
        self.urgent = 0
        """The number of queued nodes with a new report."""
        self._queued: dict[str, tuple[bool, int, str]] = {}
        self._busy: set[str] = set()
        self._again: dict[str, bool] = {}
        self._failures: dict[str, int] = {}
        self._timers: dict[str, tuple[asyncio.TimerHandle, bool]] = {}
        """The timer of each node that is queued for later, and whether it is urgent then."""
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._queued) + len(self._again)

    def add(self, name: str, *, urgent: bool = False) -> None:
        """Queue the node now, and cancel any later time."""
        if known := self._timers.pop(name, None):
            known[0].cancel()
        if name in self._busy:
            self._again[name] = urgent or self._again.get(name, False)
        elif (place := self._queued.get(name)) is None or (urgent and place[0]):
            self._queued[name] = (not urgent, next(self._numbers), name)
            self._ready.put_nowait(self._queued[name])
            self.urgent += urgent
            self._idle.clear()

    def add_later(self, name: str, seconds: float, *, urgent: bool = False) -> None:
        """Queue the node after that time; an earlier time stays."""
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if (known := self._timers.get(name)) is not None:
            timer, was_urgent = known
            if timer.when() <= due and was_urgent >= urgent:
                return
            due, urgent = min(due, timer.when()), urgent or was_urgent
            timer.cancel()
        self._timers[name] = loop.call_at(due, partial(self.add, name, urgent=urgent)), urgent

    def retry(self, name: str, at_least: float = 0.0) -> int:
        """A pass failed: queue it again with back-off. Returns the number of consecutive failures."""
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        delay = min(BACKOFF[0] * 2 ** min(failures, 20), BACKOFF[1])
        self.add_later(name, max(delay, at_least) * random.uniform(1.0, 1.25))
        return failures + 1

    def is_busy(self, name: str) -> bool:
        """Whether a pass over the node is in progress."""
        return name in self._busy

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)

    async def take(self) -> str:
        """The next node; call `done` afterwards."""
        while True:
            place = await self._ready.get()
            name = place[-1]
            if self._queued.get(name) is place:  # else it was moved to the front, or is already done
                del self._queued[name]
                self.urgent -= not place[0]
                self._busy.add(name)
                return name

    def done(self, name: str) -> None:
        self._busy.discard(name)
        if (urgent := self._again.pop(name, None)) is not None:
            self.add(name, urgent=urgent)
        if not self._queued and not self._busy:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until nothing is queued or in progress, apart from nodes that are queued for later."""
        await self._idle.wait()

    def close(self) -> None:
        """Cancel the nodes that are queued for later."""
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
