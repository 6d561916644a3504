"""When each node's worker spoke last, how often it should, and who has been silent for too long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable

BEATS_PER_SECOND = 10.0
"""Of all nodes together: a beat is some 2.5 ms of CPU and 7.7 kB, so that 5,000 nodes cost 3 % of a core, and one of
them sends 0.93 kB a minute; with 15 it would be 1.4 kB."""
BEAT_LIMITS = (60.0, 900.0)
"""Seconds between two reports of a node that has nothing new to say."""
BEAT_JITTER = 0.1
MISSED_BEATS = 3


class Heartbeats:
    """Monotonic times; `stale_after` is in seconds, 0 or less if silence means nothing for labels."""

    def __init__(self, stale_after: float = 0.0, now: Callable[[], float] = time.monotonic) -> None:
        self.stale_after = stale_after
        self._now = now
        self._heard: dict[str, float] = {}
        self._given_up: set[str] = set()
        self._since = now()

    def __len__(self) -> int:
        return len(self._heard)

    def note(self, node: str) -> None:
        """Its worker has spoken."""
        self._heard[node] = self._now()
        self._given_up.discard(node)

    def age(self, node: str) -> float | None:
        """Seconds since its worker spoke; None if it has not."""
        heard = self._heard.get(node)
        return None if heard is None else self._now() - heard

    def forget(self, node: str) -> None:
        self._heard.pop(node, None)
        self._given_up.discard(node)

    def clear(self) -> None:
        """Others may have heard them meanwhile: whoever is silent, is so from now on."""
        self._heard.clear()
        self._given_up.clear()
        self._since = self._now()

    def beat(self, *, soon: bool = False) -> float:
        """Seconds until a node's next report if nothing changes: slower the more there are, never in step."""
        return (BEAT_LIMITS[0] if soon else self.pace) * random.uniform(1 - BEAT_JITTER, 1 + BEAT_JITTER)

    @property
    def pace(self) -> float:
        return min(max(len(self._heard) / BEATS_PER_SECOND, BEAT_LIMITS[0]), BEAT_LIMITS[1])

    def silent(self) -> int:
        """How many of those that spoke have missed some beats."""
        patience = MISSED_BEATS * self.pace
        return sum(self._now() - heard > patience for heard in self._heard.values())

    def newly_stale(self, nodes: Iterable[str]) -> list[str]:
        """Nodes to be given up: silent for longer than `stale_after`, and than some beats."""
        if self.stale_after <= 0:
            return []
        before = self._now() - max(self.stale_after, MISSED_BEATS * self.pace)
        return [node for node in nodes if node not in self._given_up and self._heard.get(node, self._since) < before]

    def give_up(self, node: str) -> None:
        """It is not told of again until its worker has spoken."""
        self._given_up.add(node)
