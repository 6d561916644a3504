"""Bounded memory: the values used last, values that expire, and which messages were logged recently. For one thread."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(OrderedDict[K, V]):
    """The latest `size` values by key: a `put` is a use, and a hit after `move_to_end`. Use no other way to write."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def put(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)


class ExpiringCache(Generic[V]):
    """The latest `size` values by key, each until a time of the clock `now`."""

    def __init__(self, size: int, now: Callable[[], float]) -> None:
        self._now = now
        self._values = LruCache[Hashable, tuple[V, float]](size)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> V | None:
        value, until = self._values.get(key) or (None, 0.0)
        return value if until > self._now() else None

    def put(self, key: Hashable, value: V, until: float) -> None:
        self._values.put(key, (value, until))


class Throttle:
    """Lets the same message through once in `seconds`, so that a flood of errors is no flood of log lines."""

    def __init__(self, seconds: float = 60.0, size: int = 1000, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._now = now
        self._logged = ExpiringCache[bool](size, now)

    def is_due(self, *message: Hashable) -> bool:
        """Whether the message is to be logged now; it then counts as logged."""
        if self._logged.get(message):
            return False
        self._logged.put(message, True, self._now() + self._seconds)
        return True
