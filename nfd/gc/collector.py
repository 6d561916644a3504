"""What belongs to Nodes that are gone: found when a Node is deleted, and by a sweep from time to time.

`run` is the running `nfd-gc`: a collector with its probes and metrics.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from nfd import __version__
from nfd.config.flags import Parsed
from nfd.errors import KubeError, NotFound
from nfd.kube.client import KubeClient, connect
from nfd.kube.informer import Informer, Store
from nfd.kube.list_pages import list_all, whole
from nfd.kube.paths import NODES, in_namespace, object_path
from nfd.names import API_VERSION, NFD_NS
from nfd.runtime import log, tasks
from nfd.runtime.http_server import OK, serving
from nfd.runtime.probes import probes
from nfd.runtime.prometheus import Family, build_family, counter, failures_family
from nfd.runtime.tasks import Asked

NODE_NAME = f"{NFD_NS}/node-name"
"""The label of a NodeFeature that names its node."""

_log = log.get("gc")


@dataclass(frozen=True, slots=True)
class Kind:
    """`items` is the path of all objects; those without a namespace are named after their Node."""

    name: str
    group: str
    plural: str
    namespaced: bool

    @property
    def items(self) -> str:
        return f"/apis/{self.group}/{self.plural}"

    def node_of(self, metadata: Mapping[str, Any]) -> str:
        """The Node an object belongs to; "" if it does not say."""
        if self.namespaced:
            return str((metadata.get("labels") or {}).get(NODE_NAME) or "")
        return str(metadata.get("name") or "")

    def path(self, metadata: Mapping[str, Any]) -> str:
        collection = in_namespace(self.items, metadata["namespace"]) if self.namespaced else self.items
        return object_path(collection, metadata["name"])

    def of_node(self, node: str) -> dict[str, str]:
        """The query for the objects of one Node."""
        if self.namespaced:
            return {"labelSelector": f"{NODE_NAME}={node}"}
        return {"fieldSelector": f"metadata.name={node}"}


KINDS = (
    Kind("NodeFeature", API_VERSION, "nodefeatures", namespaced=True),
    Kind("NodeResourceTopology", "topology.node.k8s.io/v1alpha2", "noderesourcetopologies", namespaced=False),
)


class Metrics:
    """Named as NFD names them (NFD documentation, "Metrics").

    `deleted` and `failed` count by kind of object, from 0 on: Prometheus sees an increase of what was there.
    """

    def __init__(self, kinds: Iterable[str]) -> None:
        self.started = time.time()
        self.deleted = Counter(dict.fromkeys(kinds, 0))
        self.failed = self.deleted.copy()

    def families(self) -> Iterator[Family]:
        yield build_family("nfd_gc_", __version__, self.started)
        about = "Objects deleted because their Node no longer exists."
        yield counter("nfd_gc_objects_deleted", about, self.deleted, "kind")
        yield counter("nfd_gc_object_delete_failures", "Objects that nfd-gc could not delete.", self.failed, "kind")
        yield failures_family("nfd_gc_")


class Collector:
    """Deletes the objects of deleted Nodes, found by an informer of Nodes. Only metadata is read."""

    def __init__(
        self, client: KubeClient, metrics: Metrics, interval: float, page_size: int, kinds: Sequence[Kind] = KINDS
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._interval = interval
        self._page_size = page_size
        self._kinds = kinds
        self._nodes = Store[str](lambda item: item["metadata"]["name"], self._node_changed)
        self._gone: asyncio.Queue[str] = asyncio.Queue()
        self._informer = Informer(client, NODES, self._nodes, page_size, metadata_only=True)
        self.synced = self._informer.synced

    def _node_changed(self, before: str | None, now: str | None) -> None:
        if before is not None and now is None:
            self._gone.put_nowait(before)

    async def run(self) -> None:
        """Until cancelled. Raises: Forbidden if Nodes may not be listed."""
        await tasks.first_of(
            tasks.supervised("watch of Nodes", self._informer.run, (KubeError,)),
            tasks.supervised("collection", self._delete),
        )

    async def _delete(self) -> None:
        await self.synced.wait()
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            if clock() >= due:
                await self.sweep()
                due = clock() + self._interval
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - clock())):
                    node = await self._gone.get()
                await self.sweep(node)

    async def sweep(self, node: str = "") -> None:
        """Look at all objects, or at those of one Node."""
        for kind in self._kinds:
            try:
                await self._collect(kind, kind.of_node(node) if node else {})
            except NotFound:
                continue  # this cluster has no such kind
            except KubeError as error:
                _log.warning("cannot list objects", path=kind.items, error=error)

    async def _collect(self, kind: Kind, query: dict[str, str]) -> None:
        """Delete those objects of a list whose Node is gone. Raises: KubeError if there is no list."""

        def suspect(item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
            """An object that names no Node belongs to none that is gone."""
            node = kind.node_of(item["metadata"])
            return (node, item["metadata"]) if node and ("", node) not in self._nodes.items else None

        gone: dict[str, bool] = {}
        found = await list_all(self._client, kind.items, suspect, query, page=self._page_size, metadata_only=True)
        for node, metadata in found:
            if node not in gone:
                gone[node] = await self._is_gone(node)
            if gone[node]:
                await self._remove(kind, metadata, node)

    async def _is_gone(self, node: str) -> bool:
        """What the API server itself says, since a watch may lag behind. A list of one needs no right but `list`."""
        query = {"fieldSelector": f"metadata.name={node}"}
        return not await list_all(self._client, NODES, whole, query, metadata_only=True)

    async def _remove(self, kind: Kind, metadata: Mapping[str, Any], node: str) -> None:
        """Delete this very object, not one that has been made in its place meanwhile."""
        path = kind.path(metadata)
        try:
            body = {"preconditions": {"uid": metadata["uid"]}}
            await self._client.json("DELETE", path, body)
        except NotFound:
            return
        except KubeError as error:
            self._metrics.failed[kind.name] += 1
            _log.warning("cannot delete object", path=path, node=node, error=error)
            return
        self._metrics.deleted[kind.name] += 1
        _log.info("deleted the object of a deleted node", path=path, node=node)


async def run(parsed: Parsed, asked: Asked) -> None:
    """Until a signal. Raises: ConfigError, KubeError, OSError."""
    client = await tasks.unless(asked.stop, connect(parsed["kubeconfig"]))
    if client is None:
        return
    metrics = Metrics(kind.name for kind in KINDS)
    collector = Collector(client, metrics, parsed["gc-interval"], parsed["list-size"])
    missing = "nodes are not listed yet"
    handler = probes(lambda: OK, lambda: "" if collector.synced.is_set() else missing, metrics.families)
    try:
        with serving(parsed["port"], handler):
            await tasks.first_of(collector.run(), asked.stop.wait())
    finally:
        await client.close()
