"""How this process is called where others look for it: /proc/PID/cmdline and /proc/PID/comm.

NVIDIA's config-manager finds gpu-feature-discovery by its argv[0], which of a Python program is the interpreter.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

_PR_SET_NAME = 15
_ARG_START, _ARG_END = 47, 48
"""Places in /proc/PID/stat, counted from 0 (proc(5), "arg_start", "arg_end")."""


def rename_process(name: str) -> None:
    """Show `name` as argv[0], before the words of the command line, and as the name of the process.

    The kernel shows the memory in which it put argv at the start; Python has long made copies of it. Where the name
    does not fit, nothing is changed.
    """
    encoded = name.encode()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, encoded, 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[place - 2]) for place in (_ARG_START, _ARG_END))
    before = Path("/proc/self/cmdline").read_bytes()
    words = before.split(b"\0")
    at = next((index for index, word in enumerate(words) if word.rpartition(b"/")[2] == encoded), None)
    shown = b"\0".join([encoded, *words[at + 1 :]]) if at is not None else encoded + b"\0"
    size = end - start
    if not start or len(before) != size or len(shown) > size:
        return
    ctypes.memmove(start, shown.ljust(size, b"\0"), size)
