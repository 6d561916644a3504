"""Regular expressions of rule authors: RE2 syntax, linear time, bounded memory.

Never `re` for a pattern that a user wrote: RE2 is what upstream's dialect is, and it cannot be made to backtrack.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from nfd.visible import visible

MAX_MEMORY = 2 << 20
"""Bytes that one compiled pattern may use; a pattern that needs more does not compile, and matching only slows down."""

MAX_PATTERN = 64 << 10
_LONGEST_REASON = 300
_ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
"""Escapes of a pattern, quoted parts as one. The C++ library has `\\C`, a single byte, which Go does not."""


class PatternError(ValueError):
    """A pattern that does not compile; the text says why."""


@lru_cache(maxsize=128)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern; the result searches encoded text. Raises: PatternError."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"regular expression of {len(pattern)} characters is too long")
    if any(found[0] == r"\C" for found in _ESCAPES.finditer(pattern)):
        raise PatternError(f"regular expression {pattern[:100]!r}: invalid escape sequence: \\C")
    import re2  # with the first pattern: most workers have none, and it is 2.5 MiB

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        shown = visible(str(reason))[:_LONGEST_REASON]  # RE2 repeats parts of the pattern, whatever is in them
        raise PatternError(f"regular expression {pattern[:100]!r}: {shown}") from error


def encode(text: str) -> bytes:
    """Text as RE2 sees it; a lone surrogate stands for a broken byte (PEP 383)."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape" if _is_escaped(text) else "replace")


def decode(data: bytes) -> str:
    """The reverse of `encode`."""
    return data.decode("utf-8", "surrogateescape")


def _is_escaped(text: str) -> bool:
    return all(not 0xD800 <= ord(char) <= 0xDFFF or 0xDC80 <= ord(char) <= 0xDCFF for char in text)


def found(pattern: str, text: str) -> bool:
    """Whether the pattern matches anywhere in the text. Raises: PatternError."""
    return compile_pattern(pattern).search(encode(text)) is not None
