"""Rules, objects and groups that take too long: suspended for a while, longer each time.

What takes too long on a node is suspended on that node alone. Once it does so on several, it is suspended on all of
them. It is tried again later, since a machine may have been slow. If it still takes too long, it is suspended again,
for twice as long. A changed rule starts afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

STRIKES = 3
"""Nodes on which a rule, an object or a group may take too long within `WINDOW`; then it is suspended on all."""
WINDOW = 600.0
"""Seconds after which it no longer counts that something took too long on a node."""
FIRST, LONGEST = 600.0, 3600.0
"""Seconds that it is suspended: the first time, and at most."""

Key = int | str
"""The identity (`id`) of a rule, the origin of an object or a group."""


@dataclass(slots=True)
class _Suspended:
    """One that was suspended; `what` keeps it alive, so that nothing else gets its identity."""

    what: object
    until: float
    seconds: float


@dataclass(slots=True)
class _Place:
    """What is suspended on all nodes, or on one; `known` also has what was until some time ago."""

    active: set[Key] = field(default_factory=set)
    known: dict[Key, _Suspended] = field(default_factory=dict)

    def suspend(self, members: Mapping[Key, object], now: float) -> bool:
        """Whether some of them were not suspended."""
        fresh = members.keys() - self.active
        for name in fresh:
            before = self.known.get(name)
            seconds = FIRST if before is None or now >= before.until + LONGEST else min(2 * before.seconds, LONGEST)
            self.known[name] = _Suspended(members[name], now + seconds, seconds)
        self.active |= fresh
        return bool(fresh)

    def keep(self, present: Mapping[Key, object]) -> None:
        """Forget those that are gone or changed."""
        self.known = {key: one for key, one in self.known.items() if present.get(key) is one.what}
        self.active = self.active & self.known.keys()

    def release(self, now: float) -> bool:
        """Whether the time of some is over."""
        self.known = {key: one for key, one in self.known.items() if now < one.until + LONGEST}
        before, self.active = self.active, {key for key, one in self.known.items() if now < one.until}
        return before != self.active

    def end(self) -> float:
        """When the time of the first of them is over."""
        return min((self.known[key].until for key in self.active), default=math.inf)


class Suspensions:
    """Which are suspended since the rules were last put in force, and `now` is a clock of seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._present: Mapping[Key, object] = {}
        self._everywhere = _Place()
        self._nodes: dict[str, _Place] = {}
        self._strikes: dict[Key, tuple[Mapping[Key, object], dict[str, float]]] = {}
        """When each took too long on which nodes, the latest `STRIKES` of them."""

    @property
    def active(self) -> Collection[Key]:
        """What is evaluated on no node; it grows while nodes are judged."""
        return self._everywhere.active

    def active_on(self, node: str) -> Collection[Key]:
        """What is not evaluated on this node alone."""
        return self._nodes[node].active if node in self._nodes else ()

    def bind(self, present: Mapping[Key, object]) -> None:
        """Other rules are put in force: forget those that are gone or changed, and release those whose time is over."""
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
        """Whether it took too long before, so that no machine need be blamed."""
        return key in self._strikes or key in self._everywhere.known

    def strike(self, node: str, key: Key, members: Mapping[Key, object]) -> bool:
        """It took too long on a node. Whether some of its members (itself, or its rules) are suspended for all now.

        It may have begun before other rules were put in force: those that are no longer there do not count.
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
        """Suspend them on this node alone. Whether some were not suspended."""
        active = self._everywhere.active
        members = {name: one for name, one in self._those_present(members).items() if name not in active}
        return bool(members) and self._nodes.setdefault(node, _Place()).suspend(members, self._now())

    def _those_present(self, members: Mapping[Key, object]) -> Mapping[Key, object]:
        return {name: one for name, one in members.items() if self._present.get(name) is one}

    def release(self) -> list[str]:
        """Nodes on which something is to be tried again that was suspended on them alone."""
        now = self._now()
        released = [node for node, place in self._nodes.items() if place.release(now)]
        self._nodes = {node: place for node, place in self._nodes.items() if place.known}
        return released

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._nodes.pop(node, None)
        for key in [
            key for key, (_, times) in self._strikes.items() if times.pop(node, None) is not None and not times
        ]:
            del self._strikes[key]

    def retry_in(self) -> float | None:
        """Seconds until the first of those that are suspended on all nodes is to be tried again; None if none is."""
        return self._until((self._everywhere,))

    def release_in(self) -> float | None:
        """The same for those that are suspended on one node."""
        return self._until(self._nodes.values())

    def _until(self, places: Iterable[_Place]) -> float | None:
        first = min((place.end() for place in places), default=math.inf)
        return None if first == math.inf else max(first - self._now(), 0.0)
