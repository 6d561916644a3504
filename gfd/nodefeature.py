"""Writes labels to a NodeFeature object, from which a master of NFD or of this product labels the node.

Object, names and owner references are those of GPU feature discovery (k8s-device-plugin, `internal/lm/output.go`,
`internal/flags/node-feature.go`). The Kubernetes client is imported here only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from gfd.options import Config
from gfd.output import Output
from nfd.errors import ConfigError, Conflict, KubeError, NotFound, Unavailable
from nfd.names import NFD_NS
from nfd.runtime import log, tasks
from nfd.runtime.optional_packages import extras

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

T = TypeVar("T")
Guard = Callable[[], AbstractContextManager[None]]
"""Around what may be broken off by a signal."""

GROUP = "nfd.k8s-sigs.io/v1alpha1"
RESOURCE = "nodefeatures"
EMPTY: Mapping[str, Mapping[str, str]] = {"flags": {}, "attributes": {}, "instances": {}}

_ATTEMPTS = 3
_log = log.get("gfd")


class NodeFeatureOutput(Output):
    """The object of one node. Every use opens a connection and closes it; it waits for answers within `guard`."""

    def __init__(
        self, node: str, namespace: str, pod: str = "", kubeconfig: str = "", guard: Guard = nullcontext
    ) -> None:
        self._node = node
        self._namespace = namespace
        self._pod = pod
        self._kubeconfig = kubeconfig
        self._guard = guard
        self._owners: list[dict[str, Any]] | None = None
        """None as long as they are not known."""
        self._told = ""

    @property
    def place(self) -> str:
        return f"NodeFeature {self._namespace}/{self._name()}"

    def read(self) -> Mapping[str, str]:
        """The labels of the object that is there."""
        found = self._run(self._get)
        return {} if found is None else dict((found.get("spec") or {}).get("labels") or {})

    def write(self, labels: Mapping[str, str]) -> bool:
        """Create or update the object unless it says the same already. Raises KubeError."""
        return self._run(lambda client: self._write(client, labels))

    def remove(self) -> None:
        """Delete the object, if there is one. Raises KubeError."""
        self._run(self._delete)

    def is_served(self) -> bool:
        """Whether the cluster knows NodeFeature objects. Raises KubeError."""
        return self._run(is_served)

    def _run(self, work: Callable[[KubeClient], Awaitable[T]]) -> T:
        with self._guard():
            return tasks.run(with_client(self._kubeconfig, work))

    async def _get(self, client: KubeClient) -> Mapping[str, Any] | None:
        from nfd.kube.list_pages import read_object

        try:
            return await read_object(client, self._path())
        except NotFound:
            return None

    async def _write(self, client: KubeClient, labels: Mapping[str, str]) -> bool:
        if self._owners is None:
            self._owners = await self._try_owners(client)
        for attempt in range(_ATTEMPTS):
            found = await self._get(client)
            wanted = self._wanted(found, labels)
            if wanted == found:
                return False
            try:
                await client.json("PUT" if found else "POST", self._path() if found else self._folder(), wanted)
                return True
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
        return False

    async def _delete(self, client: KubeClient) -> None:
        try:
            await client.json("DELETE", self._path())
        except NotFound:
            return

    def _wanted(self, found: Mapping[str, Any] | None, labels: Mapping[str, str]) -> dict[str, Any]:
        """The existing object with this program's label, owners and labels of the node; without one, a new object.

        Owners that are not known stay as they are.
        """
        metadata = dict(found["metadata"]) if found else {"name": self._name(), "namespace": self._namespace}
        metadata["labels"] = {f"{NFD_NS}/node-name": self._node}
        if self._owners:
            metadata["ownerReferences"] = self._owners
        elif self._owners is not None:
            metadata.pop("ownerReferences", None)
        spec = {"features": EMPTY, "labels": dict(labels)}
        return {**(found or {}), "apiVersion": GROUP, "kind": "NodeFeature", "metadata": metadata, "spec": spec}

    async def _try_owners(self, client: KubeClient) -> list[dict[str, Any]] | None:
        """None, with a warning that is not repeated, if the pod cannot be read now: the next pass tries again."""
        try:
            return await self._read_owners(client)
        except (KubeError, LookupError, TypeError, AttributeError) as error:
            reason = str(error) if isinstance(error, KubeError) else "the answer is not a Pod"
            if reason != self._told:
                _log.warning("cannot read the owner of the NodeFeature object", error=reason)
            self._told = reason
            return None

    async def _read_owners(self, client: KubeClient) -> list[dict[str, Any]]:
        """The pod and the DaemonSet it is of; none without a pod, or if that is of something else. Raises KubeError."""
        from nfd.kube.list_pages import read_object

        if not self._pod:
            return []
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{quote(self._pod, safe='')}"
        metadata = (await read_object(client, path))["metadata"]
        owners = (one for one in metadata.get("ownerReferences") or () if one.get("kind") == "DaemonSet")
        daemon_set = next(owners, None)
        if daemon_set is None:
            return []
        pod = {"apiVersion": "v1", "kind": "Pod", "name": self._pod, "uid": metadata["uid"]}
        return [{key: daemon_set[key] for key in ("apiVersion", "kind", "name", "uid")} | {"controller": True}, pod]

    def _name(self) -> str:
        return f"nvidia-features-for-{self._node}"

    def _folder(self) -> str:
        return f"/apis/{GROUP}/namespaces/{quote(self._namespace, safe='')}/{RESOURCE}"

    def _path(self) -> str:
        return f"{self._folder()}/{quote(self._name(), safe='')}"


def open_node_feature(config: Config, guard: Guard = nullcontext) -> NodeFeatureOutput | None:
    """The output that the options name, None, with a warning, in a cluster without NodeFeature objects.

    Raises: KubeError if there is no cluster, or no name for the object.
    """
    output = make_output(config, guard)
    if output.is_served():
        return output
    path = config.flags.gfd.output_file
    _log.warning("the cluster has no NodeFeature API; writing a feature file", path=path)
    return None


def make_output(config: Config, guard: Guard = nullcontext) -> NodeFeatureOutput:
    for value, name, variable in (
        (config.node_name, "node-name", "NODE_NAME"),
        (config.namespace, "namespace", "NAMESPACE"),
    ):
        if not value:
            raise KubeError(f"the NodeFeature API needs --{name} ({variable}); or use --use-node-feature-api=false")
    return NodeFeatureOutput(config.node_name, config.namespace, config.pod_name, config.kubeconfig, guard)


async def is_served(client: KubeClient) -> bool:
    try:
        found = await client.json("GET", f"/apis/{GROUP}")
    except NotFound:
        return False
    listed = found.get("resources") if isinstance(found, Mapping) and found.get("kind") == "APIResourceList" else None
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise Unavailable(f"GET /apis/{GROUP}: the answer is not a list of resources; is this a Kubernetes API server?")
    return any(one.get("name") == RESOURCE for one in listed)


async def with_client(kubeconfig: str, work: Callable[[KubeClient], Awaitable[T]]) -> T:
    """Raises KubeError if there is no cluster to connect to."""
    try:
        with extras():
            from nfd.kube.client import connect

            client = await connect(kubeconfig)
    except ConfigError as error:
        raise KubeError(str(error)) from error
    try:
        return await work(client)
    finally:
        await client.close()
