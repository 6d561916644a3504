"""How device and machine names become part of a label."""

from __future__ import annotations

import re

_REMOVED = re.compile(r"[^A-Za-z0-9_. -]", re.ASCII)


def sanitize(text: str) -> str:
    """Only letters, digits, `-`, `_`, `.`; runs of blanks become one dash, everything else vanishes."""
    return "-".join(_REMOVED.sub("", text).split())


def product(*parts: str) -> str:
    """The parts of a product name joined by dashes; one that was empty from the start is left out."""
    return "-".join(sanitize(part) for part in parts if part)
