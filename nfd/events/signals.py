"""SIGTERM and SIGINT end the program, SIGHUP asks for a reload; each also wakes whoever waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOP = (signal.SIGTERM, signal.SIGINT)
_ALL = (*_STOP, signal.SIGHUP)


class Interrupted(BaseException):  # like KeyboardInterrupt: not an error
    """A signal that ends the program arrived inside `Signals.interruptible`."""


class Signals:
    """Installed for the life of the object; `close` brings back what was there before."""

    def __init__(self) -> None:
        self.stop = False
        self.reload = False
        self._interruptible = False
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before_fd = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._handle) for number in _ALL}

    def fileno(self) -> int:
        return self._pipe[0]

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

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._before_fd)
        for descriptor in self._pipe:
            os.close(descriptor)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self.reload = True
            return
        self.stop = True
        if self._interruptible:
            self._interruptible = False
            raise Interrupted
