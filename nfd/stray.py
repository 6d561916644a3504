"""Signals that mean nothing to our programs."""

from __future__ import annotations

import signal

STRAY = (signal.SIGUSR1, signal.SIGUSR2)
"""They end a program by default, but none that is written in Go, as NFD and GFD are (Go package os/signal)."""


def ignore_stray() -> None:
    """For programs, at their start: nobody who sends one of these wants their end."""
    for number in STRAY:
        signal.signal(number, signal.SIG_IGN)
