"""Conditions that the API server rejects: which nodes wait, and when one of them tries again.

A node whose conditions are rejected waits. Once they are rejected on three nodes, with no success in between, all nodes
wait, and one at a time tries again. Times are of a monotonic clock, in seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nfd.errors import Invalid, KubeError
from nfd.master.node.known_rejections import NODES, Unwritten
from nfd.names import NFD_NS
from nfd.runtime import log

RETRY = 300.0
"""Seconds until conditions that the API server has rejected are tried again."""
CONDITION = "condition"
"""The kind in `Unwritten`; the key stands for all types."""

_log = log.get("master")


class ConditionRejections:
    """What passes over Nodes and the task that makes conditions Unknown know together."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until: dict[str, float] = {}
        """Node → when its conditions may be tried again."""
        self._news: set[str] = set()
        """Nodes that were rejected since the last success on any node."""
        self._why = ("", "")
        """By whom conditions were rejected the last time, and why."""
        self._due = 0.0
        """When the next node may try while all wait."""
        self._canary = ""
        """The node that may try while all wait, until the API server has answered."""

    def waits(self, name: str) -> bool:
        """Whether the node's conditions are not to be tried now."""
        now = self._now()
        return self._until.get(name, now) > now or (self._concerns_all and self._due > now and name != self._canary)

    def is_doubtful(self, name: str) -> bool:
        """Whether the node's conditions are likely to be rejected again."""
        return name in self._until or self._concerns_all

    def claim(self, name: str) -> bool:
        """Whether the node may try its conditions now. Then no other node may while all wait."""
        if self.waits(name):
            return False
        if self._concerns_all and name != self._canary:
            self._canary, self._due = name, self._now() + RETRY
        return True

    def reject(self, name: str) -> bool:
        """The node's conditions were rejected. Returns whether that is news: neither of this node nor of all."""
        news = not self.is_doubtful(name)
        if name not in self._until:
            self._news.add(name)
        self._until[name] = self._due = self._now() + RETRY
        self._canary = ""
        return news

    def note(self, name: str, error: KubeError) -> None:
        """The node's conditions were rejected; logged if that is news, neither of this node nor of all."""
        self._why = (error.by if isinstance(error, Invalid) else "the API server", str(error))
        if self.reject(name):
            _log.error("the API server rejects the conditions of the node", node=name, error=error)

    def unwritten(self) -> list[Unwritten]:
        """The nodes whose conditions are rejected, as one entry."""
        return [Unwritten(CONDITION, NFD_NS, *self._why, tuple(sorted(self._until)))] if self._until else []

    def accept(self, name: str) -> None:
        """The node's conditions were written: those of other nodes are tried as well."""
        self._until.pop(name, None)
        self._news.clear()
        self._canary = ""

    def forget(self, name: str) -> None:
        """The node is gone."""
        self._until.pop(name, None)
        self._news.discard(name)

    def clear(self) -> None:
        """Forget everything."""
        self._until.clear()
        self._news.clear()
        self._canary = ""

    @property
    def _concerns_all(self) -> bool:
        return len(self._news) >= NODES
