"""TLS credentials from three files, as NFD's `-ca-file`, `-cert-file` and `-key-file` name them.

grpcio has no setting for a minimum version: it negotiates TLS 1.3 and also accepts 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from nfd import log


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files; both sides present `cert` and verify the other against `ca`."""

    ca: str
    cert: str
    key: str


def client_credentials(files: TlsFiles) -> Any:
    """Credentials from the files as they are now; raises OSError if one cannot be read."""
    return grpc.ssl_channel_credentials(_read(files.ca), _read(files.key), _read(files.cert))


def server_credentials(files: TlsFiles) -> Any:
    """Credentials that demand a client certificate and follow changes of the files; raises OSError as above.

    New files that cannot be used are logged, and the last good ones stay in use.
    """
    fetcher = _Fetcher(files)
    return grpc.dynamic_ssl_server_credentials(fetcher.load(), fetcher, require_client_authentication=True)


class _Fetcher:
    """Called at every handshake; gives a new configuration if the files have changed, else None."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen: tuple[bytes, ...] = ()

    def load(self) -> Any:
        ca, cert, key = seen = tuple(_read(path) for path in (self._files.ca, self._files.cert, self._files.key))
        if seen == self._seen:
            return None
        self._seen = seen
        return grpc.ssl_server_certificate_configuration(((key, cert),), ca)

    def __call__(self) -> Any:
        try:
            return self.load()
        except OSError as error:
            log.get("rpc").error("TLS files unreadable, the last good ones stay in use", error=error)
            return None


def _read(path: str) -> bytes:
    return Path(path).read_bytes()
