"""When to report: at once after a change, else at the heartbeat that the master set, after a failure with back-off."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from nfd.errors import ReportError

JITTER = 0.1
"""Heartbeats are moved by up to this part, so that nodes started together do not report together."""
HEARTBEAT_LIMITS = (1.0, 3600.0)
BACK_OFF = (1.0, 60.0)
"""First and longest wait in seconds after failures, doubling in between."""
HOPELESS = 300.0
"""Wait after a refusal that the same report would get again."""


@dataclass(slots=True)
class Pace:
    """Times by the monotonic clock. `beat_at` is when to speak although nothing is new, `not_before` when at all."""

    beat_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0
    hopeless: bool = False
    asked: bool = False
    """Whether the wait after the last failure is the master's wish."""

    def due(self, *, new: bool) -> float:
        """When to send, given whether there is something new."""
        return self.not_before if new else max(self.not_before, self.beat_at)

    def taken(self, now: float, beat: float) -> None:
        """The master took a report and wants the next one in `beat` seconds."""
        low, high = HEARTBEAT_LIMITS
        beat = min(max(beat, low), high) if math.isfinite(beat) else high
        self.beat_at = now + beat * random.uniform(1 - JITTER, 1 + JITTER)
        self.not_before, self.failures, self.hopeless, self.asked = now, 0, False, False

    def failed(self, now: float, error: ReportError) -> float:
        """It did not; returns the wait in seconds. What the master asks for is never cut short."""
        self.failures += 1
        self.hopeless = not error.retry
        self.asked = error.retry_after is not None
        first, longest = BACK_OFF
        wait = min(first * 2.0 ** min(self.failures - 1, 16), longest) * random.uniform(0.5, 1)
        if error.retry_after is not None and math.isfinite(error.retry_after):
            wait = min(max(error.retry_after, 0.0), HEARTBEAT_LIMITS[1]) * random.uniform(1, 1 + 2 * JITTER)
        elif self.hopeless:
            wait = HOPELESS * random.uniform(1 - JITTER, 1 + JITTER)
        self.not_before = now + wait
        return wait

    def changed(self, now: float) -> None:
        """The report is another one now: what made the last one hopeless may not hold for it."""
        if self.hopeless:
            self.not_before, self.hopeless = now, False
