"""Runs long computations on the event loop in slices, at most half of the time.

Another task, such as a probe or a report, waits for one slice at most. Then it has as long as that slice took, or four
times as long if the slice took too long, since a report needs several turns of the loop. Wall time is measured, not CPU
time: on a busy machine all slices take longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, TypeVar

from nfd.master.rules.ruleset import Steps
from nfd.rule_clock import CLOCKS
from nfd.rules.time_limit import Clocks

T = TypeVar("T")
SLICE = 0.01
"""Seconds after which a computation pauses between two steps."""
AT_ONCE = 0.02
"""The most seconds that may be used at once after a pause, so that short computations need not wait."""


class Slices:
    """A time budget: it grows with the wall time up to `AT_ONCE`, and computations use it up."""

    def __init__(self, clocks: Clocks = CLOCKS) -> None:
        self._clocks = clocks
        self._left = AT_ONCE
        self._seen = clocks.wall()

    def left(self) -> float:
        """Seconds left now; negative if a step took longer than was left."""
        now = self._clocks.wall()
        self._left = min(AT_ONCE, self._left + now - self._seen)
        self._seen = now
        return self._left

    def advance(self, steps: Iterator[Any], seconds: float = AT_ONCE, keep: float = 0.0) -> bool:
        """Continue until that time, or the budget except `keep`, is used up. Returns whether all steps are done."""
        most = min(seconds, self.left() - keep)
        if most <= 0:
            return False
        began = self._clocks.wall()
        try:
            return all(self._clocks.wall() - began < most for _ in steps)
        finally:
            self._seen = self._clocks.wall()
            taken = self._seen - began
            self._left -= taken + 3 * max(0.0, taken - 2 * SLICE)

    async def run(self, steps: Steps[T]) -> T:
        """Run to the end, a slice at a time. Returns the result."""
        found: list[T] = []

        def collect() -> Steps[None]:
            found.append((yield from steps))

        collecting = collect()
        while not self.advance(collecting, SLICE):
            await asyncio.sleep(max(0.0, SLICE - self.left()))
        return found[0]
