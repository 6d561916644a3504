"""What one caller may use up: calls and bytes by a budget, and few calls at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from nfd.errors import ReportError
from nfd.runtime.cache import LruCache

BURST = 1000.0
RATE = 5.0
"""Units that a caller may spend at once, and that come back in a second."""
UNIT_BYTES = 16 * 1024
"""A call costs one unit, and one for each of these bytes: a first report of a large machine costs some 10."""
CALLS = 2
"""Calls of one caller at a time: the second is there for a worker whose first went astray."""
HELD = (128, 512)
LINGER = 4.0
"""Refusals, of one caller and of all, that wait for some seconds.

A connection has no more than 16 calls at a time, so a flood of them comes to a stand: it costs us four calls a second
and connection, not as many as the sender can make.
"""
READ_SECONDS = 10.0
"""How long a caller may take to send the message of a call."""
CALLERS = 20_000
"""Callers remembered, the latest ones."""


class Limits:
    """Budgets by caller; "" is nobody in particular and has none. For one event loop; `now` in seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._balances = LruCache[str, tuple[float, float]](CALLERS)
        self._busy: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """One call. Raises: ReportError if the caller has spent its budget, or has calls under way."""
        if not caller:
            yield
            return
        if (balance := self._balance(caller)) < 0:
            await self._linger(caller)
            raise _later(f"too much comes from {caller}", -balance / RATE)
        if self._busy[caller] >= CALLS:
            await self._linger(caller)
            raise _later(f"{caller} has {CALLS} calls under way", LINGER)
        with _counted(self._busy, caller):
            yield

    def charge(self, caller: str, size: int) -> None:
        """A call of that many bytes was read; its price may leave a debt."""
        if caller:
            self._balances.put(caller, (self._balance(caller) - 1 - size / UNIT_BYTES, self._now()))

    async def _linger(self, caller: str) -> None:
        each, together = HELD
        if self._held[caller] < each and self._held.total() < together:
            with _counted(self._held, caller):
                await asyncio.sleep(LINGER)

    def _balance(self, caller: str) -> float:
        balance, at = self._balances.get(caller) or (BURST, 0.0)
        return min(BURST, balance + (self._now() - at) * RATE)


@contextmanager
def _counted(counter: Counter[str], key: str) -> Iterator[None]:
    """Count one more while the block lasts."""
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def _later(reason: str, seconds: float) -> ReportError:
    return ReportError(reason, retry=True, retry_after=max(seconds, 0.1), code="RESOURCE_EXHAUSTED")
