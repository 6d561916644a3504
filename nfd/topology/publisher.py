"""Writes the object with server-side apply, and only when it says something new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nfd.errors import Forbidden, KubeError, NotFound, Unauthorized
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import read_object
from nfd.kube.paths import NAMESPACES, object_path
from nfd.runtime import log
from nfd.topology.zones import API_VERSION, Json, owned, same

TOPOLOGIES = f"/apis/{API_VERSION}/noderesourcetopologies"
APPLY = "application/apply-patch+yaml"
MANAGER = "node-feature-discovery-topology-updater"
"""The field manager, NFD's."""

_log = log.get("topology")


class Publisher:
    """Remembers what was written last. `namespace` owns the object, which is deleted with it ("": no owner)."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._written: Mapping[str, Any] | None = None
        self._owner: Json | None = None
        self._refused = False

    async def publish(self, wanted: Json, *, look: bool) -> bool:
        """Whether it was written. With `look` the existing object is compared, else the one written last. Raises:
        KubeError."""
        wanted = owned(wanted, await self._find_owner())
        if not look and self._written == wanted:
            return False
        path = object_path(TOPOLOGIES, wanted["metadata"]["name"])
        differs = not same(wanted, await self._there(path))
        if differs:
            await self._apply(path, wanted)
        self._written = wanted
        return differs

    async def _find_owner(self) -> Json | None:
        """A reference to the own namespace; None if it does not exist or may not be read. Raises: KubeError."""
        if self._owner is None and self._namespace and not self._refused:
            try:
                found = await read_object(self._client, object_path(NAMESPACES, self._namespace))
            except Unauthorized:  # a token that is just being replaced
                raise
            except (Forbidden, NotFound) as error:
                self._refused = True
                _log.warning("the object gets no owner", path=self._namespace, error=error)
                return None
            uid = found["metadata"].get("uid")
            self._owner = {"apiVersion": "v1", "kind": "Namespace", "name": self._namespace, "uid": uid}
        return self._owner

    async def _there(self, path: str) -> Mapping[str, Any]:
        """Empty if there is none."""
        try:
            return await read_object(self._client, path)
        except NotFound:
            return {}

    async def _apply(self, path: str, wanted: Json) -> None:
        query = {"fieldManager": MANAGER, "force": "true"}
        try:
            await self._client.json("PATCH", path, wanted, query=query, content_type=APPLY)
        except NotFound as error:
            raise KubeError(
                "the cluster has no definition of NodeResourceTopology: apply deploy/crds/topology, or set"
                " topologyUpdater.createCRDs"
            ) from error
