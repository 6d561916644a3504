"""The pods of this node as the API server knows them: who is Guaranteed, and which containers ask for whole CPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nfd.errors import KubeError, NotFound
from nfd.kube.check_responses import Key
from nfd.kube.client import KubeClient
from nfd.kube.informer import Informer, Store
from nfd.kube.list_pages import read_object
from nfd.kube.paths import PODS, in_namespace, object_path
from nfd.quantity import parse_quantity
from nfd.topology.allocations import Claim, Pod


class Claims:
    """Those of the pods of a node; `changed` is called when one is new, deleted, or in another phase."""

    def __init__(self, client: KubeClient, node: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._pods = Store(_parse, lambda before, now: changed())
        self.informer = Informer(client, PODS, self._pods, query={"fieldSelector": f"spec.nodeName={node}"})

    async def of(self, pods: Iterable[Pod]) -> dict[Key, Claim]:
        """Of these pods; one that the informer does not have yet is read.

        Raises: KubeError, NotFound too: without the pod it is unknown whether its CPUs are exclusive.
        """
        found: dict[Key, Claim] = {}
        for pod in pods:
            key = pod.namespace, pod.name
            known = self._pods.items.get(key)
            found[key] = known[0] if known else await self._ask(*key)
        return found

    async def _ask(self, namespace: str, name: str) -> Claim:
        try:
            return claim_of(await read_object(self._client, object_path(in_namespace(PODS, namespace), name)))
        except NotFound as error:
            raise KubeError(f"the kubelet has a pod {namespace}/{name} that the API server does not know") from error


def _parse(pod: Mapping[str, Any]) -> tuple[Claim, str]:
    """What a pod claims, and its phase."""
    return claim_of(pod), str((pod.get("status") or {}).get("phase") or "")


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
