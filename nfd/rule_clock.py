"""The clocks by which a running program bounds what rules take; `nfd.rules` itself reads none."""

from __future__ import annotations

import time

from nfd.rules.time_limit import RULE_SECONDS, Clocks, Meter
from nfd.runtime.garbage import collection_seconds


def cpu_seconds() -> float:
    """CPU time of the calling thread, less that of garbage collection: otherwise the next allocation would pay for all
    objects."""
    return time.thread_time() - collection_seconds()


CLOCKS = Clocks(cpu_seconds, time.perf_counter)


def metered(clocks: Clocks = CLOCKS, seconds: float = RULE_SECONDS) -> Meter:
    """A meter that ends what takes too long."""
    return Meter(clocks, seconds)
