"""Long computations on the event loop: in slices, and never more than half of the time.

Whoever waits for the loop (a probe, a report) waits for one slice at most, and then has as long as that slice took, or
four times as long if it took too long: a report waits several times until it is answered. That is time that passes, not
CPU time: where the machine is busy with other things, a slice takes longer for all.
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
"""Seconds after which a computation lets others go on, between two of its steps."""
AT_ONCE = 0.02
"""Seconds that may be taken at once after a rest, so that what is short need not wait."""


class Slices:
    """What may be taken now: as much as has passed since, up to `AT_ONCE`, less what is computed."""

    def __init__(self, clocks: Clocks = CLOCKS) -> None:
        self._clocks = clocks
        self._left = AT_ONCE
        self._seen = clocks.wall()

    def left(self) -> float:
        """Seconds that may be taken now; below zero if a step took longer than there was."""
        now = self._clocks.wall()
        self._left = min(AT_ONCE, self._left + now - self._seen)
        self._seen = now
        return self._left

    def advance(self, steps: Iterator[Any], seconds: float = AT_ONCE, keep: float = 0.0) -> bool:
        """Go on until that time is over, or what is left now but `keep` is used up. Whether all steps are done."""
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
        """Go on to the end, a slice at a time. The outcome."""
        found: list[T] = []

        def collect() -> Steps[None]:
            found.append((yield from steps))

        collecting = collect()
        while not self.advance(collecting, SLICE):
            await asyncio.sleep(max(0.0, SLICE - self.left()))
        return found[0]
