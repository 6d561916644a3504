"""What keeps processes small: memory that was freed, or that can be read again, goes back to the kernel."""

from __future__ import annotations

import ctypes
import gc
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPENSSL = ("_ssl", "_hashlib")
"""hashlib, hmac and asyncio load OpenSSL on sight, 4 MiB. A worker needs none of it: grpcio brings its own TLS, and
hashlib has its algorithms without OpenSSL too."""

_DONT_NEED = 4
_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) r-[-x]p \S+ \S+ (?P<inode>\d+)|[0-9a-f]+-")
"""A line of smaps that begins a mapping; the groups are filled for a private one that cannot be written."""


@contextmanager
def absent(*modules: str) -> Iterator[None]:
    """Importing one of the modules that are not loaded yet raises ImportError, as if they were not installed."""
    hidden = [name for name in modules if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python spells it
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)


def trim_heap() -> None:
    """Give memory that was freed back to the kernel (malloc_trim(3), of the GNU C library)."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def release() -> None:
    """Give back to the kernel what a worker's first pass needed and later ones do not, 14 MiB in all."""
    gc.collect()
    trim_heap()
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "madvise"):
        advise = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(("madvise", libc))
        for start, size in unchanged():
            advise(start, size, _DONT_NEED)


def unchanged() -> Iterator[tuple[int, int]]:
    """Address and size of what is mapped from programs and libraries, cannot be written, and is as the file has it.

    Letting go of it takes nothing away: the pages stay in the kernel's cache, and those that are used again are mapped
    again (madvise(2), MADV_DONTNEED).

    Reads: /proc/self/smaps (proc_pid_smaps(5)).
    """
    try:
        text = Path("/proc/self/smaps").read_text(errors="replace")
    except OSError:
        return
    start = size = 0
    for line in text.splitlines():
        if found := _MAPPING.match(line):
            of_file = found["inode"] not in (None, "0")
            start = int(found["start"], 16) if of_file else 0
            size = int(found["end"], 16) - start if of_file else 0
        elif size and line.startswith("Anonymous:") and line.split()[1] == "0":
            yield start, size
