"""The latest report of each node: which of two is newer, and whether it applies to the current Node of that name."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from nfd.errors import ReportError
from nfd.report import Report
from nfd.report_order import Order
from nfd.runtime.cache import LruCache
from nfd.store.base import Node

WAITING = 1000
"""The most recent reports for Nodes that do not exist; older ones are dropped."""


class Standing(StrEnum):
    """How far a report can be relied on."""

    REPORTED = "reported"
    """The worker sent it to this master, in this term."""
    INHERITED = "inherited"
    """It is from another master, a file or an earlier term, so there may be a newer one."""
    OUTDATED = "outdated"
    """It is inherited, and the Node does not carry what it gives, so there must have been a newer one."""


class Inherited(NamedTuple):
    """A report in the store of another master or in a file. `uid` is that of its Node, "" if there was none."""

    report: Report
    uid: str


@dataclass(slots=True)
class _Kept:
    """`uid` is that of the Node, "" if there was none. `given_up` means that the worker is silent and the report
    empty."""

    report: Report
    uid: str
    given_up: bool = False
    standing: Standing = Standing.REPORTED


class ReportStore:
    """Kept in memory only."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._kept: dict[str, _Kept] = {}
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._swept: frozenset[str] = frozenset()
        self._past: dict[str, str] = {}
        self._limit = waiting

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def waiting(self) -> int:
        """Number of reports for Nodes that do not exist."""
        return len(self._waiting)

    def get(self, name: str) -> Report | None:
        kept = self._kept.get(name)
        return kept.report if kept else None

    def given_up(self, name: str) -> bool:
        """Whether its worker has been silent for too long."""
        kept = self._kept.get(name)
        return kept is not None and kept.given_up

    def unmet(self, name: str) -> bool:
        """Whether there is a report of that name and there was never a Node for it."""
        kept = self._kept.get(name)
        return kept is not None and not kept.uid

    def names(self) -> list[str]:
        return list(self._kept)

    def standing(self, name: str) -> Standing | None:
        """How far the report of that node can be relied on; None without a report."""
        kept = self._kept.get(name)
        return kept.standing if kept is not None else None

    def known(self) -> list[str]:
        """The nodes whose features are known: their report is not outdated."""
        return [name for name in self._kept if self.is_known(name)]

    def is_known(self, name: str) -> bool:
        """Whether the features of that node are known."""
        kept = self._kept.get(name)
        return (
            kept is not None
            and kept.standing is not Standing.OUTDATED
            and not kept.given_up
            and name not in self._waiting
        )

    def inherited(self, name: str) -> Inherited | None:
        """The report of that node for another master or for a file; None without one."""
        kept = self._kept.get(name)
        return Inherited(kept.report, kept.uid) if kept is not None and not kept.given_up else None

    def assess(self, name: str, *, carried: bool) -> None:
        """Note whether the Node carries exactly what its inherited report gives."""
        kept = self._kept.get(name)
        if kept is not None and kept.standing is not Standing.REPORTED:
            kept.standing = Standing.INHERITED if carried else Standing.OUTDATED

    def inherit(self, one: Inherited, node: Node | None, applied_boot: str) -> list[str] | None:
        """Keep a report of another master or a file, unless it is older than the known one or the worker has reported.

        Returns None if it is not kept, else the nodes whose reports were dropped. `applied_boot` is as in `take`.
        """
        report, before = one.report, self._kept.get(one.report.node)
        if before is not None and before.standing is Standing.REPORTED:
            return None
        if report.order is not None:
            try:
                _check_order(report.order, before.report.order if before else None, node, applied_boot)
            except ReportError:
                return None
        self._kept[report.node] = _Kept(report, one.uid, standing=Standing.INHERITED)
        return self._mark(report.node, node)

    def end_term(self) -> list[str]:
        """From now on another master may have newer reports. Returns the nodes whose reports were dropped."""
        silent = [name for name, kept in self._kept.items() if kept.given_up]
        for name in silent:
            self._waiting.pop(name, None)
            del self._kept[name]
        for kept in self._kept.values():
            kept.standing = Standing.INHERITED
        return silent

    def take(self, report: Report, node: Node | None, applied_boot: str) -> list[str]:
        """Keep a report unless it is older than the known one. Returns the nodes whose reports were dropped for it.

        `applied_boot` is the boot id in the Node's bookkeeping. Raises: ReportError.
        """
        if node is not None and report.node_uid and node.uid and report.node_uid != node.uid:
            raise ReportError(f"node {report.node} was replaced: the uid of the current Node is {node.uid}", retry=True)
        before = self.get(report.node)
        if report.order is not None:
            _check_order(report.order, before.order if before else None, node, applied_boot)
            self._check_past(report.order, node)
        self._kept[report.node] = _Kept(report, node.uid if node is not None else "")
        return self._mark(report.node, node)

    def current(self, node: Node) -> Report | None:
        """The report that applies to this Node; None if there is none yet.

        A report for a deleted Node of the same name applies unless the Node names another boot id. It applies
        provisionally while the Node names none.
        """
        self._waiting.pop(node.name, None)
        kept = self._kept.get(node.name)
        if kept is None:
            return None
        order = kept.report.order
        another = order is None or node.boot_id not in ("", order.boot_id)
        if kept.uid not in ("", node.uid) and another:
            if order is not None:
                self._past[node.name] = order.boot_id
            del self._kept[node.name]
            return None
        if node.boot_id or not kept.uid:
            kept.uid = node.uid
        return kept.report

    def missing(self, name: str) -> list[str]:
        """Keep the report of a Node that does not exist. Returns the nodes whose reports were dropped for it."""
        self._past.pop(name, None)
        return self._mark(name, None) if name in self._kept else []

    def expire(self, node: Node) -> None:
        """The worker has been silent for too long: replace its report with an empty one."""
        kept = self._kept.get(node.name)
        self._kept[node.name] = _Kept(Report(node.name, order=kept.report.order if kept else None), node.uid, True)

    def sweep(self) -> list[str]:
        """Drop reports for Nodes that have not existed since the last sweep. Returns their names."""
        gone = [name for name in self._waiting if name in self._swept]
        for name in gone:
            del self._waiting[name], self._kept[name]
        self._swept = frozenset(self._waiting)
        return gone

    def clear(self) -> None:
        self._kept.clear()
        self._waiting.clear()
        self._past.clear()

    def _check_past(self, order: Order, node: Node | None) -> None:
        """Raises: ReportError for a report from the machine of an earlier Node of this name."""
        if node is not None and order.boot_id == self._past.get(node.name) and node.boot_id not in ("", order.boot_id):
            raise _other_boot(order, node)

    def _mark(self, name: str, node: Node | None) -> list[str]:
        self._waiting.pop(name, None)
        if node is not None:
            return []
        self._waiting[name] = None
        gone = []
        while len(self._waiting) > self._limit:
            oldest, _ = self._waiting.popitem(last=False)
            del self._kept[oldest]
            gone.append(oldest)
        return gone


