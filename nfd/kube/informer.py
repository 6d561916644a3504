"""Informers: a store of the objects of one kind, kept up to date by list and watch, in the terms of client-go.

The list comes in pages, each stored before the next is read. The watch then continues from the version of the list, and
bookmarks keep that version recent. Every error is retried with back-off; only permissions that stay missing at the
first list end an informer.
"""

from __future__ import annotations

import asyncio
import copy
import operator
import random
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from nfd.errors import Expired, Forbidden, KubeError, NfdError, NotFound, Unavailable, rest_after
from nfd.kube.check_responses import Key, identity, parse_event, place_of
from nfd.kube.client import JSON, METADATA_ONLY, KubeClient, Request
from nfd.kube.list_pages import pages, read_object
from nfd.kube.paths import object_path
from nfd.runtime import log
from nfd.runtime.failures import failed

WATCH_SECONDS = (290, 590)
"""A watch ends by itself after a time in this range, so that those of many clients do not end together."""
SILENCE = 120.0
"""Seconds without a byte after which a connection counts as dead; bookmarks come every minute."""
SHORTEST_WATCH = 1.0
"""Seconds; after a watch that the server ended sooner, the next one waits."""
SHORTEST_LIST = 5.0
"""Seconds; if a list expires sooner, the next one waits."""
BACKOFF = (0.5, 30.0)
"""Seconds before the first retry and, at most, before any later one."""
PATIENCE = 10.0
"""Seconds for which the first answers may be refusals: an API server that has just started does not know its roles."""
LOOK_AGAIN = 5.0
"""Seconds at most between two requests for a resource that the server does not know."""
MISSES = 2
"""404 answers in a row after which the list is no longer waited for."""

