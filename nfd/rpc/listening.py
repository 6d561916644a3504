"""Whether a port is free: gRPC is content with one of a host's addresses, and tells of others in a log of its own."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress
from typing import Any


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
