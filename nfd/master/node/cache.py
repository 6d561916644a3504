"""Caches of values that many nodes share: nodes of a fleet are alike, and a heartbeat changes nothing.

Equal values become the same object. So later comparisons are by identity, and a pass without changes is cheap.
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
"""Entries of each cache; the least recently used is dropped."""
LONGEST = 32 * 1024
"""Letters of the largest mapping that is cached; the labels of a report have about 3,000."""

_SHARED = ("labels", "annotations", "origins", "sources")
_CONTENT = tuple(one.name for one in fields(Report) if one.name != "order")


class ReportInterner:
    """Replaces equal mappings by one object."""

    def __init__(self) -> None:
        self._known = LruCache[frozenset[tuple[str, Any]], Mapping[str, Any]](KNOWN)

    def share(self, report: Report, before: Report | None) -> Report:
        """The report, with values of the node's last report, or of other nodes' reports, in place of equal ones."""
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
    """Whether the reports are equal apart from their sequence numbers."""
    boots = [report.order.boot_id if report.order else None for report in (one, other)]
    return boots[0] == boots[1] and all(getattr(one, name) == getattr(other, name) for name in _CONTENT)


@dataclass(frozen=True, slots=True)
class _Derived:
    """A desired state and its inputs. Their identities are the key, so the entry keeps them alive."""

    inputs: tuple[Any, ...]
    desired: Desired


class DesiredCache:
    """The desired states of outcomes under one policy. Reports that share their values share an entry."""

    def __init__(self) -> None:
        self._known = LruCache[tuple[int, ...], _Derived](KNOWN)

    def derive(self, outcome: Outcome) -> Desired:
        report, contributions = outcome.report, outcome.evaluation.contributions
        inputs = (report.labels, report.annotations, report.origins, tuple(contributions))
        key, order = tuple(map(id, inputs)), report.order
        if (known := self._known.get(key)) is not None:
            self._known.move_to_end(key)
            boot_id, at = (order.boot_id, (order.started, order.sequence)) if order is not None else ("", None)
            return replace(known.desired, boot_id=boot_id, at=at)
        desired = outcome.derive_desired()
        if not refers(report.labels, report.annotations) and not any(one.refers for one in contributions):
            self._known.put(key, _Derived(inputs, desired))
        return desired
