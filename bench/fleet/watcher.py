"""Sees the labels of Nodes as everybody does: through a watch on the API server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiohttp

from bench.fleet.cluster import Link
from nfd.kube.connect import METADATA_ONLY
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
        async with asyncio.timeout(seconds):
            await self._done.wait()
        return self._times

    async def _follow(self, version: str) -> None:
        path = f"{self.link.url}/api/v1/nodes?watch=1&resourceVersion={version}&timeoutSeconds=7200"
        limit = aiohttp.ClientTimeout(total=None)
        async with self.link.session.get(path, headers={"Accept": METADATA_ONLY}, timeout=limit) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line)["object"]["metadata"])
        raise RuntimeError("the watch has ended")

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
