"""List and watch of one resource: a mirror that survives what happens to watches (410, lost links, overload, silence).

The list comes in pages, each handed on and forgotten before the next; the watch then goes on from its version, and
bookmarks keep that version young. Whatever goes wrong is tried again; only rights that stay missing at the first list
end it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from nfd import log
from nfd.errors import Expired, Forbidden, KubeError, NotFound, Unavailable
from nfd.failures import failed
from nfd.kube.answers import parse_event, parse_page, place_of
from nfd.kube.connect import JSON, METADATA_ONLY, KubeClient, Request
from nfd.kube.lists import METADATA_LIST

WATCH_SECONDS = (290, 590)
"""A watch ends by itself after a time in this range, so that those of many clients do not end together."""
SILENCE = 120.0
"""Seconds without a byte after which a link counts as dead; bookmarks come every minute."""
SHORTEST_WATCH = 1.0
"""Seconds; a server that ends watches sooner is not asked again at once."""
SHORTEST_LIST = 5.0
"""Seconds; a server for which a list is too old sooner is not asked for another at once."""
BACKOFF = (0.5, 30.0)
"""Seconds before the first and, at most, before any later try."""
PATIENCE = 10.0
"""Seconds for which the first answers may be refusals: an API server that has just started does not know its roles."""

LOOK_AGAIN = 5.0
"""Seconds at most until a resource that the server does not know is asked for again."""
MISSES = 2
"""Answers in a row that there is no such resource, after which nobody waits for its list any more."""

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
    """Keeps a Mirror in step with the API server; `query` selects among the objects.

    `synced` is set after the first list and stays so: what is known may be old, never partial. `connected` tells
    whether changes are being heard now. A resource that the server does not know is looked for again every few seconds,
    since its definition may come, or come back. That answer never means that objects are gone, for a server that starts
    gives it too: what was known stays, and `synced` as it is. `settled` is set all the same, for those who only wait.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        mirror: Mirror,
        page_size: int = 200,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        *,
        query: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> None:
        self._query = dict(query or {})
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()
        self._settled_at = 0.0
        self.connected = False
        self._client = client
        self._path = path
        self._mirror = mirror
        self._page_size = page_size
        self._patience = patience
        self._silence = silence
        self._place = place_of(path, metadata_only=metadata_only)
        self._accept = (METADATA_LIST, METADATA_ONLY) if metadata_only else (JSON, JSON)
        self._refused_since: float | None = None
        self._version = ""
        self._listed_at = 0.0
        self._delay = BACKOFF[0]
        self._not_found = 0
        self._said = False

    def settled_for(self, seconds: float) -> bool:
        """Whether there is a list, or there has been none for so long that there is nothing to be listed."""
        waited = asyncio.get_running_loop().time() - self._settled_at
        return self.synced.is_set() or (self.settled.is_set() and waited >= seconds)

    async def run(self) -> None:
        """Until cancelled. Raises: Forbidden if the very first list is refused for longer than the patience lasts."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except Expired as error:
                self._version = ""
                if asyncio.get_running_loop().time() - self._listed_at < SHORTEST_LIST:
                    await self._wait(error)
                else:
                    _log.info("watch starts over", path=self._path)
            except KubeError as error:
                if self._is_hopeless(error):
                    raise
                await self._wait(error)
            except Exception as error:  # a defect that one object brings out must not leave us deaf: list again
                failed("watch", error, path=self._path)
                self._version = ""
                await self._wait(KubeError(str(error)))
            finally:
                self.connected = False

    def _is_hopeless(self, error: KubeError) -> bool:
        """Whether no list has ever succeeded, and nothing but refusals has come for too long.

        A server that was away in between has started anew, and may not know its roles yet.
        """
        if not isinstance(error, Forbidden):
            self._refused_since = None
            return False
        now = asyncio.get_running_loop().time()
        if self._refused_since is None:
            self._refused_since = now
        return not self.synced.is_set() and now - self._refused_since >= self._patience

    async def _wait(self, error: KubeError) -> None:
        """Back off, longer each time, or as long as the server says."""
        asked = error.retry_after if isinstance(error, Unavailable) else None
        seconds = (self._delay if asked is None else max(asked, self._delay)) * random.uniform(1.0, 1.25)
        missing = isinstance(error, NotFound)
        if missing:
            seconds = min(seconds, LOOK_AGAIN)
            self._miss()
        tell = _log.debug if missing or self._said else _log.warning
        self._said = self._said or not missing
        tell("watch interrupted", path=self._path, error=error, seconds=seconds)
        self._delay = min(self._delay * 2, BACKOFF[1])
        await asyncio.sleep(seconds)

    def _miss(self) -> None:
        """The server knows no such resource."""
        self._version = ""
        self._not_found += 1
        if self._not_found == MISSES:
            _log.info("the server does not know this resource; what is known of it stays", path=self._path)
            self._settle()

    def _settle(self) -> None:
        if not self.settled.is_set():
            self._settled_at = asyncio.get_running_loop().time()
        self.settled.set()

    def _recovered(self) -> None:
        """A watch has lasted for a moment."""
        self._delay = BACKOFF[0]
        self._not_found = 0
        if self._said:
            _log.info("watch goes on", path=self._path)
            self._said = False

    async def _list(self) -> None:
        self._listed_at = asyncio.get_running_loop().time()
        seen: set[tuple[str, str]] = set()
        query = {**self._query, **({"limit": str(self._page_size)} if self._page_size else {})}
        while True:
            answer = await self._client.json("GET", self._path, query=query, accept=self._accept[0])
            page = parse_page(answer, self._place)
            for item in page.items:
                self._put(item)
                seen.add(identity(item))
            if not page.token:
                break
            if page.token == query.get("continue"):
                raise Unavailable(f"GET {self._path}: the answer is the same page again and again")
            query["continue"] = page.token
        self._mirror.listed(frozenset(seen))
        self._version = page.version
        self.synced.set()
        self._settle()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
        }
        request = Request("GET", self._path, query, accept=self._accept[1])
        async with self._client.open(request, read_timeout=self._silence) as response:
            self.connected = True
            begun = asyncio.get_running_loop().call_later(SHORTEST_WATCH, self._recovered)
            try:
                async for line in lines(response.content.iter_any()):
                    self._take(line)
            finally:
                begun.cancel()
        if asyncio.get_running_loop().time() < begun.when():
            raise Unavailable(f"watch of {self._path}: ended as soon as it had begun")

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        event = parse_event(line, self._place)
        if event.type == "DELETED":
            self._mirror.drop(event.item)
        elif event.type != "BOOKMARK":
            self._put(event.item)
        self._version = event.version

    def _put(self, item: Mapping[str, Any]) -> None:
        """An object that nobody can make sense of is there all the same: what is known of it, and all others, stay."""
        try:
            self._mirror.put(item)
        except Exception as error:
            failed("watch", error, path=f"{self._path}: {'/'.join(identity(item)).strip('/')}")


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however long: one event may hold an object of more than a MiB."""
    parts: list[bytes] = []
    async for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for line in rest:
            yield b"".join(parts)
            parts = [line]
    if any(parts):
        yield b"".join(parts)


def identity(item: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace ("" if there is none) and name."""
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""
