"""What the flags of `flags` lead to: who may report, and the TLS of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nfd.config.flags import Parsed
from nfd.errors import ConfigError
from nfd.kube.client import KubeClient
from nfd.kube.reviews import TokenReviews
from nfd.master.security.authentication import AUDIENCE, CertificateAuthenticator, TokenAuthenticator
from nfd.master.security.flags import FILES
from nfd.rpc.caller import Authenticator, NoAuthentication
from nfd.rpc.tls import ServerTls, TlsFiles

LOOPBACK = "localhost"


async def _nothing() -> None:
    """Nothing to wait for."""


@dataclass(frozen=True, slots=True)
class Security:
    """What a master serves with. `listen` is the host to listen on, "" for all addresses.

    `prepare` has to end before reports can be taken, `finish` ends what it started.
    """

    gate: Authenticator = field(default_factory=NoAuthentication)
    tls: ServerTls | None = None
    listen: str = ""
    prepare: Callable[[], Awaitable[None]] = _nothing
    finish: Callable[[], Awaitable[None]] = _nothing


def make_security(parsed: Parsed, mode: str, client: KubeClient | None = None, namespace: str = "") -> Security:
    """The gate and TLS of a mode; mode `token` needs `client` and our `namespace`. Raises: ConfigError."""
    files = TlsFiles(*(parsed[name] for name in FILES)) if parsed["cert-file"] else None
    if mode != "token" or client is None:
        gate: Authenticator = CertificateAuthenticator(files) if parsed["verify-node-name"] else NoAuthentication()
        return Security(gate, files, "" if files or parsed["insecure"] else LOOPBACK)
    if not namespace:
        raise ConfigError("--namespace: not inside a pod, so say which namespace the master's own objects are in")
    accounts = (one if "/" in one else f"{namespace}/{one}" for one in parsed["worker-accounts"])
    gate = TokenAuthenticator(TokenReviews(client, AUDIENCE), tuple(accounts))
    if files is not None:
        return Security(gate, files)
    from nfd.master.security.rotation import Certificates

    service = parsed["service-name"]
    inside = f"{service}.{namespace}"
    names = (service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local", LOOPBACK)
    own = Certificates(client, namespace, parsed["certificate-objects"], names)
    return Security(gate, own, "", own.start, own.stop)
