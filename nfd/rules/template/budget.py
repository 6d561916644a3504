"""How much a template may do: steps, and the size of texts and lists."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from nfd.rules.template.values import TemplateError

STEPS = 100_000
"""Actions, calls and visited values of one execution: a sixth of a second at most, in which a master hears nobody."""

TOO_LONG = f"takes more than {STEPS} steps"

MAX_SIZE = 1 << 20
"""Letters of a text, entries of a list or map, letters of the whole output."""


class Budget:
    """Counts down while a template runs."""

    __slots__ = ("left",)

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Take steps off. Raises: TemplateError when none are left."""
        self.left -= steps
        if self.left < 0:
            raise TemplateError(TOO_LONG)

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
