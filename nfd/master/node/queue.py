"""Which nodes want a pass: each at most once in the queue and never twice at a time, failures later and later."""

from __future__ import annotations

import asyncio
import random
from itertools import count

BACKOFF = (0.05, 100.0)
"""Seconds before the first and, at most, before any later try of a failed pass, as NFD waits."""


class Queue:
    """Names of nodes, in the order they were added; several tasks may take from it.

    Those of which there is news come before those that are only looked at because all are, after a change of rules or
    of the leader: a worker waits for its answer, and somebody for its label, while thousands of others are written.
    """

    def __init__(self) -> None:
        self._ready: asyncio.PriorityQueue[tuple[bool, int, str]] = asyncio.PriorityQueue()
        self._numbers = count()
        self.news = 0
        """How many of those that are queued there is news of."""
        self._queued: dict[str, tuple[bool, int, str]] = {}
        self._busy: set[str] = set()
        self._again: dict[str, bool] = {}
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._queued) + len(self._again)

    def add(self, name: str, *, news: bool = False) -> None:
        """The node wants a pass now, whatever was planned for later."""
        if timer := self._timers.pop(name, None):
            timer.cancel()
        if name in self._busy:
            self._again[name] = news or self._again.get(name, False)
        elif (place := self._queued.get(name)) is None or (news and place[0]):
            self._queued[name] = (not news, next(self._numbers), name)
            self._ready.put_nowait(self._queued[name])
            self.news += news
            self._idle.clear()

    def add_later(self, name: str, seconds: float) -> None:
        """The node wants a pass after that time; an earlier wish stands."""
        timer = self._timers.get(name)
        due = asyncio.get_running_loop().time() + seconds
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[name] = asyncio.get_running_loop().call_at(due, self.add, name)

    def retry(self, name: str, at_least: float = 0.0) -> int:
        """A pass failed: try again, later each time; answers how often it has failed in a row."""
        failures = self._failures.get(name, 0)
        self._failures[name] = failures + 1
        delay = min(BACKOFF[0] * 2 ** min(failures, 20), BACKOFF[1])
        self.add_later(name, max(delay, at_least) * random.uniform(1.0, 1.25))
        return failures + 1

    def is_busy(self, name: str) -> bool:
        """Whether a pass over the node is under way."""
        return name in self._busy

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)

    async def take(self) -> str:
        """The next node; `done` has to follow."""
        while True:
            place = await self._ready.get()
            name = place[-1]
            if self._queued.get(name) is place:  # else it was moved to the front, or is done already
                del self._queued[name]
                self.news -= not place[0]
                self._busy.add(name)
                return name

    def done(self, name: str) -> None:
        self._busy.discard(name)
        if (news := self._again.pop(name, None)) is not None:
            self.add(name, news=news)
        if not self._queued and not self._busy:
            self._idle.set()

    async def idle(self) -> None:
        """Wait until nothing is queued or under way; what waits for its time does not count."""
        await self._idle.wait()

    def close(self) -> None:
        """Forget what waits for its time."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
