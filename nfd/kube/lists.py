"""Whole lists in pages, each object cut down to what is wanted of it as soon as it is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from nfd.errors import Expired, NotFound, Unavailable
from nfd.kube.connect import JSON, KubeClient

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""A list of metadata alone (Kubernetes API concepts, "Metadata-only fetches")."""
PAGE = 500
TRIES = 3
T = TypeVar("T")


def whole(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keeps an object as it is."""
    return item


async def list_all(
    client: KubeClient,
    path: str,
    keep: Callable[[Mapping[str, Any]], T | None],
    query: Mapping[str, str] | None = None,
    *,
    page: int = PAGE,
    accept: str = JSON,
) -> list[T]:
    """What `keep` makes of each object, those left out for which it gives None; a `page` of 0 is the whole list.

    A list that takes so long that the server forgets where it was starts over. Raises: KubeError.
    """
    for attempt in range(TRIES):
        try:
            return await _once(client, path, keep, {**(query or {}), "limit": str(page)}, accept)
        except Expired:
            if attempt == TRIES - 1:
                raise
    return []


async def list_if_known(
    client: KubeClient, path: str, keep: Callable[[Mapping[str, Any]], T | None], query: Mapping[str, str] | None = None
) -> list[T]:
    """The same; nothing where the server does not know the kind. Raises: KubeError."""
    try:
        return await list_all(client, path, keep, query)
    except NotFound:
        return []


async def _once(
    client: KubeClient, path: str, keep: Callable[[Mapping[str, Any]], T | None], query: dict[str, str], accept: str
) -> list[T]:
    found: list[T] = []
    while True:
        items, token = _page(await client.json("GET", path, query=query, accept=accept), path)
        found += [kept for item in items if (kept := keep(item)) is not None]
        if not token:
            return found
        if token == query.get("continue"):
            raise Unavailable(f"GET {path}: the answer is the same page again and again")
        query["continue"] = token


def _page(answer: Any, path: str) -> tuple[list[Mapping[str, Any]], str]:
    """Objects and token of a page. Raises: Unavailable for what no API server says, as a proxy may."""
    listed = answer if isinstance(answer, Mapping) else {"items": None}
    items, metadata = listed.get("items", ()) or (), listed.get("metadata") or {}
    named = isinstance(items, list | tuple) and all(map(_is_named, items))
    if not isinstance(answer, Mapping) or not named or not isinstance(metadata, Mapping):
        raise Unavailable(f"GET {path}: the answer is no list of objects; is this a Kubernetes API server?")
    return list(items), str(metadata.get("continue") or "")


async def read_object(client: KubeClient, path: str) -> Mapping[str, Any]:
    """One object. Raises: KubeError."""
    answer = await client.json("GET", path)
    if not _is_named(answer):
        raise Unavailable(f"GET {path}: the answer is no object; is this a Kubernetes API server?")
    return cast(Mapping[str, Any], answer)


def _is_named(item: object) -> bool:
    metadata = item.get("metadata") if isinstance(item, Mapping) else None
    return isinstance(metadata, Mapping) and isinstance(metadata.get("name"), str)
