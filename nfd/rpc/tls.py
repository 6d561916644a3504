"""TLS credentials: from PEM files, as NFD's `-ca-file`, `-cert-file` and `-key-file` name them, or from memory.

grpcio has no setting for a minimum version: it negotiates TLS 1.3 and also accepts 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import grpc

from nfd.config.named_files import read_bytes
from nfd.runtime import log


@dataclass(frozen=True, slots=True)
class Pem:
    """The certificates of one side, and those it trusts; None for what is not used.

    `masters_ca` is the CA that a server verifies other masters with, where it differs from `ca`.
    """

    ca: bytes | None = None
    cert: bytes | None = None
    key: bytes | None = None
    masters_ca: bytes | None = None


class Names(NamedTuple):
    """The names in a certificate: its common name, and the alternative names as gRPC spells them."""

    common: str
    alternative: tuple[str, ...]


class ServerTls(Protocol):
    """Source of a server's credentials. gRPC's threads call `read` at every handshake."""

    def read(self) -> Pem:
        """The current PEM data. With a `ca`, clients must present a certificate. Raises: OSError."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With all three, both sides verify each other. A client needs `ca` alone, a server the other two."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def read(self) -> Pem:
        """Raises: OSError, also for an empty file."""
        return Pem(*(_read(path) if path else None for path in (self.ca, self.cert, self.key)))


def server_credentials(tls: ServerTls) -> Any:
    """Credentials that are read again for each new connection. Raises: OSError if they cannot be read.

    If new ones cannot be read, the error is logged and the previous ones stay in use.
    """
    fetcher = _Fetcher(tls)
    first = fetcher.load()
    return grpc.dynamic_ssl_server_credentials(
        first, fetcher, require_client_authentication=fetcher.seen.ca is not None
    )


class _Fetcher:
    """Called at every handshake; returns a new configuration, or None if nothing changed."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self.seen = Pem()

    def load(self) -> Any:
        seen = self._tls.read()
        if seen == self.seen:
            return None
        self.seen = seen
        return grpc.ssl_server_certificate_configuration(((seen.key, seen.cert),), seen.ca)

    def __call__(self) -> Any:
        try:
            return self.load()
        except OSError as error:
            log.get("rpc").error("cannot read TLS files; the previous ones stay in use", error=error)
            return None


def names_of(certificate: bytes) -> Names:
    """The names in the first certificate of a PEM file. Raises: ValueError."""
    from cryptography import x509  # only a master with TLS needs it
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificate(certificate)
        common = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Names(str(common[0].value) if common else "", ())
    except (x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise ValueError(str(error)) from error  # these are not ValueErrors
    kinds = (x509.DNSName, x509.IPAddress, x509.UniformResourceIdentifier, x509.RFC822Name)
    found_names = tuple(str(name.value) for name in names if isinstance(name, kinds))
    return Names(str(common[0].value) if common else "", found_names)


def _read(path: str) -> bytes:
    content = read_bytes(path)
    if not content.strip():
        raise OSError(f"{path} is empty")
    return content
