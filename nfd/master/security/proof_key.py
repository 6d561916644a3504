"""Stores the key of proofs: in the Secret of the certificate authority, or in a file in the node store.

The replica whose guarded update succeeds makes the key, and all replicas read it; `--prune` makes none. Without a key
(no Secret, or no permission), lists on Nodes count as unproven, except those that this process wrote.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nfd.errors import KubeError, NotFound, Unavailable
from nfd.kube.client import KubeClient, retry_on_conflict
from nfd.kube.informer import ObjectInformer
from nfd.kube.paths import SECRETS, in_namespace
from nfd.master.node.proof import KEY_SIZE, Proof
from nfd.runtime import log, tasks
from nfd.runtime.files import create_file

ENTRY = "ownership"
"""Entry in the Secret's data."""
FILE = ".ownership"
"""File in the folder of a file node store, readable by its owner only."""
INTERVAL = 60.0
"""Seconds between two reads of the Secret."""
WITHIN = 10.0
"""Seconds that the start waits for the API server; then it continues without the key, and tries again."""

_log = log.get("master")


class SecretKey:
    """Keeps `proof` up to date with the key in the Secret; `changed` is called when the key changes."""

    def __init__(self, client: KubeClient, namespace: str, name: str, proof: Proof, interval: float = INTERVAL) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._client = client
        self._secret = ObjectInformer(client, in_namespace(SECRETS, namespace), name)
        self._proof = proof
        self._interval = interval
        self._problem = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Read the key if possible, and follow it.

        A failure does not end the start: a master without a key works, and tries again.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN):
                while not await tasks.attempt("key of proofs", self.look()):
                    await asyncio.sleep(0.5)
        self._tasks = [tasks.start("key of proofs", self._run), tasks.start("watch of the key", self._secret.run)]

    async def stop(self) -> None:
        """Stop following it."""
        await tasks.cancel(self._tasks)

    async def look(self, *, make: bool = True) -> bool:
        """Read the key, and make it if there is none. Returns whether the API server answered."""
        try:
            key = await retry_on_conflict(self._read) if make else _key_of(await self._secret.read(fresh=True))
        except (KubeError, ValueError) as error:
            self._log_failure(error)
            return not isinstance(error, Unavailable)
        self._problem = ""
        if key and self._proof.adopt(key):
            _log.info("the key of proofs is in use", path=self._secret.path)
            self.changed()
        return True

    async def delete(self) -> None:
        """Delete the Secret if it exists. Raises: KubeError."""
        with suppress(NotFound):
            await self._client.json("DELETE", self._secret.path)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.look()

    async def _read(self) -> bytes:
        """The informer's copy is used if it has a key; a key is made only after a fresh read."""
        if key := _key_of(await self._secret.read()):
            return key
        secret = await self._secret.read(fresh=True)
        if key := _key_of(secret):
            return key
        key = secrets.token_bytes(KEY_SIZE)
        secret["data"] = {**(secret.get("data") or {}), ENTRY: base64.b64encode(key).decode()}
        await self._client.json("PUT", self._secret.path, secret)
        return key

    def _log_failure(self, error: Exception) -> None:
        """Log an error once while it stays the same."""
        if (problem := str(error)) != self._problem:
            self._problem = problem
            _log.warning("no key in the Secret: lists on nodes are not proven", path=self._secret.path, error=error)


def file_key(folder: Path) -> Proof:
    """The key of a file node store; it is made if there is none.

    Anyone who may write the Nodes there may change anything. The key only tells these lists from NFD's.
    """
    try:
        key = _read_or_make(folder / FILE)
    except OSError as error:
        _log.warning(
            "no key in the node store: lists on nodes are not proven", path=folder / FILE, error=error.strerror
        )
        return Proof.of_this_process()
    return Proof(key) if len(key) >= KEY_SIZE else Proof.of_this_process()


def _read_or_make(path: Path) -> bytes:
    """Read or make the key; if several processes make it, the first one's stays."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        create_file(path, secrets.token_bytes(KEY_SIZE), 0o600)
    return path.read_bytes()


def _key_of(secret: Mapping[str, Any]) -> bytes:
    """The key in a Secret; b"" if there is none that is long enough."""
    data = secret.get("data")
    if not isinstance(data, Mapping):
        return b""
    with suppress(binascii.Error, ValueError):
        key = base64.b64decode(str(data.get(ENTRY, "")), validate=True)
        return key if len(key) >= KEY_SIZE else b""
    return b""
