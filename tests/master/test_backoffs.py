"""Back-offs stay within their limits, however long an outage lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from nfd.errors import ReportError
from nfd.master.node import drift, queue
from nfd.master.reports import receive_copies
from nfd.store.base import Kind
from nfd.worker import schedule

KEY = (Kind.LABELS, "vendor.io/a")


def wait_of_worker(failures: int) -> float:
    found = schedule.Pace()
    found.failures = failures
    return found.failed(0.0, ReportError("away", retry=True))


def wait_of_queue(failures: int) -> float:
    found = queue.Queue()
    found._failures["n"] = failures
    found.retry("n")
    (timer, _), now = found._timers["n"], asyncio.get_running_loop().time()
    timer.cancel()
    return timer.when() - now


WAITS: dict[str, tuple[Callable[[int], float], float]] = {
    "drift": (lambda failures: drift._wait(KEY, drift.FREE + 1 + failures), drift.BACKOFF[1]),
    "copies of reports": (receive_copies.delay, receive_copies.BACKOFF[1]),
    "report": (wait_of_worker, schedule.BACK_OFF[1]),
    "node": (wait_of_queue, queue.BACKOFF[1]),
}


@pytest.mark.parametrize("kind", WAITS)
async def test_a_long_outage_ends_no_loop_and_makes_none_hot(kind: str) -> None:
    wait, longest = WAITS[kind]
    assert 0 < wait(0) < longest
    for failures in (100, 1024, 1025, 10_000, 10**9):
        assert longest / 2 <= wait(failures) <= longest * 1.25
