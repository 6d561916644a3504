"""Makes the authenticator and TLS that `flags` select."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from nfd.config.flags import Parsed
from nfd.config.named_files import read_bytes
from nfd.errors import ConfigError, said
from nfd.kube import jwt
from nfd.kube.client import KubeClient
from nfd.kube.token_reviews import TokenReviews, account_of
from nfd.master.reports.receive_copies import MasterCredentials
from nfd.master.security.authentication import (
    AUDIENCE,
    MASTERS_AUDIENCE,
    CertificateAuthenticator,
    MasterAuthenticator,
    TokenAuthenticator,
)
from nfd.master.security.flags import FILES
from nfd.rpc.caller_types import Authenticator, NoAuthentication
from nfd.rpc.tls import ServerTls, TlsFiles

LOOPBACK = "localhost"


async def _nothing() -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Security:
    """How a master serves. `listen` is the host to listen on, "" for all addresses.

    `prepare` must end before reports can be accepted; `finish` stops what it started. `masters` is for several masters
    that share their reports.
    """

    authenticator: Authenticator = field(default_factory=NoAuthentication)
    tls: ServerTls | None = None
    listen: str = ""
    prepare: Callable[[], Awaitable[None]] = _nothing
    finish: Callable[[], Awaitable[None]] = _nothing
    masters: MasterCredentials | None = None


def make_security(parsed: Parsed, mode: str, client: KubeClient | None = None, namespace: str = "") -> Security:
    """The authenticator and TLS of a mode; mode `token` needs `client` and the own `namespace`. Raises: ConfigError."""
    files = TlsFiles(*(parsed[name] for name in FILES)) if parsed["cert-file"] else None
    accounts = tuple(one if "/" in one else f"{namespace}/{one}" for one in parsed["worker-accounts"])
    masters = make_master_credentials(parsed, client, accounts) if mode != "none" and client is not None else None
    if mode != "token" or client is None:
        authenticator: Authenticator = (
            CertificateAuthenticator(files) if parsed["verify-node-name"] else NoAuthentication()
        )
        return Security(authenticator, files, "" if files or parsed["insecure"] else LOOPBACK, masters=masters)
    if not namespace:
        raise ConfigError("--namespace is required outside a pod: it is the namespace of the master's own objects")
    authenticator = TokenAuthenticator(TokenReviews(client, AUDIENCE), accounts)
    if files is not None:
        return Security(authenticator, files, masters=masters)
    from nfd.master.security.certificates import Certificates

    service = parsed["service-name"]
    inside = f"{service}.{namespace}"
    names = (service, inside, f"{inside}.svc", f"{inside}.svc.cluster.local", LOOPBACK)
    own = Certificates(client, namespace, parsed["certificate-objects"], names)
    return Security(authenticator, own, "", own.start, own.stop, masters)


def make_master_credentials(
    parsed: Parsed, client: KubeClient, worker_accounts: Collection[str]
) -> MasterCredentials | None:
    """How masters recognise each other; None without a token for that. Raises: ConfigError.

    The service account of all masters is that of this one's token. A worker with that account could read all reports.
    """
    path = str(parsed["replication-token-file"])
    if not path:
        return None
    try:
        token = jwt.parse(read_bytes(path).decode("ascii").strip())
    except (OSError, ValueError) as error:
        raise ConfigError(f"--replication-token-file: {said(error)}") from error
    audience = token.claims.get("aud") if token is not None else None
    if token is None or audience not in (MASTERS_AUDIENCE, [MASTERS_AUDIENCE]):
        raise ConfigError(
            f"--replication-token-file: {path} is not a service-account token for the audience {MASTERS_AUDIENCE} alone"
        )
    account = "/".join(account_of(str(token.claims.get("sub", ""))))
    if account in worker_accounts:
        raise ConfigError(
            f"--worker-accounts: {account} is also the master's service account; the workers need one of their own"
        )
    return MasterCredentials(MasterAuthenticator(TokenReviews(client, MASTERS_AUDIENCE), account), path)
