"""Authenticates callers, by service-account token or by the names in a client certificate.

A caller that reports for another node than its own is rejected.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from time import monotonic

from nfd.errors import Forbidden, ReportError, Unavailable
from nfd.kube.token_reviews import Pod, TokenReviews
from nfd.rpc.caller_types import Caller, Peer
from nfd.rpc.tls import ServerTls, names_of
from nfd.runtime import log
from nfd.runtime.cache import Throttle

AUDIENCE = "nfd-master"
"""Audience of the workers' tokens."""
MASTERS_AUDIENCE = "nfd-master-replication"
"""Audience of the masters' tokens for each other."""
RETRY = 5.0
"""Seconds after which a caller may try again if the API server could not be asked."""
LONGEST_NAME = 253


class CertificateAuthenticator:
    """NFD's `-verify-node-name`: the common name of the certificate is the node's, or an alternative name covers it.

    Without TLS every call is rejected, as in NFD. A call that another master forwards was checked there. Masters
    recognise each other by their certificates, which have the same names as that of `own_tls`.
    """

    def __init__(self, own_tls: ServerTls | None = None) -> None:
        self._own_tls = own_tls
        self._rejections = LoggedRejections()

    async def identify(self, peer: Peer) -> Caller:
        if not peer.common_name and not peer.alternative_names:
            reason = "the caller has no certificate, but -verify-node-name is set"
            raise self._rejections.make(reason, "PERMISSION_DENIED", address=peer.host)
        if peer.forwarded and self._is_master(peer):
            return Caller(peer)
        shown = (peer.common_name or peer.alternative_names[0])[:LONGEST_NAME]
        return Caller(peer, f"{shown} at {peer.host}")  # several nodes may share a certificate with all their names

    def admit(self, caller: Caller, node: str) -> None:
        peer = caller.peer
        if not caller.name or peer.common_name == node or any(covers(name, node) for name in peer.alternative_names):
            return
        shown = ", ".join(name for name in (peer.common_name, *peer.alternative_names) if name)
        reason = f"the caller's certificate is for {shown}, not for node {node}"
        raise self._rejections.make(reason, "PERMISSION_DENIED", node=node)

    def _is_master(self, peer: Peer) -> bool:
        try:
            common, alternative = names_of((self._own_tls.read().cert if self._own_tls is not None else None) or b"")
        except (OSError, ValueError):
            return False
        return peer.common_name == common and set(peer.alternative_names) == set(alternative)


class TokenAuthenticator:
    """The caller has the token of a worker's pod, and that pod runs on the node of the report.

    `accounts` are the workers' service accounts, as NAMESPACE/NAME: any pod may get a token for this audience, but only
    for its own account.
    """

    def __init__(self, tokens: TokenReviews, accounts: Collection[str]) -> None:
        self._tokens = tokens
        self._accounts = frozenset(accounts)
        self._rejections = LoggedRejections()

    async def identify(self, peer: Peer) -> Caller:
        pod = await review(self._tokens, peer, self._rejections)
        if pod.account not in self._accounts:
            reason = f"the caller's token is of service account {pod.account}, which is not one of the workers"
            raise self._rejections.make(reason, "PERMISSION_DENIED", address=peer.host)
        return Caller(peer, f"node {pod.node}", pod.node, pod.node_uid, pod.uid, pod.issued)

    def admit(self, caller: Caller, node: str) -> None:
        if node != caller.node:
            reason = f"the caller's token is of a pod on node {caller.node}, but the report is for node {node}"
            raise self._rejections.make(reason, "PERMISSION_DENIED", node=node)


class MasterAuthenticator:
    """The caller has the token of a master's pod, which the kubelet has made for `MASTERS_AUDIENCE` alone.

    `account` is the masters' service account, as NAMESPACE/NAME.
    """

    def __init__(self, tokens: TokenReviews, account: str) -> None:
        self._tokens = tokens
        self._account = account
        self._rejections = LoggedRejections(event="master rejected")

    async def identify(self, peer: Peer) -> str:
        """The uid of the calling master's pod. Raises: ReportError."""
        pod = await review(self._tokens, peer, self._rejections)
        if pod.account != self._account:
            reason = f"the caller's token is of service account {pod.account}, which is not that of the masters"
            raise self._rejections.make(reason, "PERMISSION_DENIED", address=peer.host)
        return pod.uid


async def review(tokens: TokenReviews, peer: Peer, rejections: LoggedRejections) -> Pod:
    """The pod that the caller's token is of. Raises: ReportError."""
    try:
        return await tokens.review(bearer(peer), peer.host)
    except Forbidden as error:
        raise rejections.make(str(error), "UNAUTHENTICATED", address=peer.host) from error
    except Unavailable as error:
        raise ReportError(str(error), retry=True, retry_after=error.retry_after or RETRY) from error


def bearer(peer: Peer) -> str:
    """The caller's token. Raises: Forbidden without one."""
    scheme, _, token = peer.authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Forbidden("the caller has no token")
    return token.strip()


class LoggedRejections:
    """Makes rejections and logs them, equal ones once a minute, so that a flood of calls does not flood the log."""

    def __init__(self, now: Callable[[], float] = monotonic, event: str = "report rejected") -> None:
        self._event = event
        self._throttle = Throttle(now=now)
        self._log = log.get("master")

    def make(self, reason: str, code: str, *, node: str | None = None, address: str | None = None) -> ReportError:
        """`node` is the node of the report, `address` the caller's, while the node is not known."""
        if self._throttle.is_due(node or address or "", reason):
            self._log.warning(self._event, node=node, address=address, error=reason)
        return ReportError(reason, retry=code == "UNAUTHENTICATED", code=code)


def covers(name: str, node: str) -> bool:
    """Host-name verification: DNS names are compared without regard to the case of ASCII letters, `*` stands for one
    left-most label, addresses are compared as such (RFC 6125, 6.4). Nothing else is normalised."""
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(node)
    except ValueError:
        pass
    if not (name.isascii() and node.isascii()):
        return False
    pattern, wanted = name.lower().split("."), node.lower().split(".")
    if len(pattern) != len(wanted) or not all(wanted):
        return False
    return pattern == wanted or (pattern[0] == "*" and len(pattern) > 1 and pattern[1:] == wanted[1:])
