"""Regular expressions in the syntax of Go, which RE2 compiles: those of administrators, and of rule authors."""

from __future__ import annotations

import re
from typing import Any

from nfd.message_text import visible

MAX_MEMORY = 8 << 20
"""Bytes that a compiled pattern of an administrator may use: RE2's own limit."""

_LONGEST_REASON = 300
_ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


def escapes_in(pattern: str) -> list[str]:
    """The escapes of a pattern, quoted parts as one, and of `\\p{…}` only the first two characters."""
    return [found[0] for found in _ESCAPES.finditer(pattern)]


def compile_re2(pattern: str, max_memory: int = MAX_MEMORY) -> Any:
    """Compile a pattern that may use that many bytes. Raises: ValueError with the reason, without the pattern.

    The C++ library has `\\C`, a single byte, which Go does not have.
    """
    if r"\C" in escapes_in(pattern):
        raise ValueError(r"invalid escape sequence: \C")
    import re2  # with the first pattern: most workers have none, and it is 2.5 MiB

    options = re2.Options()
    options.max_mem = max_memory
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        # RE2 repeats parts of the pattern, whatever is in them
        raise ValueError(visible(reason)[:_LONGEST_REASON]) from error
