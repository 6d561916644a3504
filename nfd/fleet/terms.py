"""One condition on a label, and whether labels fulfil it.

`In NotIn Exists DoesNotExist Gt Lt` are Kubernetes' own (API reference, "NodeSelectorRequirement"): a missing label is
in no list, and Gt and Lt compare whole numbers of 64 bits, a value that is none fulfilling neither. The others are for
what no selector can say: `Matches` finds a pattern anywhere in the value, the version operators compare the numbers and
dots that a value starts with, missing parts being 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from nfd.rules import regexp

MAX_INT = 2**63 - 1
SELECTOR_OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}", re.ASCII)
_VERSION = re.compile(r"[0-9]{1,1000}(?:\.[0-9]{1,1000})*", re.ASCII)
_ORDERS = {"VersionLt": (-1,), "VersionLe": (-1, 0), "VersionGt": (1,), "VersionGe": (0, 1)}


@dataclass(frozen=True, slots=True)
class Term:
    """`key` is whole, namespace included; Gt, Lt, Matches and versions have one value."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    @property
    def selectable(self) -> bool:
        """Whether a selector can say it."""
        return self.operator in SELECTOR_OPERATORS

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels fulfils it."""
        value = labels.get(self.key)
        match self.operator:
            case "In" | "NotIn":
                return (value in self.values) == (self.operator == "In")
            case "Exists" | "DoesNotExist":
                return (value is not None) == (self.operator == "Exists")
        return value is not None and self.suits(value)

    def suits(self, value: str) -> bool:
        """Whether a value fulfils it, for the operators that need one."""
        wanted = self.values[0]
        if self.operator == "Matches":
            return regexp.found(wanted, value)
        if self.operator in _ORDERS:
            return compare_versions(value, wanted) in _ORDERS[self.operator]
        number, bound = parse_int64(value), parse_int64(wanted)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


def parse_int64(text: str) -> int | None:
    """As Go's strconv.ParseInt with base 10 and 64 bits; None for anything else."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -MAX_INT - 1 <= number <= MAX_INT else None


def is_version(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def compare_versions(one: str, other: str) -> int | None:
    """-1, 0 or 1; None if either does not start with a digit."""
    found = [_VERSION.match(text) for text in (one, other)]
    if found[0] is None or found[1] is None:
        return None
    parts = [[int(part) for part in match[0].split(".")] for match in found if match is not None]
    for mine, others in zip_longest(*parts, fillvalue=0):
        if mine != others:
            return -1 if mine < others else 1
    return 0
