"""Whether a caller may speak for a node: by its service-account token, or by the names in its client certificate."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from time import monotonic

from nfd.errors import Forbidden, ReportError, Unavailable
from nfd.kube.reviews import TokenReviews
from nfd.rpc.caller import Caller, Peer
from nfd.rpc.tls import ServerTls, names_of
from nfd.runtime import log
from nfd.runtime.cache import Throttle

AUDIENCE = "nfd-master"
"""Audience of the tokens that workers show."""
RETRY = 5.0
"""Seconds after which a caller may try again whom the API server could not be asked about."""
LONGEST_NAME = 253


class CertificateAuthenticator:
    """NFD's `-verify-node-name`: the certificate's common name is the node's, or one of its other names covers it.

    Without TLS nobody is anybody, and every call is refused, as in NFD. A call that another master passes on has been
    looked at there: masters know each other by their certificates, which have the same names as `ours`.
    """

    def __init__(self, ours: ServerTls | None = None) -> None:
        self._ours = ours
        self._complaints = LoggedRejections()

    async def identify(self, peer: Peer) -> Caller:
        if not peer.common_name and not peer.alternative_names:
            reason = "the caller shows no certificate, and -verify-node-name is set"
            raise self._complaints.refusal(reason, "PERMISSION_DENIED", path=peer.host)
        if peer.forwarded and self._is_master(peer):
            return Caller(peer)
        shown = (peer.common_name or peer.alternative_names[0])[:LONGEST_NAME]
        return Caller(peer, f"{shown} at {peer.host}")  # nodes may share a certificate that names them all

    def admit(self, caller: Caller, node: str) -> None:
        peer = caller.peer
        if not caller.name or peer.common_name == node or any(covers(name, node) for name in peer.alternative_names):
            return
        shown = ", ".join(name for name in (peer.common_name, *peer.alternative_names) if name)
        reason = f"the caller's certificate is for {shown}, not for node {node}"
        raise self._complaints.refusal(reason, "PERMISSION_DENIED", node=node)

    def _is_master(self, peer: Peer) -> bool:
        try:
            common, alternative = names_of((self._ours.read().cert if self._ours is not None else None) or b"")
        except (OSError, ValueError):
            return False
        return peer.common_name == common and set(peer.alternative_names) == set(alternative)


class TokenAuthenticator:
    """The caller shows the token of a worker's pod, and the pod runs on the node that the report is for.

    `accounts` are the workers' service accounts, as NAMESPACE/NAME: any pod may ask its kubelet for a token with our
    audience, but only with its own account.
    """

    def __init__(self, tokens: TokenReviews, accounts: Collection[str]) -> None:
        self._tokens = tokens
        self._accounts = frozenset(accounts)
        self._complaints = LoggedRejections()

    async def identify(self, peer: Peer) -> Caller:
        scheme, _, token = peer.authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise self._complaints.refusal("the caller shows no token", "UNAUTHENTICATED", path=peer.host)
        try:
            pod = await self._tokens.review(token.strip(), peer.host)
        except Forbidden as error:
            raise self._complaints.refusal(str(error), "UNAUTHENTICATED", path=peer.host) from error
        except Unavailable as error:
            raise ReportError(str(error), retry=True, retry_after=error.retry_after or RETRY) from error
        if pod.account not in self._accounts:
            reason = f"the caller's token is that of service account {pod.account}, which is no worker's"
            raise self._complaints.refusal(reason, "PERMISSION_DENIED", path=peer.host)
        return Caller(peer, f"node {pod.node}", pod.node, pod.node_uid, pod.uid, pod.issued)

    def admit(self, caller: Caller, node: str) -> None:
        if node != caller.node:
            reason = f"the caller's token is that of a pod on node {caller.node}, and the report is for node {node}"
            raise self._complaints.refusal(reason, "PERMISSION_DENIED", node=node)


class LoggedRejections:
    """Makes refusals and logs them, the same one once a minute: a flood of them must not become one of the log."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._throttle = Throttle(now=now)
        self._log = log.get("master")

    def refusal(self, reason: str, code: str, *, node: str | None = None, path: str | None = None) -> ReportError:
        """`node` is whom the report is for; `path` the caller's address, while that is not known."""
        if self._throttle.is_due(node or path or "", reason):
            self._log.warning("report rejected", node=node, path=path, error=reason)
        return ReportError(reason, retry=code == "UNAUTHENTICATED", code=code)


def covers(name: str, node: str) -> bool:
    """Host-name verification: DNS names without regard to the case of ASCII letters, `*` for one left-most label,
    addresses as such (RFC 6125, 6.4). Nothing else is made equal: no other letters' cases, no dots at an end.
    """
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
