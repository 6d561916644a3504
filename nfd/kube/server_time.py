"""The API server's clock, by the `Date` of its answers (RFC 9110, 6.6.1).

What several masters agree on, such as when a certificate authority is replaced, must not depend on the clock of one of
their machines, which may be wrong or may be set while the master runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

OLDEST = 60.0
"""Seconds that no answer takes to arrive: a request has 30."""


class ServerTime:
    """Seconds since the epoch. Before the first answer they are those of the local clock."""

    def __init__(self, local: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._local = local
        self._monotonic = monotonic
        self._seen = ""
        self._ahead: float | None = None
        """Seconds by which the server's clock is ahead of the monotonic one."""

    def note(self, date: str) -> None:
        """An answer has this date. A malformed one is ignored, and so is one that took longer than those before."""
        if date == self._seen:
            return
        self._seen = date
        try:
            ahead = parsedate_to_datetime(date).timestamp() - self._monotonic()
        except (ValueError, OverflowError):
            return
        if self._ahead is None or not 0 < self._ahead - ahead < OLDEST:
            self._ahead = ahead

    def now(self) -> float:
        """To the second."""
        return self._local() if self._ahead is None else self._ahead + self._monotonic()
