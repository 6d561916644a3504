"""Texts that stand for something: integers and versions."""

from __future__ import annotations

import re

from nfd.errors import RuleError

SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace takes off; Python's strip() would take \\x1c to \\x1f as well."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:[-+].*)?", re.ASCII | re.DOTALL)
_MAX_TEXT = 256


def parse_integer(text: str) -> int:
    """A signed 64-bit decimal number, leading zeros allowed. Raises: RuleError."""
    if len(text) > _MAX_TEXT or not _INTEGER.fullmatch(text):
        raise RuleError(f"not a number: {text[:100]!r}")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise RuleError(f"number out of range: {text!r}")
    return value


def parse_version(text: str) -> tuple[int, int, int]:
    """One to three numbers after an optional `v`; what follows the first dash or plus is never compared.

    Upstream wants a legal semantic version there and fails the rule for kernels such as
    `4.18.0-305.el8.x86_64`; we do not look at that part at all. Raises: RuleError.
    """
    match = _VERSION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if not match:
        raise RuleError(f"not a version: {text[:100]!r}")
    numbers = [int(group or 0) for group in match.groups()]
    if any(number >= 1 << 64 for number in numbers):
        raise RuleError(f"version out of range: {text!r}")
    return numbers[0], numbers[1], numbers[2]
