"""The gRPC API between worker and master: `labeler.proto`, its values, its client and its server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

SERVICE = "labeler.Labeler"

RETRY_AFTER = "retry-after-ms"
"""Trailing metadata of a rejected call: milliseconds to wait before the next try."""

LONGEST_WAIT = 9
"""The most digits of RETRY_AFTER."""

LEADER = "nfd-leader"
"""Trailing metadata of a FAILED_PRECONDITION: `host:port` of the master that takes reports."""


def seconds_to_wait(trailers: Mapping[str, object]) -> float | None:
    """Seconds of RETRY_AFTER in the trailers of a rejected call; None if absent or invalid."""
    wait = trailers.get(RETRY_AFTER, "")
    if not isinstance(wait, str) or not wait.isascii() or not wait.isdecimal() or len(wait) > LONGEST_WAIT:
        return None
    return int(wait) / 1000


def host_of(target: str) -> str:
    """The host in `host:port`, `[v6]:port` or `dns:///host:port`."""
    return target.rpartition("/")[2].rpartition(":")[0].strip("[]")


def port_problem(target: str) -> str | None:
    """What is wrong with the port of a target. gRPC would truncate a number that is too large and dial that port."""
    port = target.rpartition("/")[2].rpartition(":")[2]
    if target.startswith(("unix:", "unix-abstract:", "vsock:")) or not port.isdecimal() or 0 < int(port[:9]) < 1 << 16:
        return None
    return f"port {port} is not one of 1 to 65535"


def is_loopback(host: str) -> bool:
    """Whether what is sent to that host stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
