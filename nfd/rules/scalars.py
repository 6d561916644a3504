"""Texts that stand for something: integers, versions, Kubernetes quantities."""

from __future__ import annotations

import re
from fractions import Fraction

from nfd.errors import RuleError

SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace takes off; Python's strip() would take \\x1c to \\x1f as well."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:[-+].*)?", re.ASCII | re.DOTALL)
_QUANTITY = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?",
    re.ASCII,
)
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
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


def quantity_problem(text: str, *, fraction_allowed: bool) -> str | None:
    """Check an amount of an extended resource as the API server will; None for a legal one.

    Source: Kubernetes API reference "Quantity", and ValidateResourceQuantityValue in pkg/apis/core/validation.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if not match or not (match[2] or match[3]):
        return f"{text[:100]!r} is not a quantity"
    if match[5] and len(match[5].lstrip("+-0")) > 18:
        return f"{text[:100]!r} has too large an exponent"
    digits = int(match[2] + (match[3] or "") or "0")
    if digits and match[1] == "-":
        return f"{text!r} is negative"
    if not fraction_allowed and digits and not _is_whole(Fraction(digits, 10 ** len(match[3] or "")), match):
        return f"{text!r} is not a whole number"
    return None


def _is_whole(number: Fraction, match: re.Match[str]) -> bool:
    suffix = match[4] or ""
    if suffix in _BINARY:
        return bool((number * 1024 ** _BINARY[suffix]).denominator == 1)
    exponent = int(match[5]) if match[5] else _DECIMAL[suffix]
    if abs(exponent) > 2 * _MAX_TEXT:
        return exponent > 0
    return bool((number * Fraction(10) ** exponent).denominator == 1)
