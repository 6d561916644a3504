"""The node store of a cluster: all Nodes, trimmed, from one list and watch; merge patches as bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nfd.errors import KubeError, Unavailable
from nfd.kube.check_responses import Key, Place, check_object, identified, place_of
from nfd.kube.client import JSON, MERGE_PATCH, METADATA_ONLY, STRATEGIC_MERGE_PATCH, KubeClient, Request
from nfd.kube.informer import PATIENCE, SILENCE, Informer, Store
from nfd.kube.paths import NODES, object_path
from nfd.runtime import tasks
from nfd.store.base import FIELD_MANAGER, Node, Patch, trim


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
        self._nodes = Store(self._parse, self._node_changed, same=Node.same_content)
        self._changed: Callable[[str], None] = lambda name: None
        query = {"labelSelector": selector} if selector else {}
        self._informer = Informer(client, NODES, self._nodes, page_size, patience, silence, query=query)
        self._watching: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether a watch of Nodes is open."""
        return self._informer.connected

    async def start(self, changed: Callable[[str], None]) -> None:
        """Returns once all Nodes are known, however long that takes. Raises: Forbidden that outlasts the patience."""
        self._changed = changed
        self._watching = tasks.start("watch of Nodes", self._informer.run, (KubeError,))
        await tasks.reached(self._informer.synced, self._watching)

    def get(self, name: str) -> Node | None:
        return self._nodes.items.get(("", name))

    def names(self) -> Collection[str]:
        return _Names(self._nodes.items)

    async def read(self, name: str) -> Node:
        answer = await self._client.json("GET", object_path(NODES, name))
        return self._learn(self._node_of(answer, place_of(object_path(NODES, name)), "GET"))

    async def ensure(self, name: str) -> Node | None:
        """Nodes of a cluster are made by their kubelets."""
        return None

    async def patch(self, name: str, patch: Patch) -> Node:
        """The answer to a patch of metadata alone is metadata alone; the rest of the Node is from the informer."""
        whole = patch.body.keys() != {"metadata"}
        request = Request(
            "PATCH",
            object_path(NODES, name, patch.subresource),
            {"fieldManager": FIELD_MANAGER},
            json.dumps(patch.body, separators=(",", ":")).encode(),
            STRATEGIC_MERGE_PATCH if patch.strategic else MERGE_PATCH,
            JSON if whole else METADATA_ONLY,
            fenced=True,
        )
        async with self._client.open(request) as response:
            data = await response.read()
        known = self.get(name)
        if known is not None and identified(data) == (name.encode(), known.uid.encode(), known.version.encode()):
            return known  # the watch was faster
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"PATCH {object_path(NODES, name)}: the answer is not JSON: {error}") from error
        node = self._node_of(answer, place_of(object_path(NODES, name), metadata_only=not whole), "PATCH")
        if not whole and known is not None and known.uid == node.uid and known is not node:
            rest = ("boot_id", "resources", "allocatable", "taints", "spec", "conditions")
            node = replace(node, **{name: getattr(known, name) for name in rest})
        return self._learn(node)

    async def close(self) -> None:
        if self._watching is not None:
            await tasks.cancel([self._watching])
        await self._client.close()

    def _parse(self, item: Mapping[str, Any]) -> Node:
        """What the watch says of a Node; parts that are as before, as in a kubelet's heartbeat, are kept as they are.

        Raises: ValueError.
        """
        if (same := self._same_version(item)) is not None:
            return same
        node = trim(item)
        known = self.get(node.name)
        if known is not None and known.same_content(node):
            offered = known.allocatable if known.allocatable == node.allocatable else node.allocatable
            node = replace(known, version=node.version, writer=node.writer, allocatable=offered, cut=node.cut)
        return self._newer(node)

    def _node_of(self, answer: Any, place: Place, method: str) -> Node:
        """Raises: Unavailable for what is not that Node."""
        try:
            item = check_object(answer, place, method)
            return self._same_version(item) or trim(item)
        except ValueError as error:
            raise Unavailable(f"{method} {place.path}: {error}") from error

    def _same_version(self, item: Mapping[str, Any]) -> Node | None:
        """The Node, if the answer to a PATCH or the watch has brought this version already."""
        metadata = item.get("metadata") or {}
        known = self.get(metadata.get("name") or "")
        if known is None or (known.uid, known.version) != (metadata.get("uid"), metadata.get("resourceVersion")):
            return None
        return known

    def _node_changed(self, before: Node | None, now: Node | None) -> None:
        if (node := now or before) is not None:
            self._changed(node.name)

    def _learn(self, node: Node) -> Node:
        """Keep an answer, unless the watch said meanwhile that this Node is gone; new Nodes come from the watch too."""
        known = self.get(node.name)
        if known is None or known.uid != node.uid:
            return node
        node = self._newer(node)
        self._nodes.items["", node.name] = node
        return node

    def _newer(self, node: Node) -> Node:
        """The Node, or what is known of it if that is newer."""
        known = self.get(node.name)
        return known if known is not None and known.uid == node.uid and _older(node, known) else node


@dataclass(frozen=True, slots=True)
class _Names(Collection[str]):
    """A view of the names of the Nodes."""

    items: Mapping[Key, Node]

    def __contains__(self, name: object) -> bool:
        return ("", name) in self.items

    def __iter__(self) -> Iterator[str]:
        return (name for _, name in self.items)

    def __len__(self) -> int:
        return len(self.items)


def _older(one: Node, other: Node) -> bool:
    """Versions of one object grow (Kubernetes API concepts, "Resource versions"); the watch may lag behind answers."""
    return one.version.isdecimal() and other.version.isdecimal() and int(one.version) < int(other.version)
