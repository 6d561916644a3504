"""Where the key of proofs is kept: an entry of the Secret that holds our certificate authority, or a file beside Nodes.

Whoever wins the guarded update makes it, and all replicas read it; only `--prune` makes none. While there is no key,
since there is no Secret or no right to it, lists on Nodes count as unproven, what this process writes apart.
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

from nfd.errors import Conflict, KubeError, NotFound, Unavailable
from nfd.kube.client import KubeClient
from nfd.kube.informer import ObjectInformer
from nfd.kube.paths import SECRETS, in_namespace
from nfd.master.node.proof import KEY_SIZE, Proof
from nfd.runtime import log, tasks
from nfd.runtime.files import create_file

ENTRY = "ownership"
"""Of the Secret's data."""
FILE = ".ownership"
"""Of the folder of a file node store, readable by its owner alone."""
INTERVAL = 60.0
"""Seconds between two looks at the Secret."""
WITHIN = 10.0
"""Seconds that a start waits for an API server that does not answer; then it goes on without, and looks again."""
RACES = 5

_log = log.get("master")


class SecretKey:
    """Keeps `proof` at the key in the Secret; `changed` is called when it is another one than before."""

    def __init__(self, client: KubeClient, namespace: str, name: str, proof: Proof, interval: float = INTERVAL) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._client = client
        self._secret = ObjectInformer(client, in_namespace(SECRETS, namespace), name)
        self._proof = proof
        self._interval = interval
        self._problem = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Get the key if it can be had, and go on to follow it.

        A first look that fails is no reason to end: a master without a key does its work, and looks again.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN):
                while not await tasks.attempt("key of proofs", self.look()):
                    await asyncio.sleep(0.5)
        self._tasks = [tasks.start("key of proofs", self._run), tasks.start("watch of the key", self._secret.run)]

    async def stop(self) -> None:
        """Follow it no more."""
        await tasks.cancel(self._tasks)

    async def look(self, *, make: bool = True) -> bool:
        """Take the key, made now if there is none; whether the API server said what there is, be it nothing."""
        try:
            key = await self._read_in_turn() if make else _key_of(await self._secret.read(fresh=True))
        except (KubeError, ValueError) as error:
            self._complain(error)
            return not isinstance(error, Unavailable)
        self._problem = ""
        if key and self._proof.adopt(key):
            _log.info("lists on nodes are proven with a key", path=self._secret.path)
            self.changed()
        return True

    async def delete(self) -> None:
        """Take the Secret away, if it is there. Raises: KubeError."""
        with suppress(NotFound):
            await self._client.json("DELETE", self._secret.path)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            await self.look()

    async def _read_in_turn(self) -> bytes:
        """Raises: KubeError; Conflict if other replicas were faster each time."""
        for race in range(1, RACES):
            with suppress(Conflict):
                return await self._read()
            await asyncio.sleep(0.2 * race * secrets.SystemRandom().random())
        return await self._read()

    async def _read(self) -> bytes:
        """What is followed is enough while there is a key in it; one is made only on what was asked for now."""
        if key := _key_of(await self._secret.read()):
            return key
        secret = await self._secret.read(fresh=True)
        if key := _key_of(secret):
            return key
        key = secrets.token_bytes(KEY_SIZE)
        secret["data"] = {**(secret.get("data") or {}), ENTRY: base64.b64encode(key).decode()}
        await self._client.json("PUT", self._secret.path, secret)
        return key

    def _complain(self, error: Exception) -> None:
        """Once for as long as it is the same."""
        if (problem := str(error)) != self._problem:
            self._problem = problem
            _log.warning("no key from the Secret: lists on nodes go unproven", path=self._secret.path, error=error)


def file_key(folder: Path) -> Proof:
    """That of a file node store, made if it is not there.

    Whoever may write the Nodes there may do anything to them: the key is for telling our lists from NFD's.
    """
    try:
        key = _read_or_make(folder / FILE)
    except OSError as error:
        _log.warning("no key in the node store: lists on nodes go unproven", path=folder / FILE, error=error.strerror)
        return Proof.of_this_process()
    return Proof(key) if len(key) >= KEY_SIZE else Proof.of_this_process()


def _read_or_make(path: Path) -> bytes:
    """Of several who make it the first one's stays."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        create_file(path, secrets.token_bytes(KEY_SIZE), 0o600)
    return path.read_bytes()


def _key_of(secret: Mapping[str, Any]) -> bytes:
    """The key in a Secret; b"" where there is none that is long enough."""
    data = secret.get("data")
    if not isinstance(data, Mapping):
        return b""
    with suppress(binascii.Error, ValueError):
        key = base64.b64decode(str(data.get(ENTRY, "")), validate=True)
        return key if len(key) >= KEY_SIZE else b""
    return b""
