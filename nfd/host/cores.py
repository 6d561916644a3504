"""Reads what differs between CPU cores, on one core after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def on_each_core(ask: Callable[[], T]) -> Iterator[T]:
    """Run on each core that this process may use, in this thread only; a core that is taken away meanwhile is left
    out."""
    cores = os.sched_getaffinity(0)
    try:
        for core in sorted(cores):
            with suppress(OSError):
                os.sched_setaffinity(0, {core})
                yield ask()
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, cores)
