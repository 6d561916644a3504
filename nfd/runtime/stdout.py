"""Standard output of the programs: answers, objects and labels; logs and errors go to standard error."""

from __future__ import annotations

import errno
import os
import sys

from nfd.errors import HostError

NAME = "standard output"


def say(text: str) -> None:
    """Write a text and its line end; a closed reader is not an error. Raises: HostError."""
    try:
        write(f"{text}\n")
    except HostError as error:
        if error.errno != errno.EPIPE:
            raise


def write(text: str) -> None:
    """Write a text at once. Raises: HostError, with EPIPE if the reader is closed."""
    if sys.stdout is None:
        raise HostError(NAME, "is closed", errno.EBADF)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer fails no more
        raise HostError(NAME, error.strerror or str(error), error.errno) from error
