"""Who is calling and for which node: what the server asks before it reads, and again before it parses, a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is calling: its address, its `authorization` header, and the names of its verified client certificate.

    `forwarded` is what it says itself: that another master has taken this call and passes it on.
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
    """A peer that may call.

    `name` is what its limits are counted under, "" where callers cannot be distinguished. `node` is the node it runs
    on and `node_uid` that Node's uid, "" where its credentials do not tell. `pod` is its pod's uid, and `issued` when
    its token was made, in seconds since the epoch; "" and 0 where that is not known.
    """

    peer: Peer
    name: str = ""
    node: str = ""
    node_uid: str = ""
    pod: str = ""
    issued: float = 0.0


class Authenticator(Protocol):
    """Decides who may report; a ReportError says why not."""

    async def identify(self, peer: Peer) -> Caller:
        """Who that is, before a byte of the report is read."""

    def admit(self, caller: Caller, node: str) -> None:
        """Whether it may speak for the node, before any feature is parsed."""


class NoAuthentication:
    """Anyone may report for any node, as in NFD without TLS and `-verify-node-name`."""

    async def identify(self, peer: Peer) -> Caller:
        return Caller(peer)

    def admit(self, caller: Caller, node: str) -> None:
        return None
