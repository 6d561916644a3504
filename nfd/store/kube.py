"""The node store of a cluster: all Nodes, trimmed, from one list and watch; merge patches as bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from nfd import log, tasks
from nfd.errors import KubeError, Unavailable
from nfd.kube.answers import Place, check_object, place_of
from nfd.kube.connect import JSON, MERGE_PATCH, METADATA_ONLY, KubeClient, Request, node_path
from nfd.kube.watch import PATIENCE, SILENCE, Watch
from nfd.store.base import FIELD_MANAGER, Node, Patch, trim

NODES = "/api/v1/nodes"

_log = log.get("store")


class KubeStore:
    """A NodeStore on an API server; the client is closed with it."""

    def __init__(
        self,
        client: KubeClient,
        page_size: int = 200,
        patience: float = PATIENCE,
        silence: float = SILENCE,
        *,
        selector: str = "",
    ) -> None:
        self.selector = selector
        self._client = client
        self._nodes: dict[str, Node] = {}
        self._changed: Callable[[str], None] = lambda name: None
        query = {"labelSelector": selector} if selector else {}
        self._watch = Watch(client, NODES, self, page_size, patience, silence, query=query)
        self._watching: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether the watch stands."""
        return self._watch.connected

    async def start(self, changed: Callable[[str], None]) -> None:
        """Returns once all Nodes are known, however long that takes. Raises: Forbidden that outlasts the patience."""
        self._changed = changed
        self._watching = tasks.start("watch of Nodes", self._watch.run, (KubeError,))
        await tasks.reached(self._watch.synced, self._watching)

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def names(self) -> Collection[str]:
        return self._nodes.keys()

    async def read(self, name: str) -> Node:
        answer = await self._client.json("GET", node_path(name))
        return self._learn(_node_of(answer, place_of(node_path(name)), "GET"))

    async def ensure(self, name: str) -> Node | None:
        """Nodes of a cluster are made by their kubelets."""
        return None

    async def patch(self, name: str, patch: Patch) -> Node:
        """The answer to a patch of metadata alone is metadata alone; the rest of the Node is as the watch told."""
        whole = patch.body.keys() != {"metadata"}
        request = Request(
            "PATCH",
            node_path(name, patch.subresource),
            {"fieldManager": FIELD_MANAGER},
            json.dumps(patch.body, separators=(",", ":")).encode(),
            MERGE_PATCH,
            JSON if whole else METADATA_ONLY,
            fenced=True,
        )
        async with self._client.open(request) as response:
            data = await response.read()
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"PATCH {node_path(name)}: the answer is not JSON: {error}") from error
        node = _node_of(answer, place_of(node_path(name), metadata_only=not whole), "PATCH")
        known = self._nodes.get(name)
        if not whole and known is not None and known.uid == node.uid:
            rest = ("boot_id", "resources", "taints", "spec")
            node = replace(node, **{name: getattr(known, name) for name in rest})
        return self._learn(node)

    async def close(self) -> None:
        if self._watching is not None:
            await tasks.cancel([self._watching])
        await self._client.close()

    def put(self, item: Mapping[str, Any]) -> None:
        """The watch tells of a Node; what it says again, as after a kubelet's sign of life, is kept as it was."""
        try:
            node = trim(item)
        except ValueError as error:
            _log.warning("Node makes no sense, what is known of it stays", node=item["metadata"]["name"], error=error)
            return
        known = self._nodes.get(node.name)
        same = known is not None and known.same_content(node)
        if known is not None and same:
            node = replace(known, version=node.version, writer=node.writer)
        if self._keep(node) is node and not same:
            self._changed(node.name)

    def drop(self, item: Mapping[str, Any]) -> None:
        """The watch tells that a Node is gone."""
        name = (item.get("metadata") or {}).get("name", "")
        if self._nodes.pop(name, None) is not None:
            self._changed(name)

    def listed(self, seen: frozenset[tuple[str, str]]) -> None:
        """Forget the Nodes that went while nobody listened."""
        for name in [name for name in self._nodes if ("", name) not in seen]:
            del self._nodes[name]
            self._changed(name)

    def _learn(self, node: Node) -> Node:
        """Take in an answer, unless the watch told meanwhile that this Node is gone; it tells of new ones, too."""
        known = self._nodes.get(node.name)
        return self._keep(node) if known is not None and known.uid == node.uid else node

    def _keep(self, node: Node) -> Node:
        """Take in what the server says, unless something newer is known; answers what is known then."""
        known = self._nodes.get(node.name)
        if known is not None and known.uid == node.uid and _older(node, known):
            return known
        self._nodes[node.name] = node
        return node


def _node_of(answer: Any, place: Place, method: str) -> Node:
    """Raises: Unavailable for what is not that Node."""
    try:
        return trim(check_object(answer, place, method))
    except ValueError as error:
        raise Unavailable(f"{method} {place.path}: {error}") from error


def _older(one: Node, other: Node) -> bool:
    """Versions of one object grow (Kubernetes API concepts, "Resource versions"); the watch may lag behind answers."""
    return one.version.isdecimal() and other.version.isdecimal() and int(one.version) < int(other.version)