T = TypeVar("T")
_log = log.get("kube")


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why an object cannot be parsed, and its metadata as it came."""

    reason: str
    metadata: object


class Store(Generic[T]):
    """Objects of one kind by namespace and name, each as `parse` makes it; a handler is called for each change.

    `changed(before, now)`: `before` is None for a new object, `now` for a deleted one, both for a deleted object that
    was never valid. Equal values are no change, by `same`. An invalid object is logged and ignored: its last valid
    value stays. `version` gives what changes with the content; an object of the same version is not parsed again.
    """

    def __init__(
        self,
        parse: Callable[[Mapping[str, Any]], T],
        changed: Callable[[T | None, T | None], None] = lambda before, now: None,
        *,
        version: Callable[[Mapping[str, Any]], object] | None = None,
        same: Callable[[Any, Any], bool] = operator.eq,
        keep_status: bool = False,
    ) -> None:
        self.items: dict[Key, T] = {}
        self.statuses: dict[Key, Mapping[str, Any]] = {}
        """The latest status of each object, with `keep_status`."""
        self.invalid: dict[Key, Invalid] = {}
        self.revision = 0
        """Counts the changes of `invalid`."""
        self._parse = parse
        self._changed = changed
        self._version = version
        self._versions: dict[Key, object] = {}
        self._same = same
        self._keep_status = keep_status

    @property
    def unknown(self) -> dict[Key, object]:
        """Metadata of the objects that exist and of which no valid value is known."""
        return {key: one.metadata for key, one in self.invalid.items() if key not in self.items}

    def put(self, item: Mapping[str, Any]) -> None:
        """The object exists and looks like this; parts of it that are not to be kept must be copied by `parse`."""
        key = identity(item)
        if self._keep_status:
            status = item.get("status")
            self.statuses[key] = status if isinstance(status, Mapping) else {}
        version = self._version(item) if self._version is not None else None
        if version is not None and key in self.items and self._versions.get(key) == version:
            return
        try:
            now = self._parse(item)
        except Exception as error:
            self._reject(item, key, error)
            return
        if self.invalid.pop(key, None) is not None:
            self.revision += 1
        if version is not None:
            self._versions[key] = version
        before = self.items.get(key)
        self.items[key] = now
        if before is None or not self._same(before, now):
            self._changed(before, now)

    def delete(self, key: Key) -> None:
        """The object exists no more."""
        self.statuses.pop(key, None)
        self._versions.pop(key, None)
        was_invalid = self.invalid.pop(key, None) is not None
        self.revision += was_invalid
        before = self.items.pop(key, None)
        if was_invalid or before is not None:
            self._changed(before, None)

    def retain(self, keys: frozenset[Key]) -> None:
        """A complete list has these objects: all others exist no more."""
        for key in (self.items.keys() | self.invalid.keys()) - keys:
            self.delete(key)

    def _reject(self, item: Mapping[str, Any], key: Key, error: Exception) -> None:
        path, reason = "/".join(key).strip("/"), str(error) or type(error).__name__
        known = self.invalid.get(key)
        self.invalid[key] = Invalid(reason, item.get("metadata"))
        self.revision += 1
        if not isinstance(error, ValueError | NfdError):
            failed("watch", error, path=path)
        if known is None or known.reason != reason:
            _log.warning("object is invalid and was ignored", path=path, kind=item.get("kind"), error=reason)


class Informer:
    """Keeps a store up to date with the API server; `query` selects among the objects of the collection `path`.

    `synced` is set after the first list and stays set: from then on the store may be old, never partial. `connected`
    says whether a watch is open now. A resource that the server does not know is requested again every few seconds,
    since its definition may be created later. Such a 404 never means that objects are gone, for a server that starts
    answers so too: the store and `synced` stay as they are. `settled` is set all the same, for those who only wait.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        store: Store[Any],
        page_size: int = 200,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        *,
        query: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> None:
        self.synced = asyncio.Event()
        self.settled = asyncio.Event()
        self.connected = False
        self._query = dict(query or {})
        self._settled_at = 0.0
        self._client = client
        self._path = path
        self._store = store
        self._page_size = page_size
        self._patience = patience
        self._silence = silence
        self._metadata_only = metadata_only
        self._place = place_of(path, metadata_only=metadata_only)
        self._refused_since: float | None = None
        self._version = ""
        self._listed_at = 0.0
        self._delay = BACKOFF[0]
        self._not_found = 0
        self._warned = False

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
                if self._is_permanent(error):
                    raise
                await self._wait(error)
            except Exception as error:  # a defect that one object brings out must not end the watch: list again
                failed("watch", error, path=self._path)
                self._version = ""
                await self._wait(Unavailable(str(error), retry_after=rest_after(error)))

    def _is_permanent(self, error: KubeError) -> bool:
        """Whether no list has ever succeeded, and nothing but refusals has come for too long.

        A server that was unavailable in between has restarted, and may not know its roles yet.
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
        write = _log.debug if missing or self._warned else _log.warning
        self._warned = self._warned or not missing
        write("watch interrupted", path=self._path, error=error, seconds=seconds)
        self._delay = min(self._delay * 2, BACKOFF[1])
        await asyncio.sleep(seconds)

    def _miss(self) -> None:
        """The server does not know the resource."""
        self._version = ""
        self._not_found += 1
        if self._not_found == MISSES:
            _log.info("the server does not know this resource; known objects stay", path=self._path)
            self._settle()

    def _settle(self) -> None:
        if not self.settled.is_set():
            self._settled_at = asyncio.get_running_loop().time()
        self.settled.set()

    def _recovered(self) -> None:
        """A watch has lasted for a moment."""
        self._delay = BACKOFF[0]
        self._not_found = 0
        if self._warned:
            _log.info("watch continues", path=self._path)
            self._warned = False

    async def _list(self) -> None:
        self._listed_at = asyncio.get_running_loop().time()
        seen: set[Key] = set()
        version = ""
        async for page in pages(self._client, self._place, self._query, self._page_size):
            for item in page.items:
                self._put(item)
                seen.add(identity(item))
            version = page.version
        self._store.retain(frozenset(seen))
        self._version = version
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
        request = Request("GET", self._path, query, accept=METADATA_ONLY if self._metadata_only else JSON)
        async with self._client.open(request, read_timeout=self._silence) as response:
            self.connected = True
            begun = asyncio.get_running_loop().call_later(SHORTEST_WATCH, self._recovered)
            try:
                async for line in lines(response.content.iter_any()):
                    self._take(line)
            finally:
                begun.cancel()
                self.connected = False
        if asyncio.get_running_loop().time() < begun.when():
            raise Unavailable(f"watch of {self._path}: ended as soon as it had begun")

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        event = parse_event(line, self._place)
        if event.type == "DELETED":
            self._store.delete(identity(event.item))
        elif event.type != "BOOKMARK":
            self._put(event.item)
        self._version = event.version

    def _put(self, item: Mapping[str, Any]) -> None:
        """An object that brings out a defect exists all the same: the store keeps it as it was, and all others."""
        try:
            self._store.put(item)
        except Exception as error:
            failed("watch", error, path=f"{self._path}: {'/'.join(identity(item)).strip('/')}")


class ObjectInformer:
    """One object of a collection; while its watch is open, reading it sends no request."""

    def __init__(self, client: KubeClient, collection: str, name: str) -> None:
        self.path = object_path(collection, name)
        self._client = client
        self._store = Store[dict[str, Any]](dict)
        self._informer = Informer(client, collection, self._store, query={"fieldSelector": f"metadata.name={name}"})

    @property
    def connected(self) -> bool:
        """Whether a watch is open now."""
        return self._informer.connected

    async def run(self) -> None:
        """Until cancelled, or until permission to watch the object turns out to be missing: then each `read` is a
        request."""
        try:
            await self._informer.run()
        except Forbidden as error:
            _log.warning("no permission to watch; reading each time", path=self.path, error=error)

    async def read(self, *, fresh: bool = False) -> dict[str, Any]:
        """A copy of the object as last seen; from the server with `fresh`, or while no watch is open.

        Raises: KubeError.
        """
        known = next(iter(self._store.items.values()), None)
        if self.connected and known is not None and not fresh:
            return copy.deepcopy(known)
        return dict(await read_object(self._client, self.path))


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
