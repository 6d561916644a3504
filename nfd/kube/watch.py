"""List and watch of one resource: a mirror that survives what happens to watches (410, lost links, overload, silence).

The list comes in pages, each handed on and forgotten before the next; the watch then goes on from its version, and
bookmarks keep that version young. Whatever goes wrong is tried again; only missing rights at the first list end it.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any, Protocol

from nfd import log
from nfd.errors import Expired, Forbidden, KubeError, NotFound, Unavailable
from nfd.kube.connect import KubeClient, Request

WATCH_SECONDS = (290, 590)
"""A watch ends by itself after a time in this range, so that those of many clients do not end together."""
SILENCE = 120.0
"""Seconds without a byte after which a link counts as dead; bookmarks come every minute."""
BACKOFF = (0.5, 30.0)
"""Seconds before the first and, at most, before any later try."""

_log = log.get("kube")


class Mirror(Protocol):
    """Who wants to know. Objects are as JSON gives them; whatever it keeps of one, it copies."""

    def put(self, item: Mapping[str, Any]) -> None:
        """An object that is there."""

    def drop(self, item: Mapping[str, Any]) -> None:
        """An object that is gone."""

    def listed(self, seen: frozenset[tuple[str, str]]) -> None:
        """The list is complete: all but these (namespace, name) are gone."""


class Watch:
    """Keeps a Mirror in step with the API server.

    `synced` is set after the first list and stays so: what is known may be old, never partial. `connected` tells
    whether changes are being heard now.
    """

    def __init__(self, client: KubeClient, path: str, mirror: Mirror, page_size: int = 200) -> None:
        self.synced = asyncio.Event()
        self.connected = False
        self._client = client
        self._path = path
        self._mirror = mirror
        self._page_size = page_size
        self._version = ""
        self._delay = BACKOFF[0]

    async def run(self) -> None:
        """Until cancelled. Raises: Forbidden if the very first list is."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Expired:
                _log.info("watch starts over", path=self._path)
                self._version = ""
            except KubeError as error:
                if isinstance(error, Forbidden) and not self.synced.is_set():
                    raise
                await self._wait(error)
            finally:
                self.connected = False

    async def _wait(self, error: KubeError) -> None:
        """Back off, longer each time, or as long as the server says."""
        asked = error.retry_after if isinstance(error, Unavailable) else None
        seconds = (self._delay if asked is None else max(asked, self._delay)) * random.uniform(1.0, 1.25)
        missing = isinstance(error, NotFound)
        (_log.debug if missing else _log.warning)("watch interrupted", path=self._path, error=error, seconds=seconds)
        self._delay = min(self._delay * 2, BACKOFF[1])
        await asyncio.sleep(seconds)

    async def _list(self) -> None:
        seen: set[tuple[str, str]] = set()
        query = {"limit": str(self._page_size)} if self._page_size else {}
        while True:
            page = await self._client.json("GET", self._path, query=query)
            for item in page.get("items") or ():
                self._mirror.put(item)
                seen.add(identity(item))
            metadata = page.get("metadata") or {}
            if not (token := metadata.get("continue")):
                break
            query["continue"] = token
        self._mirror.listed(frozenset(seen))
        self._version = metadata.get("resourceVersion", "")
        self.synced.set()

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
        }
        try:
            async with self._client.open(Request("GET", self._path, query), read_timeout=SILENCE) as response:
                self.connected = True
                self._delay = BACKOFF[0]
                async for line in response.content:
                    self._take(line)
        except ValueError as error:  # a line that is cut off, or longer than aiohttp's buffer
            raise Unavailable(f"watch of {self._path}: {error}") from error

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        event = json.loads(line)
        kind, item = event.get("type"), event.get("object") or {}
        if kind == "ERROR":
            if item.get("code") == 410:
                raise Expired(f"watch of {self._path}: {item.get('message')}")
            raise Unavailable(f"watch of {self._path}: {item.get('message') or item}")
        if kind == "DELETED":
            self._mirror.drop(item)
        elif kind in ("ADDED", "MODIFIED"):
            self._mirror.put(item)
        self._version = (item.get("metadata") or {}).get("resourceVersion") or self._version


def identity(item: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace ("" if there is none) and name."""
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""
