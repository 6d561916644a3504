"""Detects that another writer changes managed keys or conditions repeatedly, and restores them later each time.

That is their back-off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nfd.master.node.shared_labels import SHARED, SHARED_WAIT

WINDOW = 600.0
"""Seconds for which a change counts."""
FREE = 2
"""Changes of one key within the window that are corrected at once."""
BACKOFF = (4.0, 120.0)
"""Back-off in seconds after that: the first delay, which doubles each time, and the longest."""

Key = tuple[str, str]
"""Kind and key; of a condition `CONDITIONS` and its type."""


@dataclass(slots=True)
class _Contest:
    """One key of one node: the number of recent changes, the time of the last one, and the end of the back-off."""

    times: int = 0
    last: float = 0.0
    until: float = 0.0


class Drift:
    """Changes of managed keys by other writers, by node; `now` is a monotonic clock in seconds."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[Key, _Contest]] = {}

    def note(self, node: str, keys: Iterable[Key], now: float) -> dict[Key, float]:
        """Another writer changed or removed these managed keys. Returns for how many seconds to leave each
        unchanged."""
        self._age(node, now)
        contests, waits = self._nodes.setdefault(node, {}), {}
        for key in keys:
            contest = contests.setdefault(key, _Contest())
            contest.times += 1
            contest.last = now
            waits[key] = _wait(key, contest.times)
            contest.until = now + waits[key]
        return waits

    def contested(self, node: str, now: float) -> dict[str, frozenset[str]]:
        """The keys of a node that are in back-off at this time."""
        self._age(node, now)
        found: dict[str, set[str]] = {}
        for (kind, key), contest in self._nodes.get(node, {}).items():
            if contest.until > now:
                found.setdefault(kind, set()).add(key)
        return {kind: frozenset(keys) for kind, keys in found.items()}

    def wait(self, node: str, now: float) -> float | None:
        """Seconds until the first of them is to be restored."""
        return min((one.until - now for one in self._nodes.get(node, {}).values() if one.until > now), default=None)

    def forget(self, node: str) -> None:
        self._nodes.pop(node, None)

    def count(self, now: float) -> int:
        """The number of keys on all nodes that others changed too often within the window."""
        return sum(
            one.times > FREE and now - one.last < WINDOW
            for contests in self._nodes.values()
            for one in contests.values()
        )

    def _age(self, node: str, now: float) -> None:
        """Forget changes outside the window."""
        contests = self._nodes.get(node)
        if contests is None:
            return
        for key in [key for key, one in contests.items() if now - one.last >= WINDOW]:
            del contests[key]
        if not contests:
            del self._nodes[node]


def _wait(key: Key, times: int) -> float:
    """The back-off in seconds after that many changes."""
    if times <= FREE:
        return 0.0
    longest = SHARED_WAIT if key[1] in SHARED else BACKOFF[1]
    return min(BACKOFF[0] * 2.0 ** min(times - FREE - 1, 10), longest)
