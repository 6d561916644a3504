"""Makes the authenticator and TLS that `flags` select."""

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
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Security:
    """How a master serves. `listen` is the host to listen on, "" for all addresses.

    `prepare` must end before reports can be accepted; `finish` stops what it started.
    """

    authenticator: Authenticator = field(default_factory=NoAuthentication)
    tls: ServerTls | None = None
    listen: str = ""
    prepare: Callable[[], Awaitable[None]] = _nothing
    finish: Callable[[], Awaitable[None]] = _nothing


def make_security(parsed: Parsed, mode: str, client: KubeClient | None = None, namespace: str = "") -> Security:
    """The authenticator and TLS of a mode; mode `token` needs `client` and the own `namespace`. Raises: ConfigError."""
    files = TlsFiles(*(parsed[name] for name in FILES)) if parsed["cert-file"] else None
    if mode != "token" or client is None:
        authenticator: Authenticator = (
            CertificateAuthenticator(files) if parsed["verify-node-name"] else NoAuthentication()
        )
        return Security(authenticator, files, "" if files or parsed["insecure"] else LOOPBACK)
    if not namespace:
        raise ConfigError("--namespace is required outside a pod: it is the namespace of the master's own objects")
    accounts = (one if "/" in one else f"{namespace}/{one}" for one in parsed["worker-accounts"])
    authenticator = TokenAuthenticator(TokenReviews(client, AUDIENCE), tuple(accounts))
    if files is not None:
        return Security(authenticator, files)
    from nfd.master.security.rotation import Certificates

    service = parsed["service-name"]
    inside = f"{service}.{namespace}"
    names = (service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local", LOOPBACK)
    own = Certificates(client, namespace, parsed["certificate-objects"], names)
    return Security(authenticator, own, "", own.start, own.stop)
