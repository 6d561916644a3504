"""What has to be so before anybody looks at this process: its name.

NVIDIA's config-manager finds gpu-feature-discovery by its argv[0], which of a Python program is the interpreter.
"""

from __future__ import annotations

import ctypes
import signal
from pathlib import Path

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
"""Signals that end the program, as upstream's."""

_PR_SET_NAME = 15
_ARG_START, _ARG_END = 47, 48
"""Places in /proc/PID/stat, counted from 0 (proc(5), "arg_start", "arg_end")."""
_AFTER_NAME = 2
"""The place of the first one after the name, which may hold blanks."""


def rename_process(name: str) -> None:
    """Show `name` as argv[0], before the words of the command line, and as the name of the process.

    The kernel shows the memory in which it put argv at the start; Python has long made copies of it. Where the name
    does not fit, or /proc is not there, nothing is changed.
    """
    encoded = name.encode()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, encoded, 0, 0, 0)
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        before = Path("/proc/self/cmdline").read_bytes()
    except OSError:
        return
    start, end = (int(fields[place - _AFTER_NAME]) for place in (_ARG_START, _ARG_END))
    shown = renamed(before, encoded)
    if start and len(before) == end - start and len(shown) <= len(before):
        ctypes.memmove(start, shown.ljust(len(before), b"\0"), len(before))


def renamed(command_line: bytes, name: bytes) -> bytes:
    """A command line, words ended by NULs, that began with an interpreter and the path of a program of that name."""
    words = command_line.split(b"\0")
    at = next((index for index, word in enumerate(words) if word.rpartition(b"/")[2] == name), None)
    return b"\0".join([name, *words[at + 1 :]]) if at is not None else name + b"\0"
