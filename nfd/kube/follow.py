"""One object by its name, read without asking the API server as long as a watch tells what becomes of it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from nfd import log
from nfd.errors import Forbidden
from nfd.kube.connect import KubeClient
from nfd.kube.lists import read_object
from nfd.kube.watch import Watch

_log = log.get("kube")


class Followed:
    """The object NAME of a collection of one namespace; `run` follows it, and is a Mirror for that."""

    def __init__(self, client: KubeClient, collection: str, name: str) -> None:
        self.path = f"{collection}/{quote(name, safe='')}"
        self._client = client
        self._watch = Watch(client, collection, self, query={"fieldSelector": f"metadata.name={name}"})
        self._latest: dict[str, Any] | None = None

    def put(self, item: Mapping[str, Any]) -> None:
        self._latest = copy.deepcopy(dict(item))

    def drop(self, item: Mapping[str, Any]) -> None:
        self._latest = None

    def listed(self, seen: frozenset[tuple[str, str]]) -> None:
        if not seen:
            self._latest = None

    async def run(self) -> None:
        """Until cancelled, or until it is clear that we may not watch it: then `read` goes on to ask."""
        try:
            await self._watch.run()
        except Forbidden as error:
            _log.warning("may not be watched, so it is asked for each time", path=self.path, error=error)

    async def read(self, *, fresh: bool = False) -> dict[str, Any]:
        """As last heard of; what is not heard of now, and what is to be `fresh`, is asked for. Raises: KubeError."""
        if self._watch.connected and self._latest is not None and not fresh:
            return copy.deepcopy(self._latest)
        return dict(await read_object(self._client, self.path))
