"""Keys that several rules give to one node: the last value counts, and whoever wrote the others is to know (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nfd.rules import policy as policies
from nfd.rules.model import Taint
from nfd.rules.policy import Policy

LABEL, EXTENDED_RESOURCE, TAINT, VAR = "label", "extendedResource", "taint", "var"
REPORT = "the report of the node"
"""Who gives what no rule gives."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """A key, by kind (`label`, `annotation`, `extendedResource`, `taint`, `var`), with both values and who gives them.

    A taint is `KEY:EFFECT`. References are not looked up.
    """

    kind: str
    key: str
    earlier: str
    later: str
    lost: str
    value: str

    def __str__(self) -> str:
        return f"{self.later} writes {self.value!r} over {self.lost!r}, which {self.earlier} gives"


class Ledger:
    """Who gave each key last, and the values that were lost; the same value given twice is none of them."""

    def __init__(self) -> None:
        self.overwrites: list[Overwrite] = []
        self._last: dict[tuple[str, str], tuple[str, str]] = {}

    def add(self, giver: str, kind: str, values: Mapping[str, str]) -> None:
        """Note what one rule gives, in the order of evaluation."""
        for key, value in values.items():
            earlier, lost = self._last.get((kind, key), (giver, value))
            if lost != value:
                self.overwrites.append(Overwrite(kind, key, earlier, giver, lost, value))
            self._last[kind, key] = giver, value


def is_loss(one: Overwrite, policy: Policy) -> bool:
    """Whether the node would have got the lost value, as far as is known without looking up references."""
    wanted = {one.key: one.lost}
    if one.kind == LABEL:
        return bool(policies.allow_labels(wanted, _legal, policy).values)
    if one.kind == policies.ANNOTATION:
        return bool(policies.allow_annotations(wanted, _legal, policy).values)
    if one.kind == EXTENDED_RESOURCE:
        return bool(policies.allow_extended_resources(wanted, _legal, policy).values)
    key, _, effect = one.key.rpartition(":")
    return one.kind == VAR or bool(policies.allow_taints([Taint(key=key, effect=effect, value=one.lost)], policy)[0])


def _legal(_feature: str, _element: str) -> str:
    return "0"


def rule_named(name: str) -> str:
    """How a rule is called in messages."""
    return f"rule {name!r}"


def are_disjoint(parts: Iterable[Mapping[str, str]]) -> bool:
    """Whether no key is in two of them."""
    listed = list(parts)
    return len(set().union(*listed)) == sum(map(len, listed))
