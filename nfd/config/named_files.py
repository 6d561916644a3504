"""Reads files named by a user, completely, but none that is endless or would block."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nfd.config.yamltext import MAX_BYTES
from nfd.errors import ConfigError

PATIENCE = 3.0
"""Seconds to wait until a pipe has a writer."""
_NULL_DEVICE = os.makedev(1, 3)
"""/dev/null (Linux allocated devices, Documentation/admin-guide/devices.txt)."""


def read_bytes(path: str | Path, *, pipes: bool = False) -> bytes:
    """The bytes of a regular file of at most 1 MiB; /dev/null is empty.

    With `pipes` also the data of a pipe, to its end: for commands, never for a daemon. Raises: OSError, also for other
    kinds of files and for a pipe without a writer.
    """
    with _opened(path, pipes=pipes) as descriptor:
        data = _begin(descriptor, path) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        while len(data) <= MAX_BYTES and (part := os.read(descriptor, MAX_BYTES + 1 - len(data))):
            data += part
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"is larger than {MAX_BYTES // 1024} KiB", str(path))
    return data


def is_blank(data: bytes) -> bool:
    """Whether a file has only white space; a comment or `{}` counts as content."""
    return not data.removeprefix(BOM_UTF8).strip()


def read_standard_input() -> bytes:
    """At most 1 MiB. Raises: ConfigError."""
    if sys.stdin is None:  # the parent process closed it
        raise ConfigError("standard input: is closed")
    data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"standard input: is larger than {MAX_BYTES // 1024} KiB")
    return data


def check_file(path: str | Path, *, pipes: bool = False) -> None:
    """Raises: OSError for a file that cannot be read, or not at once."""
    with _opened(path, pipes=pipes):
        pass


@contextmanager
def _opened(path: str | Path, *, pipes: bool = False) -> Iterator[int]:
    """A descriptor of a file that can be read at once; a pipe's does not wait. Raises: OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    except ValueError as error:  # a null byte
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    try:
        if not _is_readable(os.fstat(descriptor), pipes):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def _is_readable(status: os.stat_result, pipes: bool) -> bool:
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL_DEVICE
    return is_null or stat.S_ISREG(status.st_mode) or (pipes and stat.S_ISFIFO(status.st_mode))


def _begin(descriptor: int, path: str | Path) -> bytes:
    """The first data of a pipe. Raises: OSError if it has no writer.

    poll(2) reports data, and writers that have closed it; a read of an empty pipe says whether there are any.
    """
    look = select.poll()
    look.register(descriptor, select.POLLIN)
    data = b""
    if not look.poll(PATIENCE * 1000):
        with suppress(BlockingIOError):
            data = os.read(descriptor, 1)
            if not data:
                raise OSError(errno.EPIPE, "is a pipe without a writer", str(path))
    os.set_blocking(descriptor, True)
    return data
