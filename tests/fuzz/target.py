"""A fuzz target: a parser that reads bytes of strangers, what to feed it with, and what then has to hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from nfd.errors import NfdError

Made = tuple[str, object]
"""What a run came to: its kind, by which inputs are told apart, and the result, the same for the same input."""

Maker = Callable[[Random, Sequence[bytes]], bytes]
"""Makes an input out of those that are known."""

LONGEST_MESSAGE = 4_000
_PARTICULARS = re.compile(r"b?'.*'|\".*\"|\d+|[^\x20-\x7e]+")


class Broken(AssertionError):
    """What has to hold does not."""


@dataclass(frozen=True)
class Target:
    """One row of the table. `run` raises one of `errors` for what is refused; anything else it raises is a finding.

    `seconds` of CPU is what one input may take, here and on a machine of half the speed.
    """

    name: str
    reads: str
    seeds: Callable[[], Sequence[bytes]]
    make: Maker
    run: Callable[[bytes], Made]
    errors: tuple[type[Exception], ...] = field(default=(NfdError,))
    seconds: float = 0.5


def outcome(target: Target, data: bytes) -> Made:
    """What one input comes to. Raises: whatever should not have happened."""
    try:
        return target.run(data)
    except target.errors as error:
        return refused(error)


def refused(error: Exception) -> Made:
    """A documented error; its text is one line of bounded length that a terminal can show."""
    text = str(error)
    check(len(text) <= LONGEST_MESSAGE, f"the message has {len(text)} letters")
    check("\n" not in text and "\r" not in text, "the message has several lines")
    return f"{type(error).__name__} {_PARTICULARS.sub('_', text)[:150]}", text


def check(holds: bool, what: str) -> None:
    """Raises: Broken, saying what should hold."""
    if not holds:
        raise Broken(what)
