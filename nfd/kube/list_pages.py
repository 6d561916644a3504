"""Whole lists in pages, each object cut down to what is wanted of it as soon as it is here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from nfd.errors import Expired, NotFound, Unavailable
from nfd.kube.check_responses import METADATA, Page, Place, check_object, parse_page, place_of
from nfd.kube.client import JSON, METADATA_ONLY, KubeClient

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
    metadata_only: bool = False,
) -> list[T]:
    """What `keep` makes of each object, those left out for which it gives None; a `page` of 0 is the whole list.

    A list that takes so long that the server forgets where it was starts over. Raises: KubeError.
    """
    place = place_of(path, metadata_only=metadata_only)
    for attempt in range(TRIES):
        found: list[T] = []
        try:
            async for one in pages(client, place, query or {}, page):
                found += [kept for item in one.items if (kept := keep(item)) is not None]
            return found
        except Expired:
            if attempt == TRIES - 1:
                raise
    return []


async def pages(client: KubeClient, place: Place, query: Mapping[str, str], size: int) -> AsyncIterator[Page]:
    """The pages of one list, `size` objects each, or all in one for 0.

    Raises: KubeError, Expired among them if the server has forgotten the list meanwhile.
    """
    asked = {**query, "limit": str(size)}
    accept = METADATA_LIST if place.kind == METADATA else JSON
    while True:
        page = parse_page(await client.json("GET", place.path, query=asked, accept=accept), place)
        yield page
        if not page.token:
            return
        if page.token == asked.get("continue"):
            raise Unavailable(f"GET {place.path}: the answer is the same page as before")
        asked["continue"] = page.token


async def list_if_known(
    client: KubeClient, path: str, keep: Callable[[Mapping[str, Any]], T | None], query: Mapping[str, str] | None = None
) -> list[T]:
    """The same; nothing where the server does not know the kind. Raises: KubeError."""
    try:
        return await list_all(client, path, keep, query)
    except NotFound:
        return []


async def read_object(client: KubeClient, path: str, *, metadata_only: bool = False) -> Mapping[str, Any]:
    """The object at that path, of its kind and name. Raises: KubeError."""
    accept = METADATA_ONLY if metadata_only else JSON
    return check_object(await client.json("GET", path, accept=accept), place_of(path, metadata_only=metadata_only))
