"""The time between two passes: a duration, or for ever."""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

from nfd.config.section import parse_duration

INFINITE = "infinite"


def read_sleep(value: Any) -> float:
    """Seconds, not less than 0, from a duration with a unit, `infinite`, or a number of nanoseconds."""
    if value == INFINITE:
        return inf
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is not a duration such as 60s")
    return max(0.0, parse_duration(value))


def read_duration(text: str) -> float:
    """Seconds, above 0, from a duration with a unit."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} must be above 0")
    return seconds
