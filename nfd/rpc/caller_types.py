"""Types of authentication: a peer, a caller and an authenticator. `nfd.master.security.authentication` decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer of a call: its address, its `authorization` header, and the names of its verified client certificate.

    `forwarded` is what the peer itself claims: that it is another master, which passes on a worker's call.
    """

    address: str = ""
    authorization: str = ""
    common_name: str = ""
    alternative_names: tuple[str, ...] = ()
    forwarded: bool = False

    @property
    def host(self) -> str:
        """The address without its port: gRPC writes `ipv4:10.1.2.3:4711` and `ipv6:%5Bfe80::1%25eth0%5D:4711`."""
        return unquote(self.address.partition(":")[2].rpartition(":")[0]).strip("[]")


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated peer.

    `name` is what its limits are counted under, "" where callers cannot be distinguished. `node` is the node it runs on
    and `node_uid` that Node's uid, "" where its credentials do not say. `pod` is its pod's uid, and `issued` the time
    at which its token was issued, in seconds since the epoch; "" and 0 where unknown.
    """

    peer: Peer
    name: str = ""
    node: str = ""
    node_uid: str = ""
    pod: str = ""
    issued: float = 0.0


class Authenticator(Protocol):
    """Decides who may report. A rejection is a ReportError with the reason."""

    async def identify(self, peer: Peer) -> Caller:
        """Authenticate the peer. Called before the report is read."""

    def admit(self, caller: Caller, node: str) -> None:
        """Check that the caller may report for the node. Called before features are parsed."""


class NoAuthentication:
    """Anyone may report for any node, as in NFD without TLS and `-verify-node-name`."""

    async def identify(self, peer: Peer) -> Caller:
        return Caller(peer)

    def admit(self, caller: Caller, node: str) -> None:
        return None
