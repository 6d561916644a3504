"""What keeps a worker small: a process on every node, so each MiB counts as often as there are nodes."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OPENSSL = ("_ssl", "_hashlib")
"""hashlib, hmac and asyncio load OpenSSL on sight, 4 MiB. A worker needs none of it: grpcio brings its own TLS, and
hashlib has its algorithms without OpenSSL too."""


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


def release() -> None:
    """Give freed memory back to the kernel, 2 MiB after a first pass: malloc_trim(3), where the C library has it."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
