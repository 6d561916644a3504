"""Heartbeats: when each worker last reported, when it should again, and which workers are overdue."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

HEARTBEATS_PER_SECOND = 10.0
"""Heartbeats of all nodes together. One costs about 2.5 ms of CPU and 7.7 kB, so 5,000 nodes use 3 % of a core and each
sends 0.93 kB a minute; at 15 per second it would be 1.4 kB."""
HEARTBEAT_LIMITS = (60.0, 900.0)
"""Seconds between two reports of a node without changes."""
JITTER = 0.1
MISSED_HEARTBEATS = 3


class Heartbeats:
    """Times are monotonic. `stale_after` is in seconds; with 0 or less, a silent worker's labels stay."""

    def __init__(self, stale_after: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self.stale_after = stale_after
        self._now = now
        self._heard: dict[str, float] = {}
        self._intervals: dict[str, float] = {}
        """Node → the interval that its worker got with the answer to its last report."""
        self._given_up: set[str] = set()
        self._since = now()

    def __len__(self) -> int:
        return len(self._heard)

    def note(self, node: str) -> None:
        """The node's worker has sent a report."""
        self._heard[node] = self._now()
        self._given_up.discard(node)

    def age(self, node: str) -> float | None:
        """Seconds since the last report; None without one."""
        heard = self._heard.get(node)
        return None if heard is None else self._now() - heard

    def forget(self, node: str) -> None:
        self._heard.pop(node, None)
        self._intervals.pop(node, None)
        self._given_up.discard(node)

    def clear(self) -> None:
        """Restart the clock of all nodes: another master may have received their reports meanwhile."""
        self._heard.clear()
        self._intervals.clear()
        self._given_up.clear()
        self._since = self._now()

    def next_heartbeat(self, node: str, *, soon: bool = False) -> float:
        """Seconds until the node's next report if nothing changes: longer with more nodes, and with jitter."""
        interval = HEARTBEAT_LIMITS[0] if soon else self.interval
        if node in self._heard:
            self._intervals[node] = interval
        return interval * random.uniform(1 - JITTER, 1 + JITTER)

    @property
    def interval(self) -> float:
        return _interval(len(self._heard))

    def _interval_of(self, node: str, now: float) -> float:
        """The interval by which a worker may be silent; `now` is the one of the present fleet.

        The fleet may have shrunk since the worker got its interval, which it keeps until its next report.
        """
        return max(self._intervals.get(node, 0.0), now)

    def led(self) -> float:
        """Seconds since the clock of all nodes was restarted, which a new leader does."""
        return self._now() - self._since

    def patience(self, nodes: int, node: str = "") -> float:
        """Seconds after which the worker of a node, or any that got no interval, is silent, in a fleet of at least
        that many nodes."""
        return MISSED_HEARTBEATS * (1 + JITTER) * self._interval_of(node, _interval(max(nodes, len(self._heard))))

    def count_silent(self) -> int:
        """Number of nodes whose worker has missed `MISSED_HEARTBEATS` heartbeats."""
        interval, now = self.interval, self._now()
        return sum(
            now - heard > MISSED_HEARTBEATS * self._interval_of(node, interval) for node, heard in self._heard.items()
        )

    def newly_stale(self, nodes: Iterable[str]) -> list[str]:
        """Nodes whose worker has been silent for longer than `stale_after` and for some heartbeats."""
        if self.stale_after <= 0:
            return []
        interval, now = self.interval, self._now()

        def limit(node: str) -> float:
            return max(self.stale_after, MISSED_HEARTBEATS * self._interval_of(node, interval))

        return [
            node
            for node in nodes
            if node not in self._given_up and now - self._heard.get(node, self._since) > limit(node)
        ]

    def give_up(self, node: str) -> None:
        """Do not return the node from `newly_stale` again until its worker has reported."""
        self._given_up.add(node)


def _interval(nodes: int) -> float:
    return min(max(nodes / HEARTBEATS_PER_SECOND, HEARTBEAT_LIMITS[0]), HEARTBEAT_LIMITS[1])
