"""When to report: at once after a change, else at the master's heartbeat interval, with back-off after a failure."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from nfd.errors import ReportError

JITTER = 0.1
"""Jitter of heartbeats, as a fraction, so that nodes that start together do not report together."""
HEARTBEAT_LIMITS = (1.0, 3600.0)
BACK_OFF = (1.0, 60.0)
"""First and longest wait in seconds after failures, doubling in between."""
PERMANENT_WAIT = 300.0
"""Seconds to wait after a permanent error."""


@dataclass(slots=True)
class Pace:
    """Times are of the monotonic clock. `heartbeat_at` is when to report without changes, `not_before` the earliest
    time."""

    heartbeat_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0
    hopeless: bool = False
    asked: bool = False
    """Whether the master asked for the wait after the last failure."""

    def due(self, *, new: bool) -> float:
        """When to send, with or without changes."""
        return self.not_before if new else max(self.not_before, self.heartbeat_at)

    def accepted(self, now: float, heartbeat: float) -> None:
        """The master accepted a report and wants the next one in `heartbeat` seconds."""
        low, high = HEARTBEAT_LIMITS
        heartbeat = min(max(heartbeat, low), high) if math.isfinite(heartbeat) else high
        self.heartbeat_at = now + heartbeat * random.uniform(1 - JITTER, 1 + JITTER)
        self.not_before, self.failures, self.hopeless, self.asked = now, 0, False, False

    def ask(self, at: float) -> None:
        """Report then, if no report is due before, for the reply."""
        self.heartbeat_at = min(self.heartbeat_at, at)

    def failed(self, now: float, error: ReportError) -> float:
        """The report was not accepted. Returns the wait in seconds; a wait that the master asked for is never
        shortened."""
        self.failures += 1
        self.hopeless = not error.retry
        self.asked = error.retry_after is not None
        first, longest = BACK_OFF
        wait = min(first * 2.0 ** min(self.failures - 1, 16), longest) * random.uniform(0.5, 1)
        if error.retry_after is not None and math.isfinite(error.retry_after):
            wait = min(max(error.retry_after, 0.0), HEARTBEAT_LIMITS[1]) * random.uniform(1, 1 + 2 * JITTER)
        elif self.hopeless:
            wait = PERMANENT_WAIT * random.uniform(1 - JITTER, 1 + JITTER)
        self.not_before = now + wait
        return wait

    def changed(self, now: float) -> None:
        """The report changed: a permanent error of the last one may not apply to it."""
        if self.hopeless:
            self.not_before, self.hopeless = now, False
