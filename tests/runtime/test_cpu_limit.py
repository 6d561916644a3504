"""What keeps the main thread busy without end is ended, and nothing else is."""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from nfd.errors import Endless
from nfd.rules.time_limit import Clocks, Meter
from nfd.runtime import tasks
from nfd.runtime.cpu_limit import CpuLimit
from nfd.runtime.failures import COUNTS
from nfd.runtime.threads import start_thread
from tests.runtime.collection import collect

LIMIT = 0.2
TASK = "work that takes long"


def burn(seconds: float) -> None:
    """Pure Python, for that much CPU time of the thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """As a supervised task of an event loop, three times at most; how often it failed."""
    before = COUNTS[TASK]

    async def tries() -> None:
        if COUNTS[TASK] < before + 3:
            await work()

    with CpuLimit(tasks.PIECE, LIMIT):
        tasks.run(tasks.supervised(TASK, tries))
    return COUNTS[TASK] - before


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BACKOFF", (0.01, 0.02))


def test_what_does_not_end_is_ended_and_the_loop_goes_on() -> None:
    """It rests for longer than it was busy, and has all its time again when it is tried again."""
    began: list[float] = []

    async def work() -> None:
        began.append(time.monotonic())
        if len(began) < 3:
            burn(20.0)

    assert run(work) == 2
    assert time.monotonic() - began[0] < 10.0
    assert all(after - before > 6 * LIMIT for before, after in pairwise(began))


def test_a_part_that_handles_it_has_all_its_time_again() -> None:
    ended = 0

    async def work() -> None:
        nonlocal ended
        for _ in range(2):
            try:
                burn(20.0)
            except Endless:
                ended += 1
        burn(LIMIT / 2)

    assert (run(work), ended) == (0, 2)


def test_a_callback_without_a_task_is_ended_too() -> None:
    before = COUNTS[tasks.CALLBACK]

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(tasks._unhandled)
        asyncio.get_running_loop().call_soon(Meter(Clocks(endless, endless)).start)
        await asyncio.sleep(0.01)

    assert run(work) == 0
    assert COUNTS[tasks.CALLBACK] == before + 1


def endless() -> float:
    burn(20.0)
    return 0.0


async def many() -> None:
    for _ in range(20):
        burn(LIMIT / 5)
        await asyncio.sleep(0)


async def waiting() -> None:
    """Another thread is busy meanwhile."""
    thread = threading.Thread(target=burn, args=(3 * LIMIT,))
    thread.start()
    thread.join()
    time.sleep(0.01)


async def one_call() -> None:
    burn(LIMIT / 2)
    began = time.thread_time()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1_500_000)
    assert time.thread_time() - began > LIMIT


@pytest.mark.parametrize("work", [many, waiting, one_call])
def test_other_work_is_not_ended(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Many short steps, waiting beside a busy thread, a long call of C code."""
    assert run(work) == 0


def test_an_import_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "takes_long.py").write_text(f"from {__name__} import burn\nburn({3 * LIMIT})\n")
    monkeypatch.syspath_prepend(tmp_path)

    async def work() -> None:
        importlib.import_module("takes_long")
        burn(LIMIT / 2)

    assert run(work) == 0
    assert sys.modules.pop("takes_long")


def test_what_is_over_the_limit_during_garbage_collection_is_ended_after_it() -> None:
    """Python ignores an exception that one of its callbacks raises."""

    async def work() -> None:
        collect(partial(burn, 2 * LIMIT))
        burn(LIMIT / 2)

    assert run(work) == 3


def test_code_of_others_is_not_ended() -> None:
    """Not even in a callback: only what this project does or calls."""

    async def work() -> None:
        asyncio.get_running_loop().call_soon(burn, 3 * LIMIT)
        await asyncio.sleep(0.01)

    before = COUNTS[tasks.CALLBACK]
    assert run(work) == 0
    assert COUNTS[tasks.CALLBACK] == before


def test_nothing_is_left_behind() -> None:
    """A late signal ends nothing."""
    with CpuLimit(tasks.PIECE, LIMIT):
        assert signal.getitimer(signal.ITIMER_PROF)[1] > 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_IGN
    signal.raise_signal(signal.SIGPROF)


def test_every_server_has_the_limit() -> None:
    async def work(asked: tasks.Asked) -> float:
        return signal.getitimer(signal.ITIMER_PROF)[1]

    assert tasks.serve(work) > 0


def test_threads_of_ours_are_not_interrupted() -> None:
    found: list[set[int]] = []
    start_thread("thread", lambda: found.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, [])))).join()
    assert signal.SIGPROF in found[0]
