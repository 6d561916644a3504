"""Kubernetes quantities as numbers (Kubernetes API reference, "Quantity")."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]+))?", re.ASCII)
_LONGEST = 256
_LARGEST = 1000
"""The largest exponent that is calculated with; a larger amount equals no other."""
_LARGEST_BINARY = Decimal(2**63 - 1)
"""What the API server makes of amounts of Ki to Ei beyond it (k8s.io/apimachinery, pkg/api/resource)."""


class Scaled(NamedTuple):
    """digits · 10^tens · 2^twos."""

    digits: int
    tens: int
    twos: int

    @property
    def is_whole(self) -> bool:
        if not self.digits or self.tens >= 0:
            return True
        if -self.tens > 2 * _LONGEST:  # more than the digits could make up for
            return False
        return bool((self.digits << self.twos) % 10**-self.tens == 0)


def scaled(text: str) -> Scaled | None:
    """A quantity as it is written; None if it is none."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None or not (found[2] or found[3]):
        return None
    sign, whole, fraction, suffix, exponent = (part or "" for part in found.groups())
    tens = int(exponent) if exponent else _DECIMAL.get(suffix, 0)
    return Scaled(int(f"{sign}{whole}{fraction}"), tens - len(fraction), _BINARY.get(suffix, 0))


def parse_quantity(text: str) -> Decimal | None:
    """The number that a quantity stands for; None if it is none, or out of all reason."""
    found = scaled(text)
    if found is None or abs(found.tens) > _LARGEST:
        return None
    amount = Decimal(found.digits << found.twos).scaleb(found.tens)
    return min(amount, _LARGEST_BINARY) if found.twos else amount


def same_quantity(one: str, other: str) -> bool:
    """Whether both texts say the same amount."""
    return one == other or (parse_quantity(one) is not None and parse_quantity(one) == parse_quantity(other))


def quantity_problem(text: str, *, fraction_allowed: bool) -> str | None:
    """Check an amount of an extended resource as the API server will; None for a legal one.

    Source: Kubernetes API reference "Quantity", and ValidateResourceQuantityValue in pkg/apis/core/validation.
    """
    found = scaled(text)
    if found is None:
        return f"{text[:100]!r} is not a quantity"
    if abs(found.tens) >= 10**18:
        return f"{text[:100]!r} has too large an exponent"
    if found.digits < 0:
        return f"{text!r} is negative"
    return None if fraction_allowed or found.is_whole else f"{text!r} is not a whole number"
