"""Regular expressions of rule authors: RE2 syntax, linear time, bounded memory, bounded work.

Never `re` for a pattern that a user wrote: RE2 is what upstream's dialect is, and it cannot be made to backtrack. It
takes the time of text × program at most, which is 10 s for a megabyte and `[0-7].{900}x`: such a search is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from nfd.config.patterns import compile_re2, escapes_in

MAX_MEMORY = 2 << 20
"""Bytes that one compiled pattern may use; a pattern that needs more does not compile, and matching only slows down."""

MAX_PATTERN = 64 << 10
"""Characters of a pattern."""
MAX_CLASSES = 200
"""Classes of Unicode (`\\pL`) in a pattern: RE2 takes a tenth of a millisecond to read each."""
MAX_REPEATS = 2000
"""Braces in a pattern: RE2 takes up to 25 µs for each `x{900}`, though the whole is refused then."""
MAX_WORK = 4_000_000
"""Bytes of a text × instructions of a program that one search may be: some 40 ms at worst, by far less most often."""
_WORK_OF_A_STEP = 12
"""Bits of work that count as one step: 4,096 take 40 µs at worst, and less than one as a rule."""


class PatternError(ValueError):
    """A pattern that does not compile; the text says why."""


class TooMuchWork(ValueError):
    """A text that is too long for a pattern."""


class Pattern(NamedTuple):
    """A compiled pattern; `search` is that of RE2, on encoded text.

    `weight` is its number of instructions, more if it has many groups, which RE2 keeps track of.
    """

    search: Callable[..., Any]
    weight: int
    longest: int
    """Bytes of a text that may be searched."""

    def check(self, size: int) -> None:
        """Raises: TooMuchWork for a text of so many bytes."""
        if size > self.longest:
            what = f"a regular expression of {self.weight} instructions"
            raise TooMuchWork(f"text of {size} bytes is too long for {what}")

    def steps(self, size: int) -> int:
        """What it counts to search that many bytes, in one text or several."""
        return 1 + (size * self.weight >> _WORK_OF_A_STEP)


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Pattern:
    """Compile a pattern. Raises: PatternError."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"regular expression of {len(pattern)} characters is too long")
    if sum(one in (r"\p", r"\P") for one in escapes_in(pattern)) > MAX_CLASSES:
        raise PatternError(f"regular expression {pattern[:100]!r}: has more than {MAX_CLASSES} classes of Unicode")
    if pattern.count("{") > MAX_REPEATS:
        raise PatternError(f"regular expression {pattern[:100]!r}: has more than {MAX_REPEATS} braces")
    try:
        compiled = compile_re2(pattern, MAX_MEMORY)
    except ValueError as error:
        raise PatternError(f"regular expression {pattern[:100]!r}: {error}") from error
    weight = max(compiled.programsize * (16 + compiled.groups) >> 4, 1)
    return Pattern(compiled.search, weight, MAX_WORK // weight)


def encode(text: str) -> bytes:
    """Text as RE2 sees it; a lone surrogate stands for a broken byte (PEP 383)."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return text.encode("utf-8", "replace")


def decode(data: bytes) -> str:
    """The reverse of `encode`."""
    return data.decode("utf-8", "surrogateescape")


def found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises: PatternError."""
    return compile_pattern(pattern).search(encode(text)) is not None
