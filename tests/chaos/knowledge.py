"""Compares what workers have an answer to with what the leading master knows, in each term.

A term is the time from a master's beginning to lead until another one leads, or it has ended. A node's report is

* known if the leader has the latest acknowledged report of the node, a later one, or one that says the same,
* unknown if the leader offers none: then it must count the node as unknown,
* older if the leader relies on one of before. It may, as long as the Node does not show what the latest one gives.

All nodes must be known within `LIMIT` seconds of the beginning of the term, or of the end of the last disturbance that
keeps reports from the leader. Times are monotonic.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tests.chaos.checker import Violation
from tests.chaos.stamps import Acknowledged, Stamp

LIMIT = 180.0
"""Seconds in which all features are known again (docs/availability.md, "A leader without reports")."""
COMPARED = 30.0
"""Seconds in which a leader has compared copied reports with their Nodes: it passes over all of them at first."""
UNCOUNTED = "a node without a report was counted as known"
BELIEVED = "an older report was taken for the latest one"
LATE = f"a report was not known {LIMIT:.0f} s after a master began to lead"
KINDS = (UNCOUNTED, BELIEVED, LATE)
UNCOUNTED_LOOKS = 3
"""One look may be wrong: the leader sends its reports one after the other, while nodes come and go."""
EVERYBODY = ""


class Disturbances:
    """What keeps reports from a leader: when it happens, and to whom; `EVERYBODY` is all."""

    def __init__(self) -> None:
        self._active: dict[str, int] = {}
        self._ended: dict[str, float] = {}

    def begin(self, whom: str) -> None:
        self._active[whom] = self._active.get(whom, 0) + 1

    def end(self, whom: str, at: float) -> None:
        self._active[whom] -= 1
        self._ended[whom] = at

    def last(self, whom: Collection[str], now: float) -> float:
        """When the last one of these, or of everybody, has ended; `now` during one, minus infinity before the first."""
        names = {*whom, EVERYBODY}
        if any(self._active.get(one, 0) > 0 for one in list(names)):
            return now
        return max((self._ended.get(one, -math.inf) for one in names), default=-math.inf)


@dataclass(frozen=True, slots=True)
class Look:
    """What a master that leads offered at a time. `counted` is its own number of known nodes, None if that changed."""

    at: float
    reports: Mapping[str, Stamp]
    counted: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Of a Node that exists: since when, whether it shows all that was expected of it, and whose worker it is."""

    since: float
    settled: bool
    crew: str = ""


@dataclass
class Term:
    """`known`, `unknown` and `older` are the nodes at its first look; `complete` is when all were known."""

    master: str
    process: int
    since: float
    release: str = ""
    looks: int = 0
    known: int = 0
    unknown: int = 0
    older: int = 0
    complete: float | None = None
    uncounted: int = 0
    """The latest looks in a row at which more nodes were counted than had a report."""
    over: float | None = None
    complained: set[tuple[str, str]] = field(default_factory=set)

    def __str__(self) -> str:
        who = f"{self.master}, release {self.release}" if self.release else self.master
        end = (
            "ended before all were" if self.complete is None else f"all known after {self.complete - self.since:.1f} s"
        )
        return f"{who}: {self.known} known, {self.unknown} unknown, {self.older} older; {end}"


@dataclass
class _Worker:
    """`boots` are those of its acknowledged reports, in order. `missing` is since when no leader has known the latest
    one."""

    latest: Acknowledged
    boots: list[str]
    missing: float | None = None


