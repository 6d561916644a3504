"""Clocks for what is bounded by time: ones that count, so that no machine decides a test, and how slow this one is."""

from __future__ import annotations

import time
from functools import cache

from nfd.rules.time_limit import Clocks

FROZEN = Clocks(lambda: 0.0, lambda: 0.0)
"""No time passes: nothing takes too long, and nothing is interrupted."""


class Ticking:
    """A clock that goes on by `tick` seconds whenever it is read, which is done every so many steps."""

    def __init__(self, tick: float = 0.001) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    @property
    def clocks(self) -> Clocks:
        return Clocks(self, self)


@cache
def slowness() -> float:
    """How many times longer than usual this machine computes, at least 1."""
    best = min(_loop() for _ in range(5))
    return max(best / 0.006, 1.0)


def _loop() -> float:
    """CPU seconds of some work in Python: 6 ms as a rule."""
    began = time.thread_time()
    found: dict[str, int] = {}
    for number in range(60_000):
        found[str(number % 1000)] = number
    return time.thread_time() - began
