"""What worker and master say to each other over gRPC: `labeler.proto`, its values, its client and its server."""

from __future__ import annotations

import ipaddress

SERVICE = "labeler.Labeler"

RETRY_AFTER = "retry-after-ms"
"""Trailing metadata of a refusal: milliseconds to wait before the next try."""

LEADER = "nfd-leader"
"""Trailing metadata of a FAILED_PRECONDITION: `host:port` of the master that takes reports."""


def host_of(target: str) -> str:
    """The host in `host:port`, `[v6]:port` or `dns:///host:port`."""
    return target.rpartition("/")[2].rpartition(":")[0].strip("[]")


def is_loopback(host: str) -> bool:
    """Whether what is sent to that host stays on this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"