class Knowledge:
    """`where` describes the Node of that name, None if it does not exist; `now` is for violations."""

    def __init__(
        self, disturbances: Disturbances, where: Callable[[str], Place | None], now: Callable[[], float]
    ) -> None:
        self.violations: list[Violation] = []
        self.terms: list[Term] = []
        self.acknowledged = 0
        self.waits: list[float] = []
        """Seconds for which no leader knew the latest report of a node, each time."""
        self._disturbances, self._where, self._now = disturbances, where, now
        self._workers: dict[str, _Worker] = {}
        self._lock = threading.RLock()

    def acknowledge(self, one: Acknowledged) -> None:
        """A worker has an answer to its report."""
        with self._lock:
            self.acknowledged += 1
            worker = self._workers.setdefault(one.node, _Worker(one, []))
            worker.latest = one
            if worker.boots[-1:] != [one.stamp.boot]:
                worker.boots.append(one.stamp.boot)

    def lead(self, master: str, process: int, at: float, release: str = "") -> None:
        """That process of a master leads; no other one does any more."""
        with self._lock:
            term = self._term()
            if term is None or (term.master, term.process) != (master, process):
                self.over(at)
                self.terms.append(Term(master, process, at, release))

    def over(self, at: float) -> None:
        """The master that led does not any more."""
        with self._lock:
            if (term := self._term()) is not None:
                term.over = at

    def look(self, look: Look) -> None:
        """Compare; while no master leads, a look is ignored."""
        with self._lock:
            if (term := self._term()) is None:
                return
            found = self._compare(look)
            if not term.looks:
                term.known, term.unknown, term.older = (len(found[kind]) for kind in ("known", "unknown", "older"))
            term.looks += 1
            if not (found["unknown"] or found["older"]) and term.complete is None:
                term.complete = look.at
            if look.counted is not None:
                term.uncounted = term.uncounted + 1 if look.counted > len(look.reports) else 0
            if term.uncounted >= UNCOUNTED_LOOKS:
                seen = f"{look.counted} known, {len(look.reports)} offered"
                self._complain(term, UNCOUNTED, "", seen, "as many as are offered", look.at)
            for node in found["older"]:
                self._check_older(term, node, look)
            for node in (*found["unknown"], *found["older"]):
                self._check_late(term, node, look.at)

    def missing(self) -> list[str]:
        """Existing nodes whose latest report the leader did not have at the last look."""
        with self._lock:
            return sorted(
                node
                for node, worker in self._workers.items()
                if worker.missing is not None and self._where(node) is not None
            )

    def unsettled(self) -> bool:
        """Whether no master leads, or the one that does was not seen to know all."""
        with self._lock:
            term = self._term()
            return term is None or not term.looks or bool(self.missing())

    def final(self, at: float) -> None:
        """All must be known by now."""
        with self._lock:
            if (term := self._term()) is None:
                self.violations.append(Violation(LATE, "", "leader", "none", "one", self._now(), ""))
                return
            for node in self.missing():
                self._complain(term, LATE, node, "not known at the end", "known", at)

    def summary(self, begun: float) -> list[str]:
        """What leaders knew when they began, and how long it took until they knew all; `begun` is the time 0."""
        terms = [term for term in self.terms if term.looks]
        known, unknown, older = (sum(getattr(term, kind) for term in terms) for kind in ("known", "unknown", "older"))
        times = [term.complete - term.since for term in terms if term.complete is not None]
        slowest, longest = max(times, default=0.0), max(self.waits, default=0.0)
        return [
            f"reports acknowledged: {self.acknowledged}; leaderships: {len(self.terms)}, of which seen: {len(terms)}",
            f"  nodes at their beginning: {known} known, {unknown} unknown, {older} with an older report",
            f"  leaderships with all nodes known: {len(times)}, after {slowest:.1f} s at most; others ended before",
            f"  nodes that no leader knew for a time: {len(self.waits)}, for {longest:.1f} s at most,"
            f" {sum(wait > LIMIT for wait in self.waits)} for more than {LIMIT:.0f} s",
            *(f"    {term.since - begun:8.2f} {term}" for term in terms),
        ]

    def _term(self) -> Term | None:
        return self.terms[-1] if self.terms and self.terms[-1].over is None else None

    def _compare(self, look: Look) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {"known": [], "unknown": [], "older": []}
        for node, worker in self._workers.items():
            if self._where(node) is None:
                worker.missing = None
                continue
            offered = look.reports.get(node)
            kind = "unknown" if offered is None else "older" if self._is_older(worker, offered) else "known"
            found[kind].append(node)
            if kind != "known":
                worker.missing = look.at if worker.missing is None else worker.missing
            elif worker.missing is not None:
                self.waits.append(look.at - worker.missing)
                worker.missing = None
        return found

    def _is_older(self, worker: _Worker, offered: Stamp) -> bool:
        latest = worker.latest.stamp
        if offered.content == latest.content:
            return False
        if offered.boot == latest.boot:
            return (offered.started, offered.sequence) < (latest.started, latest.sequence)
        return offered.boot in worker.boots

    def _begun(self, term: Term, node: str, place: Place, at: float) -> float:
        """Since when nothing keeps the leader from knowing the node's report."""
        return max(term.since, place.since, self._disturbances.last((term.master, place.crew, node), at))

    def _check_older(self, term: Term, node: str, look: Look) -> None:
        """The Node shows what the latest report gives, so that one with other labels cannot be the latest one."""
        place, latest = self._where(node), self._workers[node].latest
        if place is None or not place.settled or look.reports[node].labels == latest.stamp.labels:
            return
        if look.at - max(self._begun(term, node, place, look.at), latest.at) > COMPARED:
            seen, wanted = (f"report {one.sequence} of {one.started}" for one in (look.reports[node], latest.stamp))
            self._complain(term, BELIEVED, node, seen, wanted, look.at)

    def _check_late(self, term: Term, node: str, at: float) -> None:
        place = self._where(node)
        if place is not None and at - self._begun(term, node, place, at) > LIMIT:
            self._complain(term, LATE, node, f"not known {at - term.since:.0f} s after {term.master} led", "known", at)

    def _complain(self, term: Term, kind: str, node: str, seen: str, wanted: str, at: float) -> None:
        """Once in a term."""
        if (kind, node) not in term.complained:
            term.complained.add((kind, node))
            self.violations.append(Violation(kind, node, "report", seen, wanted, self._now(), ""))
