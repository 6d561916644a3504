"""Kubernetes quantities as numbers (Kubernetes API reference, "Quantity")."""

from __future__ import annotations

import re
from decimal import Decimal

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)
_LONGEST = 64


def parse_quantity(text: str) -> Decimal | None:
    """The number that a quantity stands for; None if it is none."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    number, suffix, exponent = Decimal(found[1]), found[2] or "", found[3]
    if exponent is not None:
        return number.scaleb(int(exponent))
    return number * 2 ** _BINARY[suffix] if suffix in _BINARY else number.scaleb(_DECIMAL[suffix])


def same_quantity(one: str, other: str) -> bool:
    """Whether both texts say the same amount."""
    return one == other or (parse_quantity(one) is not None and parse_quantity(one) == parse_quantity(other))
