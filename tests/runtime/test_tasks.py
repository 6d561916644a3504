"""What ends a task, a thread or a callback unforeseen is told, counted and got over; a cancellation is never lost."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from threading import Event

import pytest

from nfd.errors import Forbidden, KubeError, Overdue
from nfd.runtime import failures, tasks, threads
from nfd.runtime.failures import COUNTS, failed

UNFORESEEN = [RecursionError, MemoryError, KeyError, OSError, ValueError, AssertionError, TimeoutError]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BACKOFF", (0.01, 0.02))
    monkeypatch.setattr(tasks, "INSIST", 0.05)
    monkeypatch.setattr(threads, "PAUSE", 0.01)
    failures._logged.clear()


def told(caplog: pytest.LogCaptureFixture, task: str) -> list[bool]:
    """Of each line about that task whether it has a traceback."""
    lines = [one for one in caplog.records if getattr(one, "fields", {}).get("task") == task]
    return [bool(one.exc_info) for one in lines]


@pytest.mark.parametrize("kind", UNFORESEEN)
async def test_a_task_starts_again(kind: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    """Each failure is counted and named, the first of its kind with its traceback."""
    task, runs, done = f"task {kind.__name__}", 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise kind("made by the test")
        done.set()

    running = tasks.start(task, work)
    assert COUNTS[task] == 0
    async with asyncio.timeout(5):
        await done.wait()
        await running
    assert COUNTS[task] == 3
    assert told(caplog, task) == [True], "the same in the same minute is one line"


def test_each_thing_that_fails_is_named(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        for node in ("a", "b", "c"):
            try:
                raise RecursionError
            except RecursionError as error:
                failed("node pass of the test", error, node=node)
    assert told(caplog, "node pass of the test") == [True, False, False]
    assert COUNTS["node pass of the test"] == 9


async def test_a_cancellation_of_what_it_waits_for_is_not_its_end() -> None:
    runs, over = 0, asyncio.Event()

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            lost = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost
        over.set()
        await asyncio.sleep(60)

    running = tasks.start("waiting", work)
    async with asyncio.timeout(5):
        await over.wait()
    await tasks.cancel([running])
    assert (running.cancelled(), runs, COUNTS["waiting"]) == (True, 2, 1)


async def test_what_is_foreseen_ends_it() -> None:
    async def work() -> None:
        raise Forbidden("no")

    with pytest.raises(Forbidden):
        await tasks.start("foreseen", work, (KubeError,))
    assert COUNTS["foreseen"] == 0


async def test_a_task_that_does_not_hear_is_told_again() -> None:
    """As one whose wait is over in the moment in which it is cancelled."""
    deaf = 1

    async def work() -> None:
        nonlocal deaf
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                deaf -= 1
                if deaf < 0:
                    raise

    first = asyncio.create_task(tasks.first_of(work(), asyncio.sleep(0.01)))
    await asyncio.wait([first], timeout=5)
    assert (first.done(), deaf) == (True, -1)


async def test_nobody_waits_for_the_outcome_any_more(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(error: Exception) -> None:
        raise error

    for error in (KeyError("odd"), Forbidden("no")):
        asked = tasks.ask("question", fail(error))
        await asyncio.wait([asked])
        await asyncio.sleep(0)
    assert COUNTS["question"] == 1, "an NfdError is an answer"
    assert told(caplog, "question") == [True]


async def test_what_fails_while_it_is_ended_is_told() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise KeyError("in the end")

    running = asyncio.create_task(work(), name="ending")
    await asyncio.sleep(0)
    await tasks.cancel([running])
    assert COUNTS["ending"] == 1


@pytest.mark.parametrize("when", ["soon", "later", "done", "nobody asks"])
def test_callbacks_are_heard(when: str, caplog: pytest.LogCaptureFixture) -> None:
    before = COUNTS[tasks.CALLBACK]

    def fail(*_: object) -> None:
        raise KeyError(when)

    async def lost() -> None:
        fail()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        arrange: dict[str, Callable[[], object]] = {
            "soon": lambda: loop.call_soon(fail),
            "later": lambda: loop.call_later(0.001, fail),
            "done": lambda: (future.add_done_callback(fail), future.set_result(None)),
            "nobody asks": lambda: loop.create_task(lost()),
        }
        arrange[when]()
        await asyncio.sleep(0.01)
        gc.collect()

    tasks.run(work())
    assert COUNTS[tasks.CALLBACK] == before + 1
    assert len(told(caplog, tasks.CALLBACK)) == 1


@pytest.mark.parametrize(("again", "runs"), [(True, 3), (False, 1)])
def test_threads(again: bool, runs: int, caplog: pytest.LogCaptureFixture) -> None:
    task, counted, done = f"thread {again}", 0, Event()

    def work() -> None:
        nonlocal counted
        counted += 1
        if counted < 3:
            raise RecursionError
        done.set()

    threads.start_thread(task, work, again=again).join(5)
    assert (counted, COUNTS[task], done.is_set()) == (runs, min(runs, 2), again)
    assert told(caplog, task)[0]


async def test_unless() -> None:
    event = asyncio.Event()
    assert await tasks.unless(event, asyncio.sleep(0, "given")) == "given"
    event.set()
    async with asyncio.timeout(5):
        assert await tasks.unless(event, asyncio.sleep(60, "late")) is None


def test_work_that_does_not_end_is_given_up() -> None:
    """A computation is ended, a call that hangs is waited for; nothing is begun twice, other work goes on."""
    limits, hanging, runs = threads.Limits(), Event(), list[str]()

    def compute() -> None:
        runs.append("compute")
        while True:
            pass

    def hang() -> str:
        runs.append("hang")
        hanging.wait(20)
        return "late"

    for name, work in (("computation", compute), ("call", hang), ("call", hang)):
        with pytest.raises(Overdue, match="end"):
            limits.run(name, 0.2, work)
    assert runs == ["compute", "hang"]
    assert limits.run("other", 5, lambda: 1) == 1
    limits._left["computation"].join(5)
    assert limits.run("computation", 5, lambda: 2) == 2
    hanging.set()
    limits._left["call"].join(5)
    assert limits.run("call", 5, lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        limits.run("other", 5, lambda: 1 // 0)


def test_the_end_of_the_program_waits_a_moment_for_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it together: what is begun later has no time of its own."""
    monkeypatch.setattr(threads, "LAST", 0.3)
    limits, hanging, began = threads.Limits(lambda: True), Event(), time.monotonic()
    for name in ("one", "two", "three"):
        with pytest.raises(Overdue):
            limits.run(name, 30, lambda: hanging.wait(20))
    assert time.monotonic() - began < 5
    hanging.set()
