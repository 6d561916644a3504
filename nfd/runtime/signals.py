"""What signals ask of a program, from the first line of its `main` to the last.

* SIGTERM and SIGINT end it. As long as nothing has to be released, at once (`begin`). Then whoever waits is woken
  (`Signals`), finishes what is in progress, and the program ends with 0; what takes longer than GRACE is cut
  off.
* SIGHUP asks for a reload. One that comes before anybody can do that is kept.
* SIGUSR1 and SIGUSR2 are ignored: they end a program by default, but none that is written in Go, as NFD and GFD
  are (Go package os/signal).

The kernel's default would end a program that has only begun, too, but not the first one of a container (signal(7),
pid_namespaces(7)).
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from nfd.runtime import log
from nfd.runtime.garbage import loses_exceptions

GRACE = 15.0
"""Seconds from the signal to the end of the program, at most; a pod has 30 by default."""
AGAIN = 0.01
"""Seconds after which an interruption is tried again that Python would have ignored."""
KILLED = 128
"""Added to the signal's number in the exit status of a program that a signal ended."""

STOP = (signal.SIGTERM, signal.SIGINT)
_STRAY = (signal.SIGUSR1, signal.SIGUSR2)
_early: list[int] = []
"""A SIGHUP that was not handled yet."""
_log = log.get("signals")


def begin(stop: Sequence[int] = STOP) -> None:
    """For the first line of a program that these signals end."""
    for stray in _STRAY:
        signal.signal(stray, signal.SIG_IGN)
    for number in stop:
        signal.signal(number, _leave)
    signal.signal(signal.SIGHUP, _keep)


def _leave(number: int, frame: FrameType | None) -> None:
    """There is nothing to release, and an exception might come up in the middle of an import."""
    os._exit(KILLED + number)


def _keep(number: int, frame: FrameType | None) -> None:
    _early[:] = [number]


class Interrupted(KeyboardInterrupt):  # as which an event loop, too, lets it through
    """A signal that ends the program arrived inside `Signals.interruptible`."""


class Signals:
    """Installed for the life of the object; `close` brings back what was there before."""

    def __init__(self, stop: Sequence[int] = STOP) -> None:
        self.stop = False
        self.reload = bool(_early)
        self.at_stop: list[Callable[[], None]] = []
        """Called by the first signal that ends the program, in between whatever else runs: for what cannot wait until
        the work in progress is done."""
        _early.clear()
        self._interruptible = False
        self._deadline = 0.0
        """When the program is cut off; 0 while no signal has asked for its end."""
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before_fd = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        handlers = {**dict.fromkeys((*stop, signal.SIGHUP), self._handle), signal.SIGALRM: self._look}
        self._before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self._stop = tuple(stop)
        atexit.register(self._ignore_signals)

    def fileno(self) -> int:
        return self._pipe[0]

    def wait(self, seconds: float, *others: int) -> None:
        """Until a signal, or until one of the other descriptors is readable; that long at most."""
        arrival = select.poll()  # select(2) knows no descriptor above 1023
        for descriptor in (self._pipe[0], *others):
            arrival.register(descriptor, select.POLLIN)
        arrival.poll(max(0.0, seconds) * 1000)
        self.drain()

    def drain(self) -> None:
        """Make the descriptor unreadable again."""
        try:
            while os.read(self._pipe[0], 512):
                pass
        except BlockingIOError:
            return

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, a signal that ends the program raises Interrupted at once, out of a blocking call too."""
        self._interruptible = True
        try:
            if self.stop:
                raise Interrupted
            yield
        finally:
            self._interruptible = False
            self._arm()

    def close(self) -> None:
        atexit.unregister(self._ignore_signals)
        alarm = self._before.pop(signal.SIGALRM)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._deadline = 0.0
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.set_wakeup_fd(self._before_fd)
        for descriptor in self._pipe:
            os.close(descriptor)

    def _ignore_signals(self) -> None:
        """Ignore the signals: at its end Python restores the default handlers, and a second signal would then set the
        exit status."""
        if self.stop:
            for number in self._stop:
                signal.signal(number, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
            return
        if not self._deadline:
            self._deadline = time.monotonic() + GRACE
            self._arm()
            self.stop = True
            for call in self.at_stop:
                call()
        self._look(number, frame)

    def _arm(self, most: float = GRACE) -> None:
        """Look again after that many seconds, at the deadline at the latest."""
        if self._deadline:
            signal.setitimer(signal.ITIMER_REAL, max(min(most, self._deadline - time.monotonic()), 0.001))

    def _look(self, number: int, frame: FrameType | None) -> None:
        """After a signal, and at the deadline: interrupt what may be interrupted, or cut it off."""
        if not self._deadline:
            return
        if time.monotonic() >= self._deadline:
            _cut_off()
        if not self._interruptible:
            self._arm()
        elif loses_exceptions(frame):
            self._arm(AGAIN)
        else:
            self._interruptible = False
            self._arm()
            raise Interrupted


def _cut_off() -> None:
    """End the program at once. If logging blocks, the next alarm ends it."""
    signal.signal(signal.SIGALRM, lambda number, frame: os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    with suppress(Exception):
        _log.error("stopped: the program did not end in time", seconds=GRACE)
    os._exit(1)
