"""The pods of this node as the API server knows them: who is Guaranteed, and which containers ask for whole CPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from nfd.errors import KubeError, NotFound
from nfd.kube.connect import KubeClient
from nfd.kube.lists import read_object
from nfd.kube.watch import Watch, identity
from nfd.quantity import parse_quantity
from nfd.topology.held import Claim, Pod

PODS = "/api/v1/pods"
Key = tuple[str, str]
"""Namespace and name."""


class Claims:
    """Follows the pods of a node, as a Mirror does; `changed` is called when one comes, goes, or is in a new phase."""

    def __init__(self, client: KubeClient, node: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._known: dict[Key, tuple[Claim, str]] = {}
        self._watch = Watch(client, PODS, self, query={"fieldSelector": f"spec.nodeName={node}"})

    @property
    def synced(self) -> asyncio.Event:
        return self._watch.synced

    async def run(self) -> None:
        """Until cancelled. Raises: Forbidden if pods may not be listed."""
        await self._watch.run()

    def put(self, item: Mapping[str, Any]) -> None:
        known = claim_of(item), str((item.get("status") or {}).get("phase") or "")
        if self._known.get(identity(item)) != known:
            self._known[identity(item)] = known
            self._changed()

    def drop(self, item: Mapping[str, Any]) -> None:
        if self._known.pop(identity(item), None) is not None:
            self._changed()

    def listed(self, seen: frozenset[Key]) -> None:
        for key in self._known.keys() - seen:
            del self._known[key]
            self._changed()

    async def of(self, pods: Iterable[Pod]) -> dict[Key, Claim]:
        """Of these pods; one that the watch has not told of yet is asked for.

        Raises: KubeError, NotFound too: a pod of which nobody says whether its CPUs are its own cannot be counted.
        """
        found: dict[Key, Claim] = {}
        for pod in pods:
            key = pod.namespace, pod.name
            known = self._known.get(key)
            found[key] = known[0] if known else await self._ask(*key)
        return found

    async def _ask(self, namespace: str, name: str) -> Claim:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        try:
            return claim_of(await read_object(self._client, path))
        except NotFound as error:
            raise KubeError(f"the kubelet has a pod {namespace}/{name} that the API server does not know") from error


def claim_of(pod: Mapping[str, Any]) -> Claim:
    """By the QoS class that the API server gave it (Kubernetes documentation, "Pod Quality of Service Classes")."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    whole = frozenset(str(one.get("name")) for one in containers if _asks_for_whole_cpus(one))
    return Claim(status.get("qosClass") == "Guaranteed", whole)


def _asks_for_whole_cpus(container: Mapping[str, Any]) -> bool:
    asked = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    amount = parse_quantity(str(asked)) if asked is not None else None
    return amount is not None and amount > 0 and amount == int(amount)
