"""The two places where Nodes are kept, behind one face: tests put a state in, let the master work, and look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml

from nfd.kube.client import connect
from nfd.master.node.proof import Proof
from nfd.store.base import NodeStore
from nfd.store.file import FileStore, merge
from nfd.store.kube import KubeStore
from tests.controlplane import objects
from tests.controlplane.cluster import ControlPlane

Json = dict[str, Any]
PROOF = Proof(b"the key in the Secret of masters")
"""Of all masters of a test, as of replicas, and of those that come after one another."""


class Place(Protocol):
    """Every test has a node name of its own."""

    async def open(self) -> NodeStore: ...

    def create(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], boot_id: str) -> Json: ...

    def get(self, name: str) -> Json: ...

    def edit(self, name: str, patch: Json, subresource: str = "") -> None: ...

    def delete(self, name: str) -> None: ...


@dataclass
class Folder:
    """A folder of Node files, written as a person would."""

    path: Path
    uids: int = 0

    async def open(self) -> NodeStore:
        return FileStore(self.path)

    def create(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], boot_id: str) -> Json:
        self.uids += 1
        metadata = {"name": name, "uid": f"uid-{self.uids}", "labels": dict(labels), "annotations": dict(annotations)}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": metadata,
            "status": {"capacity": {"cpu": 8, "pods": "110"}, "nodeInfo": {"bootID": boot_id}},
        }
        self._write(name, node)
        return node

    def get(self, name: str) -> Json:
        found: Json = yaml.safe_load((self.path / f"{name}.yaml").read_text())
        return found

    def edit(self, name: str, patch: Json, subresource: str = "") -> None:
        self._write(name, merge(self.get(name), patch))

    def delete(self, name: str) -> None:
        (self.path / f"{name}.yaml").unlink()

    def _write(self, name: str, node: Json) -> None:
        new = self.path / f".{name}.new"
        new.write_text(yaml.safe_dump(node))
        new.replace(self.path / f"{name}.yaml")


@dataclass
class Cluster:
    """A real kube-apiserver; edits are the admin's."""

    plane: ControlPlane

    async def open(self) -> NodeStore:
        return KubeStore(await connect(str(self.plane.kubeconfig)), page_size=2)

    def create(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], boot_id: str) -> Json:
        """As `create_node`, with a field that has an owner: the server keeps no managedFields of objects without."""
        node = objects.node(name, labels, annotations) | {"spec": {"providerID": f"test://{name}"}}
        self.plane.request("POST", "/api/v1/nodes?fieldManager=kubelet", node)
        self.plane.request("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        return self.plane.request("PATCH", f"/api/v1/nodes/{name}/status", objects.node_status(boot_id))

    def get(self, name: str) -> Json:
        return self.plane.get_node(name)

    def edit(self, name: str, patch: Json, subresource: str = "") -> None:
        tail = f"/{subresource}" if subresource else ""
        self.plane.request("PATCH", f"/api/v1/nodes/{name}{tail}?fieldManager=somebody", patch)

    def delete(self, name: str) -> None:
        self.plane.delete_node(name)


def labels_of(place: Place, name: str) -> dict[str, str]:
    found: dict[str, str] = place.get(name)["metadata"].get("labels", {})
    return found


def notes_of(place: Place, name: str) -> dict[str, str]:
    found: dict[str, str] = place.get(name)["metadata"].get("annotations", {})
    return found


async def until(done: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition; a TimeoutError if it does not come true in time."""
    async with asyncio.timeout(seconds):
        while not done():
            await asyncio.sleep(0.02)
