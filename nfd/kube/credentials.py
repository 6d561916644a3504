"""Renews the credentials of the client: tokens and certificates in files, and those of exec plug-ins."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nfd.config.named_files import read_bytes
from nfd.runtime import log

LOOK = 60.0
"""Seconds between two looks at what may have changed."""
PLUGIN = 30.0
"""Seconds that an exec plug-in may take."""
TOKEN = "BearerToken"

_log = log.get("kube")


class Credentials:
    """Those of one client; `loader` is the kubeconfig's, None in a pod. What cannot be renewed stays in use."""

    def __init__(self, api: Any, loader: Any = None, now: Callable[[], float] = time.monotonic) -> None:
        self._configuration = api.configuration
        self._context: ssl.SSLContext = api.rest_client.ssl_context
        self._loader = loader
        self._now = now
        self._due = now() + LOOK
        self._refused = False
        self._failing = False
        self._seen = [_signature(path) for path in self._files()]
        if token := self._configuration.api_key.get(TOKEN):
            self._configuration.api_key[TOKEN] = token.strip()

    def refused(self) -> None:
        """The server rejected the credentials."""
        self._refused = True

    async def renew(self) -> None:
        """Look whether there is something new, if it is time."""
        if self._now() < self._due:
            return
        self._due = self._now() + LOOK  # before anything is waited for: other requests go on meanwhile
        try:
            async with asyncio.timeout(PLUGIN):
                await self._renew_token()
            self._renew_certificates()
        except Exception as error:  # files that are just being replaced, plug-ins that fail in their own ways
            if not self._failing:
                text = " ".join(str(error).split()) or type(error).__name__
                _log.warning("cannot renew credentials; the previous ones stay in use", error=text)
            self._failing = True
        else:
            self._failing = self._refused = False

    async def _renew_token(self) -> None:
        loader = self._loader
        user = loader._user if loader is not None else None
        if user is None:
            return
        if "exec" in user:
            await self._ask_plugin()
        elif loader.provider:
            await loader._load_authentication()
        elif "tokenFile" in user and "token" not in user:
            loader.token = f"Bearer {_read_token(Path(loader._get_base_path(user.path), user['tokenFile']))}"
        if "token" in loader.__dict__:
            self._configuration.api_key[TOKEN] = loader.token.strip()

    async def _ask_plugin(self) -> None:
        """Only if what it gave expires soon, or is refused. Raises: OSError if it gives nothing."""
        loader = self._loader
        if self._refused and hasattr(loader, "exec_plugin_expiry"):
            del loader.exec_plugin_expiry
        if not self._refused and not hasattr(loader, "exec_plugin_expiry"):
            return
        if not await loader.load_from_exec_plugin():
            raise OSError("the exec plug-in of the kubeconfig returned no credentials")
        for name in ("cert_file", "key_file"):
            setattr(self._configuration, name, getattr(loader, name, None))

    def _renew_certificates(self) -> None:
        """New connections use what the files hold now. Raises: OSError, which SSLError is one of."""
        files, seen = self._files(), [_signature(path) for path in self._files()]
        if seen == self._seen:
            return
        authority, certificate, key = files
        if authority:
            self._context.load_verify_locations(authority)
        if certificate:
            self._context.load_cert_chain(certificate, key)
        self._seen = seen
        _log.info("certificates loaded", path=certificate or authority)

    def _files(self) -> tuple[str | None, str | None, str | None]:
        found = self._configuration
        return found.ssl_ca_cert, found.cert_file, found.key_file


def _read_token(path: Path) -> str:
    """Raises: OSError, also for an empty file."""
    token = read_bytes(path).decode().strip()
    if not token:
        raise OSError(f"{path} is empty")
    return token


def _signature(path: str | None) -> tuple[str, int, int] | None:
    """Changes with the file. Absent: None."""
    try:
        about = Path(path or "").stat()
    except OSError:
        return None
    return path or "", about.st_mtime_ns, about.st_ino
