"""Sees the labels of Nodes as everybody does: through a watch on the API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiohttp

from bench.fleet.cluster import Link
from nfd.kube.client import METADATA_ONLY
from tests.controlplane.cluster import ControlPlane

Test = Callable[[Mapping[str, str]], bool]


class Watcher:
    """`await show(…)` tells when each node had what it was to have."""

    def __init__(self, plane: ControlPlane) -> None:
        self.link = Link(plane, 2)
        self.versions: dict[str, str] = {}
        self.labels: dict[str, Mapping[str, str]] = {}
        self.removed = 0
        self._pending: set[str] = set()
        self._test: Test = lambda labels: True
        self._times: dict[str, float] = {}
        self._done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        found = json.loads(
            await self.link.send(
                "GET", "/api/v1/nodes?limit=1", Accept=METADATA_ONLY.replace("Metadata;", "MetadataList;")
            )
        )
        self._task = asyncio.create_task(self._follow(found["metadata"]["resourceVersion"]))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.link.close()

    def expect(self, names: Iterable[str], test: Test) -> None:
        """Before what makes it come about."""
        self._pending, self._test, self._times = set(names), test, {}
        self._done.clear()
        self._finish()

    async def shown(self, seconds: float) -> dict[str, float]:
        """When each node was seen with it, by the monotonic clock."""
        assert self._task is not None
        done = asyncio.create_task(self._done.wait())
        await asyncio.wait((done, self._task), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            await self._task
        if not done.done():
            done.cancel()
            raise TimeoutError(
                f"{len(self._pending)} nodes are not as they were to be, {sorted(self._pending)[:3]} among them"
            )
        return self._times

    async def _follow(self, version: str) -> None:
        """Goes on from the latest version when the server ends a watch, as it does with one that cannot keep up."""
        while True:
            query = f"watch=1&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=7200"
            path, limit = f"{self.link.url}/api/v1/nodes?{query}", aiohttp.ClientTimeout(total=None)
            async with self.link.session.get(path, headers={"Accept": METADATA_ONLY}, timeout=limit) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for event in map(json.loads, lines):
                        if event["type"] == "ERROR":
                            raise RuntimeError(f"the watch has ended: {event}")
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._take(event["object"]["metadata"])

    def _take(self, metadata: Mapping[str, Any]) -> None:
        name, labels = metadata["name"], metadata.get("labels", {})
        self.removed += len(self.labels.get(name, {}).keys() - labels.keys())
        self.labels[name], self.versions[name] = labels, metadata["resourceVersion"]
        if name in self._pending and self._test(labels):
            self._pending.discard(name)
            self._times[name] = time.monotonic()
            self._finish()

    def _finish(self) -> None:
        if not self._pending:
            self._done.set()
