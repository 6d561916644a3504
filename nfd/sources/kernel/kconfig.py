"""The kernel's configuration: where it may lie, and what is in it."""

from __future__ import annotations

import errno
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping

from nfd.errors import HostError
from nfd.host import DENIED, MAX_FILE, Host

PREFIX = "CONFIG_"
PASSING = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)
"""Errors that may be gone next time: to go on to another place would exchange one configuration for another."""


def read(host: Host, first: str, release: str | None) -> Mapping[str, str] | None:
    """Options of the first readable file; None if there is no such file.

    Raises: HostError if none is readable and one is there and damaged, or at an error that may pass. A place that this
    process may not look into is skipped with a note.
    """
    broken: HostError | None = None
    for path in places(first, release):
        try:
            options = _read_file(host, path)
        except HostError as error:
            if error.errno in PASSING:
                raise
            host.note(error.path, error.reason)
            broken = broken or (None if error.errno in DENIED else error)
            continue
        if options is not None:
            return options
    if broken is not None:
        raise broken
    return None


def places(first: str, release: str | None) -> Iterator[str]:
    """Paths in the order in which NFD looks; those that need the release only if it is known."""
    if first:
        yield first.lstrip("/")
    yield "proc/config.gz"
    if release:
        yield f"usr/src/linux-{release}/.config"
        yield f"usr/src/linux-rt-{release}/.config"
    yield "usr/src/linux/.config"
    if release:
        yield f"usr/lib/modules/{release}/config"
        yield f"usr/lib/ostree-boot/config-{release}"
        yield f"usr/lib/kernel/config-{release}"
        yield f"usr/src/linux-headers-{release}/.config"
        yield f"lib/modules/{release}/build/.config"
        yield f"usr/src/linux-rt-headers-{release}/.config"
        yield f"boot/config-{release}"


def _read_file(host: Host, path: str) -> Mapping[str, str] | None:
    parse: Callable[[bytes], Mapping[str, str]] = parse_compressed if path.endswith(".gz") else parse_options
    try:
        return host.parsed(path, parse)
    except ValueError as error:
        raise HostError(path, str(error)) from error


def parse_compressed(data: bytes) -> Mapping[str, str]:
    """Options of a gzip file; raises ValueError if it is damaged, cut off, or too large unpacked."""
    if not data:
        raise ValueError("is an empty gzip file")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(MAX_FILE + 1)
    except EOFError as error:
        raise ValueError("is a gzip file that was cut off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"is not a gzip file: {error}") from error
    if len(text) > MAX_FILE:
        raise ValueError(f"is larger than {MAX_FILE} bytes when unpacked")
    return parse_options(text)


def parse_options(data: bytes) -> Mapping[str, str]:
    """Options that are set, without `CONFIG_`, and their values without quotes around; `is not set` gives nothing.

    The later of two equal names wins.
    """
    options: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").split("\n"):
        name, equals, value = line.partition("=")
        if equals and name.startswith(PREFIX):
            options[name.removeprefix(PREFIX)] = value.removesuffix("\r").strip('"')
    return options
