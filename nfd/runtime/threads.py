"""The one way to start a thread: what it raises is logged with its name and counted, never printed or lost.

And work with a time limit, which is done in a thread: a call that hangs in a driver or in the kernel never ends,
so the caller has to continue without it.
"""

from __future__ import annotations

import ctypes
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

from nfd.errors import Overdue
from nfd.runtime.failures import COUNTS, failed

PAUSE = 1.0
"""Seconds before a failed thread continues."""
LAST = 5.0
"""Seconds that all work together still has from the moment in which the program is asked to end."""
SLICE = 0.25
"""Seconds between two looks at whether it is."""

T = TypeVar("T")


def start_thread(task: str, run: Callable[[], None], *, again: bool = False) -> Thread:
    """A thread that ends with the program at the latest; with `again`, it runs again after an unexpected error."""
    COUNTS.setdefault(task, 0)
    thread = Thread(target=_supervise, args=(task, run, again), name=task, daemon=True)
    thread.start()
    return thread


def _supervise(task: str, run: Callable[[], None], again: bool) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])  # the timer of `cpu_limit` interrupts no driver
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


class Limits:
    """Does work under a name, within a time; for use by one thread. `ending` says whether the program is to end.

    `allowed` is called with the seconds for which all is well: those of work that begins, none when it is over.

    What has not ended in time goes on in the background. It is asked to end, which a computation in Python does and a
    call that hangs does not, and is not started again before it has ended: then the name is free again.
    """

    def __init__(
        self, ending: Callable[[], bool] = lambda: False, allowed: Callable[[float], None] = lambda seconds: None
    ) -> None:
        self._ending = ending
        self._allowed = allowed
        self._runner: _Runner | None = None
        self._left: dict[str, Thread] = {}
        """By name, the threads of what had not ended in time."""
        self._last: float | None = None

    def run(self, name: str, seconds: float, work: Callable[[], T]) -> T:
        """What `work` gives. Raises: what that raises; Overdue if it has not ended, or what was begun before it."""
        if (left := self._left.get(name)) is not None and left.is_alive():
            _ask_to_end(left)
            raise Overdue(f"an earlier run has not ended; its limit is {seconds:g} s")
        result, runner = Future[T](), self._runner or _Runner()
        self._runner = None
        self._allowed(seconds)
        runner.begin(partial(_fill, result, work))
        ended = self._wait(result, seconds)
        self._allowed(0.0)
        if not ended:
            self._left[name] = runner.thread
            runner.end()
            _ask_to_end(runner.thread)
            raise Overdue(f"did not end within {seconds:g} s")
        self._left.pop(name, None)
        self._runner = runner
        return result.result()

    def _wait(self, result: Future[T], seconds: float) -> bool:
        """Whether it ended in time."""
        until = time.monotonic() + seconds
        while not result.done() and (left := until - time.monotonic()) > 0:
            if self._ending():
                self._last = self._last or time.monotonic() + LAST
                until = min(until, self._last)
            wait([result], min(left, SLICE))
        return result.done()


class _Runner:
    """A thread that does one piece of work after the other: a scan has two for each source."""

    def __init__(self) -> None:
        self._work = SimpleQueue[Callable[[], None] | None]()
        self.thread = start_thread("work with a time limit", self._run)

    def begin(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def end(self) -> None:
        """After what it is at."""
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def _fill(result: Future[T], work: Callable[[], T]) -> None:
    """Do the work, and set its result or its error."""
    try:
        result.set_result(work())
    except BaseException as error:
        result.set_exception(error)


class _End(SystemExit):
    """Raised in a thread; one that gets it after its work ends in silence (threading.excepthook)."""


def _ask_to_end(thread: Thread) -> None:
    """Raise `_End` in it as soon as it is in Python code (Python/C API, PyThreadState_SetAsyncExc)."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_End))
