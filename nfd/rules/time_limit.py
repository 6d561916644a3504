"""The time limit of one rule, measured by clocks of the caller: this package reads none.

Steps of templates are counted, and the same everywhere (`template.budget`). The clocks are for what a count cannot
tell, such as how long a regular expression takes on a text. CPU time is that of the calling thread, since a machine
that is busy with other things is no fault of a rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nfd.errors import RuleError

RULE_SECONDS = 0.05
"""CPU time that one rule may take, to be compiled or to be evaluated on one node."""
EVERY = 256
"""Steps after which the clock is looked at again; a step is some microseconds at most."""


class Exhausted(RuleError):
    """A rule that takes too long; it does so each time."""


class Clocks(NamedTuple):
    """CPU seconds of the calling thread, which cost a system call, and seconds that pass, which cost nothing."""

    cpu: Callable[[], float]
    wall: Callable[[], float]


class Meter:
    """Runs from `start` to `start`. Without clocks it measures nothing."""

    __slots__ = ("_clocks", "_cpu_end", "_due", "_seconds", "_wall_end")

    def __init__(self, clocks: Clocks | None = None, seconds: float = RULE_SECONDS) -> None:
        self._clocks = clocks
        self._seconds = seconds
        self._due = EVERY
        self._cpu_end: float | None = None
        self._wall_end = 0.0

    def start(self) -> None:
        """A new rule begins."""
        if self._clocks is not None:
            self._due = EVERY
            self._cpu_end = None
            self._wall_end = self._clocks.wall() + self._seconds / 4

    def spend(self, steps: int) -> None:
        """Note that something was done. Raises: Exhausted."""
        self._due -= steps
        if self._due < 0:
            self._due = EVERY
            self.look()

    def look(self) -> None:
        """Raises: Exhausted once the time is over.

        The thread's clock is read only after a quarter of the time has passed, and counts from then on: a rule that has
        used less than that has not used it up.
        """
        clocks = self._clocks
        if clocks is None or clocks.wall() < self._wall_end:
            return
        now = clocks.cpu()
        if self._cpu_end is None:
            self._cpu_end = now + self._seconds * 3 / 4
        if now >= self._cpu_end:
            raise Exhausted(f"takes more than {self._seconds * 1000:.0f} ms of CPU time")
        self._wall_end = clocks.wall() + (self._cpu_end - now)


FREE = Meter()
"""Measures nothing."""
