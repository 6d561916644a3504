"""What many nodes have in common, kept once and worked out once: fleets are alike, and a beat says nothing new.

Whether two values are the same is told by identity from then on, which is what makes a pass without news cheap.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from nfd.master.node.desired import Desired
from nfd.master.node.outcome import Outcome
from nfd.report import Report
from nfd.rules.policy import refers
from nfd.runtime.cache import LruCache

KNOWN = 256
"""Values of each sort that are remembered, the latest ones."""
LONGEST = 32 * 1024
"""Letters of one mapping that is remembered; all of a report's labels have some 3,000."""

_SHARED = ("labels", "annotations", "origins", "sources")
_CONTENT = tuple(one.name for one in fields(Report) if one.name != "order")


class ReportInterner:
    """Equal mappings in, one and the same mapping out."""

    def __init__(self) -> None:
        self._known = LruCache[frozenset[tuple[str, Any]], Mapping[str, Any]](KNOWN)

    def share(self, report: Report, before: Report | None) -> Report:
        """The report, with the values of the node's last one, or of other nodes' reports, in place of equal ones."""
        if before is not None and same_content(report, before):
            return replace(before, order=report.order)
        shared: dict[str, Any] = {name: self._one(getattr(report, name)) for name in _SHARED}
        return replace(report, **shared)

    def _one(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        key = frozenset(values.items())
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return known
        kept = {sys.intern(name): sys.intern(one) if isinstance(one, str) else one for name, one in values.items()}
        if sum(map(len, kept)) + sum(len(one) for one in kept.values() if isinstance(one, str)) <= LONGEST:
            self._known.put(key, kept)
        return kept


def same_content(one: Report, other: Report) -> bool:
    """Whether both say the same: all but the count that orders them."""
    boots = [report.order.boot_id if report.order else None for report in (one, other)]
    return boots[0] == boots[1] and all(getattr(one, name) == getattr(other, name) for name in _CONTENT)


@dataclass(frozen=True, slots=True)
class _Worked:
    """A desired state and what it was made of, which thereby stays alive: its identity is the key."""

    made_of: tuple[Any, ...]
    desired: Desired


class DesiredCache:
    """What outcomes desire, under one policy, from memory for reports that share their values."""

    def __init__(self) -> None:
        self._known = LruCache[tuple[int, ...], _Worked](KNOWN)

    def derive(self, outcome: Outcome) -> Desired:
        report, contributions = outcome.report, outcome.evaluation.contributions
        made_of = (report.labels, report.annotations, report.origins, tuple(contributions))
        key = tuple(map(id, made_of))
        boot_id = report.order.boot_id if report.order else ""
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            return replace(known.desired, boot_id=boot_id)
        desired = outcome.derive_desired()
        if not refers(report.labels, report.annotations) and not any(one.refers for one in contributions):
            self._known.put(key, _Worked(made_of, desired))
        return desired
