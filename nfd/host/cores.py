"""What only the core that runs us can tell, asked of one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def on_each_core(ask: Callable[[], T]) -> Iterator[T]:
    """Ask on each core that we may run on, in this thread alone; one that is taken from us meanwhile is left out."""
    cores = os.sched_getaffinity(0)
    try:
        for core in sorted(cores):
            with suppress(OSError):
                os.sched_setaffinity(0, {core})
                yield ask()
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, cores)
