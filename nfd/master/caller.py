"""Whether a caller may speak for a node: NFD's `-verify-node-name`, by the names in its client certificate."""

from __future__ import annotations

import ipaddress

from nfd.errors import ReportError
from nfd.rpc.server import Peer


async def verify_node_name(node: str, peer: Peer) -> None:
    """The certificate's common name is the node's, or one of its alternative names covers it.

    Without TLS nobody is anybody, and every call is refused, as in NFD. Raises: ReportError.
    """
    if not peer.common_name and not peer.alternative_names:
        raise _refusal("the caller shows no certificate, and -verify-node-name is set")
    if peer.common_name == node or any(covers(name, node) for name in peer.alternative_names):
        return
    shown = ", ".join(name for name in (peer.common_name, *peer.alternative_names) if name)
    raise _refusal(f"the caller's certificate is for {shown}, not for node {node}")


def covers(name: str, node: str) -> bool:
    """Host-name verification: DNS names without regard to case, `*` for one left-most label, addresses as such."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(node)
    except ValueError:
        pass
    pattern, wanted = name.lower().rstrip(".").split("."), node.lower().rstrip(".").split(".")
    if len(pattern) != len(wanted):
        return False
    return pattern == wanted or (pattern[0] == "*" and len(pattern) > 1 and pattern[1:] == wanted[1:])


def _refusal(reason: str) -> ReportError:
    return ReportError(reason, retry=False, code="PERMISSION_DENIED")
