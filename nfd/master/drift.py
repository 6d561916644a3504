"""Notices who keeps changing our keys, and when to stop answering in kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from nfd.store.base import Kind

WINDOW = 600.0
TIMES = 3
PAUSE = 3600.0
"""Seconds: after the third change by one manager within the window we leave those keys alone for the pause."""

Key = tuple[Kind, str]


@dataclass(slots=True)
class _Contest:
    """One node: when each manager changed each key, and until when keys are left alone."""

    changes: dict[tuple[str, Key], list[float]] = field(default_factory=dict)
    paused: dict[Key, float] = field(default_factory=dict)

    def age(self, now: float) -> None:
        """Forget what is too long ago to count."""
        recent = {place: [time for time in times if now - time < WINDOW] for place, times in self.changes.items()}
        self.changes = {place: times for place, times in recent.items() if times}
        self.paused = {key: until for key, until in self.paused.items() if until > now}


class Drift:
    """Per node what others did to our keys; `now` is a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Contest] = {}

    def note(self, node: str, manager: str, keys: Iterable[Key], now: float) -> frozenset[Key]:
        """`manager` changed these keys of ours; answers those that are left alone from now on."""
        contest = self._nodes.setdefault(node, _Contest())
        contest.age(now)
        stopped = set()
        for key in keys:
            times = contest.changes.setdefault((manager, key), [])
            times.append(now)
            if len(times) >= TIMES:
                contest.paused[key] = now + PAUSE
                del contest.changes[manager, key]
                stopped.add(key)
        return frozenset(stopped)

    def contested(self, node: str, now: float) -> dict[Kind, frozenset[str]]:
        """The keys of a node that are left alone at this time."""
        contest = self._nodes.get(node)
        if contest is None:
            return {}
        contest.age(now)
        if not contest.paused and not contest.changes:
            del self._nodes[node]
        found: dict[Kind, set[str]] = {}
        for kind, key in contest.paused:
            found.setdefault(kind, set()).add(key)
        return {kind: frozenset(keys) for kind, keys in found.items()}

    def forget(self, node: str) -> None:
        self._nodes.pop(node, None)

    def count(self, now: float) -> int:
        """How many keys are left alone, of all nodes together."""
        return sum(until > now for contest in self._nodes.values() for until in contest.paused.values())