def _check_order(order: Order, before: Order | None, node: Node | None, applied_boot: str) -> None:
    """Raises: ReportError if `order` is older than the known one.

    Within a boot, the start of the worker's pod, the worker's start and its sequence number decide. A report of another
    boot is newer, unless the Node still names the known boot, as it does until the kubelet has reported the reboot.
    """
    known_boot = before.boot_id if before is not None else applied_boot
    if before is not None and order.boot_id == before.boot_id:
        if order.older(before):
            raise ReportError("a newer report of this node was already received", retry=False)
        return
    if node is not None and known_boot and known_boot != order.boot_id and node.boot_id == known_boot:
        raise _other_boot(order, node)


def _other_boot(order: Order, node: Node) -> ReportError:
    return ReportError(f"the Node has boot id {node.boot_id}, not {order.boot_id}", retry=True)


INTERNED = 256
"""Mappings that are interned; the least recently used is dropped."""
LONGEST = 32 * 1024
"""Letters of the largest mapping that is interned; the labels of a report have about 3,000."""

_SHARED = ("labels", "annotations", "origins", "sources")
_CONTENT = tuple(one.name for one in fields(Report) if one.name != "order")


class ReportInterner:
    """Replaces equal mappings by one object: nodes of a fleet have equal labels, and a heartbeat changes nothing.

    So later comparisons are by identity, and a pass without changes is cheap.
    """

    def __init__(self) -> None:
        self._known = LruCache[frozenset[tuple[str, Any]], Mapping[str, Any]](INTERNED)

    def share(self, report: Report, before: Report | None) -> Report:
        """The report, with values of the node's last report, or of other nodes' reports, in place of equal ones."""
        if before is not None and same_content(report, before):
            return replace(before, order=report.order)
        shared: dict[str, Any] = {}
        for name in _SHARED:
            values: Mapping[str, Any] = getattr(report, name)
            key = frozenset(values.items())
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
            else:
                known = {
                    sys.intern(item): sys.intern(one) if isinstance(one, str) else one for item, one in values.items()
                }
                if sum(map(len, known)) + sum(len(one) for one in known.values() if isinstance(one, str)) <= LONGEST:
                    self._known.put(key, known)
            shared[name] = known
        return replace(report, **shared)


def same_content(one: Report, other: Report) -> bool:
    """Whether the reports are equal apart from their sequence numbers."""
    if one is other:
        return True
    boots = [report.order.boot_id if report.order else None for report in (one, other)]
    return boots[0] == boots[1] and all(getattr(one, name) == getattr(other, name) for name in _CONTENT)
