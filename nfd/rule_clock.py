"""The clocks by which a running program bounds what rules take; `nfd.rules` itself reads none."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Mapping
from typing import Any

from nfd.rules.time_limit import RULE_SECONDS, Clocks, Meter


class _Collecting(threading.local):
    """CPU time that a thread has spent on the search for unreachable objects."""

    began = 0.0
    total = 0.0


_collecting = _Collecting()


def _note_collection(phase: str, _: Mapping[str, Any]) -> None:
    if phase == "start":
        _collecting.began = time.thread_time()
    else:
        _collecting.total += time.thread_time() - _collecting.began


def cpu_seconds() -> float:
    """CPU time of the calling thread, less that of garbage collection: otherwise the next allocation would pay for all
    objects."""
    return time.thread_time() - _collecting.total


gc.callbacks.append(_note_collection)
CLOCKS = Clocks(cpu_seconds, time.perf_counter)


def metered(clocks: Clocks = CLOCKS, seconds: float = RULE_SECONDS) -> Meter:
    """A meter that ends what takes too long."""
    return Meter(clocks, seconds)
