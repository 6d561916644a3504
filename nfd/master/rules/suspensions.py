"""Suspends rules, objects and groups that take too long, longer each time.

They are suspended on the node on which they take too long, and on all nodes once they do so on several. After a while
they are tried again, since the machine may have been slow. If they still take too long, they are suspended for twice as
long. A changed rule has a clean record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

STRIKES = 3
"""Nodes on which a rule, an object or a group must take too long within `WINDOW` to be suspended on all."""
WINDOW = 600.0
"""Seconds for which it counts that something took too long on a node."""
FIRST, LONGEST = 600.0, 3600.0
"""Seconds of a suspension: the first and the longest."""

Key = int | str
"""The identity (`id`) of a rule, or the origin of an object or a group."""


@dataclass(slots=True)
class _Suspended:
    """One suspension; `what` keeps the object alive, so that no other gets its identity."""

    what: object
    until: float
    seconds: float


@dataclass(slots=True)
class _Place:
    """The suspensions on all nodes, or on one; `known` also has those that ended recently."""

    active: set[Key] = field(default_factory=set)
    known: dict[Key, _Suspended] = field(default_factory=dict)

    def suspend(self, members: Mapping[Key, object], now: float) -> bool:
        """Suspend members. Returns whether some of them were not suspended."""
        fresh = members.keys() - self.active
        for name in fresh:
            before = self.known.get(name)
            seconds = FIRST if before is None or now >= before.until + LONGEST else min(2 * before.seconds, LONGEST)
            self.known[name] = _Suspended(members[name], now + seconds, seconds)
        self.active |= fresh
        return bool(fresh)

    def keep(self, present: Mapping[Key, object]) -> None:
        """Forget deleted and changed members."""
        self.known = {key: one for key, one in self.known.items() if present.get(key) is one.what}
        self.active = self.active & self.known.keys()

    def release(self, now: float) -> bool:
        """End suspensions whose time is over. Returns whether there are any."""
        self.known = {key: one for key, one in self.known.items() if now < one.until + LONGEST}
        before, self.active = self.active, {key for key, one in self.known.items() if now < one.until}
        return before != self.active

    def end(self) -> float:
        """When the first of them ends."""
        return min((self.known[key].until for key in self.active), default=math.inf)


class Suspensions:
    """The suspensions of the rules in force; `now` is a clock in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._present: Mapping[Key, object] = {}
        self._everywhere = _Place()
        self._nodes: dict[str, _Place] = {}
        self._strikes: dict[Key, tuple[Mapping[Key, object], dict[str, float]]] = {}
        """When each took too long and on which nodes, the latest `STRIKES`."""

    @property
    def active(self) -> Collection[Key]:
        """Suspended on all nodes; it may grow during an evaluation."""
        return self._everywhere.active

    def active_on(self, node: str) -> Collection[Key]:
        """Suspended on this node only."""
        return self._nodes[node].active if node in self._nodes else ()

    def bind(self, present: Mapping[Key, object]) -> None:
        """Other rules are put into force: forget deleted and changed rules, and end suspensions whose time is over."""
        self._present = present
        for place in (self._everywhere, *self._nodes.values()):
            place.keep(present)
        self._everywhere.release(self._now())
        self.release()
        self._strikes = {
            key: (members, times)
            for key, (members, times) in self._strikes.items()
            if all(present.get(name) is one for name, one in members.items())
        }

    def is_expected(self, key: Key) -> bool:
        """Whether it took too long before, so that a slow machine is not the reason."""
        return key in self._strikes or key in self._everywhere.known

    def strike(self, node: str, key: Key, members: Mapping[Key, object]) -> bool:
        """Record that it took too long on a node. Returns whether members (itself, or its rules) are now suspended on
        all nodes.

        Rules that are no longer in force, since others were put into force meanwhile, do not count.
        """
        members = self._those_present(members)
        if not members:
            return False
        now = self._now()
        times = {other: at for other, at in self._strikes.get(key, ({}, {}))[1].items() if now - at < WINDOW}
        times.pop(node, None)
        recent = [*times.items(), (node, now)][-STRIKES:]
        self._strikes[key] = members, dict(recent)
        return len(recent) == STRIKES and self._everywhere.suspend(members, now)

    def suspend_on(self, node: str, members: Mapping[Key, object]) -> bool:
        """Suspend them on this node only. Returns whether some were not suspended."""
        active = self._everywhere.active
        members = {name: one for name, one in self._those_present(members).items() if name not in active}
        return bool(members) and self._nodes.setdefault(node, _Place()).suspend(members, self._now())

    def _those_present(self, members: Mapping[Key, object]) -> Mapping[Key, object]:
        return {name: one for name, one in members.items() if self._present.get(name) is one}

    def release(self) -> list[str]:
        """End suspensions on single nodes whose time is over. Returns those nodes."""
        now = self._now()
        released = [node for node, place in self._nodes.items() if place.release(now)]
        self._nodes = {node: place for node, place in self._nodes.items() if place.known}
        return released

    def forget(self, node: str) -> None:
        """Forget a deleted node."""
        self._nodes.pop(node, None)
        for key in [
            key for key, (_, times) in self._strikes.items() if times.pop(node, None) is not None and not times
        ]:
            del self._strikes[key]

    def retry_in(self) -> float | None:
        """Seconds until the first suspension on all nodes ends; None if there is none."""
        return self._until((self._everywhere,))

    def release_in(self) -> float | None:
        """Seconds until the first suspension on a single node ends."""
        return self._until(self._nodes.values())

    def _until(self, places: Iterable[_Place]) -> float | None:
        first = min((place.end() for place in places), default=math.inf)
        return None if first == math.inf else max(first - self._now(), 0.0)
