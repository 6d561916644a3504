"""The one way to start a task, and to run an event loop: no task ends unnoticed.

A task that runs as long as its program is started with `start`: an unexpected exception is logged with its name and
counted, and the task starts again with back-off. So a failure affects only that task, for a moment. A task with a
result is started with `ask`; whoever awaits it gets its exceptions. Exceptions in callbacks are handled by the handler
that `run` sets.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar

from nfd.errors import NfdError, rest_after
from nfd.runtime import log
from nfd.runtime.cpu_limit import CpuLimit
from nfd.runtime.failures import COUNTS, failed
from nfd.runtime.signals import Signals

BACKOFF = (0.5, 30.0)
"""Seconds before a task that failed starts again: the first time, and at most."""
LASTING = 60.0
"""Seconds after which a running task counts as recovered."""
INSIST = 1.0
"""Seconds after which a task that has not ended is cancelled again."""
PIECE: Any = asyncio.Handle._run
"""Every callback of the event loop, also each step of a task, is a call of this function."""
PIECE_SECONDS = 5.0
"""CPU time in which such a call ends, or is ended."""
CALLBACK = "callback"
"""The name in the log of a failure in a callback of the event loop."""

T = TypeVar("T")
_log = log.get("tasks")


def start(
    task: str, work: Callable[[], Coroutine[Any, Any, None]], foreseen: tuple[type[Exception], ...] = ()
) -> asyncio.Task[None]:
    """Start a task that does what `supervised` says; whoever awaits it gets what is `foreseen`."""
    return asyncio.create_task(supervised(task, work, foreseen), name=task)


async def supervised(
    task: str, work: Callable[[], Coroutine[Any, Any, None]], foreseen: tuple[type[Exception], ...] = ()
) -> None:
    """Run `work()`, and again after what it raises, until it returns or is cancelled. Raises: what is `foreseen`."""
    COUNTS.setdefault(task, 0)
    clock = asyncio.get_running_loop().time
    delay = BACKOFF[0]
    while True:
        began, rest = clock(), 0.0
        try:
            return await work()
        except foreseen:
            raise
        except asyncio.CancelledError as error:
            if _is_told_to_end():
                raise
            failed(task, error)  # something that it waited for was cancelled, which is not its own end
        except Exception as error:
            failed(task, error)
            rest = rest_after(error)
        if clock() - began >= LASTING:
            delay = BACKOFF[0]
        await asyncio.sleep(max(delay * random.uniform(1.0, 1.25), rest))
        delay = min(delay * 2, BACKOFF[1])


def _is_told_to_end() -> bool:
    current = asyncio.current_task()
    return current is None or current.cancelling() > 0


def ask(task: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose outcome somebody waits for, who has its errors; what is no NfdError is logged all the same."""
    COUNTS.setdefault(task, 0)
    asked = asyncio.create_task(work, name=task)
    asked.add_done_callback(_tell)
    return asked


def _tell(task: asyncio.Task[Any]) -> None:
    """Log an exception that nobody may be waiting for."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, NfdError):
        failed(task.get_name(), error)


async def attempt(task: str, work: Awaitable[bool]) -> bool:
    """The result of the work; False after an unexpected exception, which is logged and counted, and may be retried."""
    try:
        return await work
    except Exception as error:
        failed(task, error)
        return False


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Run all of them until one ends; the others are cancelled then, or when the caller is. Raises what that one
    raised."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task in done:
                await task
    finally:
        await cancel(tasks)


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` gives. If the event comes before, it is cancelled, and None."""
    given: list[T] = []

    async def give() -> None:
        given.append(await work)

    await first_of(give(), event.wait())
    return given[0] if given else None


async def reached(event: asyncio.Event, task: asyncio.Task[Any]) -> None:
    """Returns when the event is set. Raises what ends the task before that."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
    finally:
        await cancel([waiting])


async def cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Returns when all have ended. What those raise that were still running is logged, unless it is an NfdError.

    They are cancelled again and again: if what a task waits for ends at the moment in which it is cancelled, the
    cancellation may be lost, and the task continues.
    """
    running = left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=INSIST)
    for task in tasks:
        if task in running:
            _tell(task)
        elif not task.cancelled():
            task.exception()


def run(work: Coroutine[Any, Any, T]) -> T:
    """An event loop for as long as `work` takes. Raises what that raises."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(_unhandled)
        return runner.run(work)


class Asked:
    """What signals have asked for: `stop` stays set, `hangup` is cleared after the reload."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hangup = asyncio.Event()


def serve(work: Callable[[Asked], Coroutine[Any, Any, T]]) -> T:
    """`run` for a program that works until a signal. From here on none of them ends it in another way than `work` does.

    After a signal that stays so, to the end of the process. A callback that does not end is ended (`cpu_limit`).
    """
    signals = Signals()
    try:
        with CpuLimit(PIECE, PIECE_SECONDS):
            return run(_listen(signals, work))
    finally:
        if not signals.stop:
            signals.close()


async def _listen(signals: Signals, work: Callable[[Asked], Coroutine[Any, Any, T]]) -> T:
    asked, loop = Asked(), asyncio.get_running_loop()

    def read() -> None:
        signals.drain()
        if signals.stop:
            asked.stop.set()
        if signals.reload:
            signals.reload = False
            asked.hangup.set()

    loop.add_reader(signals.fileno(), read)
    try:
        read()
        return await work(asked)
    finally:
        loop.remove_reader(signals.fileno())


def _unhandled(loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """What a callback raised, or a task whose outcome nobody has asked for."""
    error = context.get("exception")
    what = " ".join(str(context.get("message") or "unhandled").split())
    if isinstance(error, BaseException):
        failed(CALLBACK, error, what)
    else:
        COUNTS[CALLBACK] += 1
        _log.error(what, task=CALLBACK)
