"""Whether a port is free, and how many connections it may have.

gRPC is content with one of a host's addresses, and reports others in a log of its own; and it takes connections
until no descriptor is left for anything else.
"""

from __future__ import annotations

import errno
import resource
import socket
import sys
from contextlib import suppress
from typing import Any

CONNECTIONS = 8_192
"""54 KiB each with TLS."""
SPARE = 384
"""Descriptors for HTTP, the API server, the store and the rest."""


def descriptors() -> int:
    """The limit of open file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_descriptors() -> None:
    """Raise the limit of open files to what all connections need, as far as permitted: many systems give 1,024 and let
    a program take more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + SPARE
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if most > descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def connections() -> int:
    """How many gRPC may take."""
    limit = descriptors()
    return min(CONNECTIONS, max(limit - SPARE, limit // 4))


def check_free(address: str) -> None:
    """Raises: OSError if somebody listens on that port of one of the host's addresses. Port 0 is always free."""
    host, _, port = address.rpartition(":")
    with suppress(socket.gaierror):  # gRPC says it
        for family, kind, _, _, place in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
            if _bind(family, kind, place) == errno.EADDRINUSE:
                raise OSError(f"cannot listen on {address}: the port is in use")


def _bind(family: int, kind: int, place: Any) -> int:
    """The number of the error that it ends with; `::` stands for the addresses of IPv4 too."""
    try:
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            probe.bind(place)
    except OSError as error:
        return error.errno or 0
    return 0
