"""Whole lists in pages, each object cut down to what is wanted of it as soon as it is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nfd.errors import Expired, NotFound
from nfd.kube.connect import KubeClient

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""A list of metadata alone (Kubernetes API concepts, "Metadata-only fetches")."""
PAGE = 500
TRIES = 3
T = TypeVar("T")


async def list_all(
    client: KubeClient,
    path: str,
    keep: Callable[[Mapping[str, Any]], T | None],
    query: Mapping[str, str] | None = None,
    *,
    page: int = PAGE,
) -> list[T]:
    """What `keep` makes of each object, those left out for which it gives None.

    A list that takes so long that the server forgets where it was starts over. Raises: KubeError.
    """
    for attempt in range(TRIES):
        try:
            return await _once(client, path, keep, {**(query or {}), "limit": str(page)})
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
    client: KubeClient, path: str, keep: Callable[[Mapping[str, Any]], T | None], query: dict[str, str]
) -> list[T]:
    found: list[T] = []
    while True:
        answer = await client.json("GET", path, query=query)
        found += [kept for item in answer.get("items") or () if (kept := keep(item)) is not None]
        token = (answer.get("metadata") or {}).get("continue")
        if not token:
            return found
        query["continue"] = token
