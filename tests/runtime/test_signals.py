"""A signal interrupts what is running, whatever that is."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from nfd.runtime.signals import GRACE, Interrupted, Signals
from tests.runtime.collection import collect


def in_a_callback() -> None:
    """A signal during garbage collection, in one of its callbacks."""
    collect(in_a_call)


def in_a_finalizer() -> None:
    class Ends:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    Ends()


def in_a_call() -> None:
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.parametrize("work", [in_a_call, in_a_callback, in_a_finalizer])
def test_no_interruption_is_lost(signals: Signals, work: Callable[[], None]) -> None:
    """Python ignores an exception that a callback of the garbage collector or a finalizer raises."""

    def interrupted() -> None:
        with signals.interruptible():
            work()
            time.sleep(2.0)  # which the interruption cuts short

    began = time.monotonic()
    with pytest.raises(Interrupted):
        interrupted()
    assert time.monotonic() - began < 1
    assert signals.stop
    assert GRACE - 2 < signal.getitimer(signal.ITIMER_REAL)[0] <= GRACE
