"""How much a template may do: steps, and the size of texts and lists."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from nfd.rules.template.values import TemplateError
from nfd.rules.time_limit import EVERY, FREE, Exhausted, Meter

STEPS = 100_000
"""Actions, calls and visited values of one execution: as a rule less than the CPU time that a rule has in a master.

A step takes 5 µs at most. What takes longer counts as several: by its size, and by how long each letter takes.
"""

TOO_LONG = f"takes more than {STEPS} steps"

MAX_SIZE = 1 << 20
"""Letters of a text, entries of a list or map, letters of the whole output."""


class TooLong(TemplateError):
    """A template that takes too long."""


class Budget:
    """Counts down while a template runs; the meter, which has a clock, is asked every now and then."""

    __slots__ = ("_meter", "_next", "left")

    def __init__(self, steps: int = STEPS, meter: Meter = FREE) -> None:
        self.left = steps
        self._meter = meter
        self._next = steps - EVERY

    def spend(self, steps: int = 1) -> None:
        """Take steps off. Raises: TooLong when none are left."""
        self.left -= steps
        if self.left < self._next:
            self.look()

    def look(self) -> None:
        """Raises: TooLong."""
        if self.left < 0:
            raise TooLong(TOO_LONG)
        self._next = max(self.left - EVERY, 0)
        try:
            self._meter.look()
        except Exhausted as error:
            raise TooLong(str(error)) from error

    def reserve(self, size: int) -> None:
        """Ask before a text or list of this size is made. Raises: TemplateError."""
        if size > MAX_SIZE:
            raise TemplateError(f"makes a value of more than {MAX_SIZE} letters or entries")
        self.spend(size >> 5)

    def check(self, value: Any) -> Any:
        """Account for a value that a function made."""
        if isinstance(value, Sized) and (size := len(value)) > 31:
            self.reserve(size)
        return value
