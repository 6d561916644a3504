"""A queue for reviews of unknown callers: few at a time, and fair between callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nfd.errors import Forbidden, Unavailable
from nfd.runtime.cache import ExpiringCache

LONGEST_WAIT = 2.0
"""Seconds that a review waits in the queue."""
WAITING = 100
"""The most reviews that wait."""
REMEMBERED = 10_000
LONGEST_NAME = 100
"""The most recent callers that are counted, and the most letters of a name."""
SECONDS = 10.0
"""Seconds after a caller's last review for which it is counted."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """`number` counts those that came."""

    askers: tuple[str, ...]
    number: int
    turn: asyncio.Future[None]


class ReviewQueue:
    """At most `at_once` reviews run at a time, and `bad` of those that fail per second. For one event loop.

    A caller is named from the whole to the part: an address, then the identity that a token from there claims. Callers
    whose reviews failed recently come after others, and callers that were rejected by the queue come before others. So
    a flood waits for itself, and other callers behind the same address have their own turn. If the flood has a new name
    each time, a caller that comes again with the same name goes first.
    """

    def __init__(self, at_once: int, bad: float, now: Callable[[], float]) -> None:
        self._free = at_once
        self._pause = at_once / bad
        self._now = now
        self._waiting: list[_Waiting] = []
        self._counts: ExpiringCache[tuple[int, int]] = ExpiringCache(REMEMBERED, now)
        self._number = 0

    @asynccontextmanager
    async def turn(self, *askers: str) -> AsyncIterator[None]:
        """Run one review in its turn; its place stays taken for a while if it fails. Raises: Unavailable."""
        askers = tuple(asker[:LONGEST_NAME] for asker in askers)
        try:
            await self._wait(askers)
        except Unavailable:
            self._count(askers, turned_away=1)
            raise
        try:
            yield
        except BaseException as error:
            self._count(askers, bad=isinstance(error, Forbidden))
            asyncio.get_running_loop().call_later(self._pause, self._leave)
            raise
        self._leave()

    async def _wait(self, askers: tuple[str, ...]) -> None:
        """Take a place, or wait for one. If too many wait, the last in the order is rejected."""
        if self._free:
            self._free -= 1
            return
        self._number += 1
        one = _Waiting(askers, self._number, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        if len(self._waiting) > WAITING and not (last := self._take(max).turn).done():
            last.set_exception(_too_many())
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await one.turn
        except TimeoutError as error:
            self._give_up(one)
            raise _too_many() from error
        except BaseException:
            self._give_up(one)
            raise

    def _give_up(self, one: _Waiting) -> None:
        """Stop waiting; a place that it got meanwhile is passed on."""
        if one in self._waiting:
            self._waiting.remove(one)
        elif one.turn.done() and not one.turn.cancelled() and one.turn.exception() is None:
            self._leave()

    def _take(self, choose: Callable[..., _Waiting]) -> _Waiting:
        one = choose(self._waiting, key=self._rank)
        self._waiting.remove(one)
        return one

    def _rank(self, one: _Waiting) -> tuple[tuple[int, int], ...]:
        """The sort key: the least is first; equal ones are in the order of arrival."""
        return (*(self._counts.get(asker) or (0, 0) for asker in one.askers), (one.number, 0))

    def _count(self, askers: tuple[str, ...], *, bad: int = 0, turned_away: int = 0) -> None:
        for asker in askers:
            before = self._counts.get(asker) or (0, 0)
            self._counts.put(asker, (before[0] + bad, before[1] - turned_away), self._now() + SECONDS)

    def _leave(self) -> None:
        """Pass a free place on."""
        while self._waiting:
            if not (turn := self._take(min).turn).done():
                turn.set_result(None)
                return
        self._free += 1


def _too_many() -> Unavailable:
    return Unavailable("too many unknown tokens", retry_after=LONGEST_WAIT)
