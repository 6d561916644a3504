"""White space and decimal numbers in the text of a file, as NFD reads them."""

from __future__ import annotations

import re

BLANK = "".join(("\t\n\v\f\r \x85\xa0\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028\u2029\u202f\u205f\u3000"))
"""Unicode's White_Space, which NFD strips (`text.strip(BLANK)`). The separators U+001C to U+001F, which Python also
takes as blank, are none."""

_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_WORD = re.compile(rf"[^{BLANK}]+")


def first_word(line: str) -> str:
    """What stands before the first white space within the line; empty for a blank line."""
    found = _WORD.search(line)
    return found[0] if found else ""


def parse_decimal(text: str) -> int | None:
    """A decimal integer of 64 bits, a sign allowed before it; None for anything else."""
    found = _INTEGER.fullmatch(text)
    number = int(found[1] + found[2]) if found else None
    return number if number is not None and -1 << 63 <= number < 1 << 63 else None


def parse_natural(text: str) -> int | None:
    """The same without a sign."""
    return parse_decimal(text) if text[:1].isdigit() else None
