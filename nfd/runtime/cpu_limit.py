"""Ends a computation of the main thread that does not end by itself: it fails as by any other exception.

The computation gets `Endless` inside, so whoever handles the exceptions of a node, a rule or a request handles this one
too, and the rest continues. CPU time of the thread counts. A busy machine, a call that waits, other threads, an import
and a single long call of C code do not use it up. C code that never returns cannot be ended.

A timer of the process's CPU time looks at what the main thread is doing (setitimer(2), ITIMER_PROF). A program that has
nothing to do is not woken.
"""

from __future__ import annotations

import signal
import time
from types import FrameType, FunctionType

from nfd.errors import Endless
from nfd.runtime.garbage import loses_exceptions

LOOKS = 20
"""How often the main thread is looked at within the time limit."""
PROJECT = __name__.partition(".")[0]
UNSAFE = ("asyncio", "logging", "threading", "nfd.runtime.signals")
"""Packages that an exception from outside may leave in a state that others depend on."""
IMPORT = "importlib._bootstrap"
"""What imports a module: half a module would stay."""


class CpuLimit:
    """Inside `with`, in the main thread: no call of the function `piece` takes longer than `seconds` of CPU time."""

    def __init__(self, piece: FunctionType, seconds: float) -> None:
        self._code = piece.__code__
        self._seconds = seconds
        self._interval = seconds / LOOKS
        self._call: FrameType | None = None
        """The call that the last look has found."""
        self._spent = 0.0
        self._seen = 0.0

    def __enter__(self) -> None:
        self._seen = time.thread_time()
        signal.signal(signal.SIGPROF, self._look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, self._interval, self._interval)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # by default a late one would end the process
        self._call = None

    def _look(self, number: int, frame: FrameType | None) -> None:
        """Raises: Endless, in what is running. Between two looks one interval counts at most: the rest was C code."""
        now = time.thread_time()
        used, self._seen = min(now - self._seen, self._interval), now
        call = self._call_of(frame)
        if call is None or call is not self._call:
            self._call, self._spent = call, 0.0
            return
        self._spent += used
        if self._spent >= self._seconds and _may_be_ended(frame):
            self._call = None  # what goes on in the same call has all its time again
            raise Endless(self._seconds)

    def _call_of(self, frame: FrameType | None) -> FrameType | None:
        """The call that is running; None during an import, which takes its time once."""
        while frame is not None and frame.f_code is not self._code:
            if _module_of(frame) == IMPORT:
                return None
            frame = frame.f_back
        return frame


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _may_be_ended(frame: FrameType | None) -> bool:
    """Whether code of this project is running, or what it has called, but nothing that must not be interrupted."""
    if loses_exceptions(frame):
        return False
    while frame is not None:
        name = _module_of(frame)
        if any(name == one or name.startswith(f"{one}.") for one in UNSAFE):
            return False
        if name.partition(".")[0] == PROJECT:
            return True
        frame = frame.f_back
    return False
