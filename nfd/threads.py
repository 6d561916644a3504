"""The one way to start a thread: what it raises is logged with its name and counted, never printed or lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

from nfd.failures import COUNTS, failed

PAUSE = 1.0
"""Seconds before a thread that failed goes on."""


def start_thread(task: str, run: Callable[[], None], *, again: bool = False) -> Thread:
    """A thread that ends with the program at the latest; with `again`, what fails unforeseen is run again."""
    COUNTS.setdefault(task, 0)
    thread = Thread(target=_supervise, args=(task, run, again), name=task, daemon=True)
    thread.start()
    return thread


def _supervise(task: str, run: Callable[[], None], again: bool) -> None:
    while True:
        try:
            run()
        except Exception as error:
            failed(task, error)
        else:
            return
        if not again:
            return
        time.sleep(PAUSE)
