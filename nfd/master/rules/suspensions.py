"""Rules, objects and groups that take too long on several nodes: suspended for a while, longer each time.

What took too long is tried again later, since a machine may have been slow. If it still takes too long on one node, it
is suspended again, for twice as long. A changed rule starts afresh.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

STRIKES = 3
"""Nodes on which a rule, an object or a group may take too long within `WINDOW`; then it is suspended."""
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


class Suspensions:
    """Which are suspended since the rules were last put in force, and `now` is a clock of seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.active: set[Key] = set()
        """What is not evaluated; it grows while nodes are judged."""
        self._now = now
        self._present: Mapping[Key, object] = {}
        self._known: dict[Key, _Suspended] = {}
        self._strikes: dict[Key, tuple[Mapping[Key, object], list[float]]] = {}

    def bind(self, present: Mapping[Key, object]) -> None:
        """Other rules are put in force: forget those that are gone or changed, and release those whose time is over."""
        now, self._present = self._now(), present
        self._known = {
            key: one for key, one in self._known.items() if present.get(key) is one.what and now < one.until + LONGEST
        }
        self.active = {key for key, one in self._known.items() if now < one.until}
        self._strikes = {
            key: (members, times)
            for key, (members, times) in self._strikes.items()
            if all(present.get(name) is one for name, one in members.items())
        }

    def is_expected(self, key: Key) -> bool:
        """Whether it took too long before, so that no machine need be blamed."""
        return key in self._strikes or key in self._known

    def strike(self, key: Key, members: Mapping[Key, object], *, at_once: bool) -> bool:
        """It took too long on a node. Whether some of its members (itself, or its rules) are suspended for it now.

        It may have begun before other rules were put in force: those that are no longer there do not count.
        """
        members = {name: one for name, one in members.items() if self._present.get(name) is one}
        if not members:
            return False
        now = self._now()
        times = [*(one for one in self._strikes.get(key, ({}, ()))[1] if now - one < WINDOW), now]
        self._strikes[key] = members, times
        known = {name: one for name, one in self._known.items() if name in members and now < one.until + LONGEST}
        if len(times) < STRIKES and not at_once and not known:
            return False
        fresh = members.keys() - self.active
        for name in fresh:
            seconds = min(2 * known[name].seconds, LONGEST) if name in known else FIRST
            self._known[name] = _Suspended(members[name], now + seconds, seconds)
        self.active |= fresh
        return bool(fresh)

    def retry_in(self) -> float | None:
        """Seconds until the first of them is to be tried again; None if none is suspended."""
        first = min((self._known[key].until for key in self.active), default=math.inf)
        return None if first == math.inf else max(first - self._now(), 0.0)
