"""The NodeFeature objects that a master uses: those in namespaces that its nodeFeatureNamespaceSelector selects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.errors import Forbidden
from nfd.kube.check_responses import identity, labels_of
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import list_all, list_if_known
from nfd.kube.paths import NAMESPACES, NODE_FEATURES
from nfd.master.http.reports_api import MasterState
from nfd.master.node.desired import OBJECT_ORIGIN, Freshness
from nfd.master.rules.nodefeatures import NODE_NAME, FeatureObject, node_of, parse_feature_object

OPTION = "nodeFeatureNamespaceSelector"


@dataclass(frozen=True, slots=True)
class Selected:
    """Selected objects and others. `doubt` is why the selection is unknown; then all objects are used.

    `invalid` are the origins of invalid objects, each with its node.
    """

    objects: Sequence[FeatureObject]
    left_out: Sequence[FeatureObject] = ()
    doubt: str = ""
    invalid: Mapping[str, str] = field(default_factory=dict)

    def lists(self, node: str) -> Freshness:
        """What a master that has all objects knows of their lists, for a pass over that node."""
        return Freshness(blind=node in self.invalid.values(), uncertain=self.invalid.keys())

    def remarks(self) -> Iterator[str]:
        """Remarks for the user."""
        for one in self.left_out:
            yield f"NodeFeature {one.namespace}/{one.name} is ignored: {OPTION} does not select its namespace"
        if self.doubt:
            yield f"it is unknown whether {OPTION} excludes NodeFeature objects: {self.doubt}"


@dataclass(frozen=True, slots=True)
class ObjectDocuments:
    """NodeFeature objects as the API server has them, and the labels of namespaces by name.

    `namespaces` is None where they are not needed or, with `doubt`, could not be read.
    """

    items: Sequence[Mapping[str, Any]] = ()
    namespaces: Mapping[str, Mapping[str, str]] | None = None
    doubt: str = ""

    def select(self, state: MasterState | None) -> Selected:
        """The objects, as a master in this state uses them; None without a master."""
        found, invalid = _parse_all(self.items)
        selector = state.namespace_selector if state is not None else None
        if selector is None and found:
            doubt = "the master is too old to report it" if state is not None else "give --master"
            return Selected(found, doubt=doubt, invalid=invalid)
        if not selector:
            return Selected(found, invalid=invalid)
        if self.namespaces is None:
            return Selected(found, doubt=self.doubt, invalid=invalid)
        taken = {name for name, labels in self.namespaces.items() if selector.selects(labels)}
        selected = [one for one in found if one.namespace in taken]
        left_out = [one for one in found if one.namespace not in taken]
        origins = {origin: node for origin, node in invalid.items() if _namespace_of(origin) in taken}
        return Selected(selected, left_out, invalid=origins)


def _parse_all(items: Iterable[Mapping[str, Any]]) -> tuple[list[FeatureObject], dict[str, str]]:
    """Valid objects, and the origins of invalid ones with their nodes."""
    found: list[FeatureObject] = []
    invalid: dict[str, str] = {}
    for item in items:
        try:
            found.append(parse_feature_object(item))
        except ValueError:
            invalid["{}{}/{}".format(OBJECT_ORIGIN, *identity(item))] = node_of(item.get("metadata"))
    return found, invalid


def _namespace_of(origin: str) -> str:
    return origin.removeprefix(OBJECT_ORIGIN).partition("/")[0]


async def read_objects(client: KubeClient, state: MasterState | None, node: str) -> Selected:
    """The node's NodeFeature objects, as a master in this state uses them; None without a master. Raises: KubeError."""
    selects = state is not None and bool(state.namespace_selector)
    return (await read_object_documents(client, node, namespaces=selects)).select(state)


async def read_object_documents(client: KubeClient, node: str = "", *, namespaces: bool) -> ObjectDocuments:
    """NodeFeature objects ("": of all nodes), and with `namespaces` the labels of namespaces. Raises: KubeError."""
    query = {"labelSelector": f"{NODE_NAME}={node}"} if node else None
    items = await list_if_known(client, NODE_FEATURES, without_managers, query)
    if not items or not namespaces:
        return ObjectDocuments(items)
    try:
        return ObjectDocuments(items, dict(await list_all(client, NAMESPACES, _labelled)))
    except Forbidden as error:
        return ObjectDocuments(items, doubt=f"it needs the labels of namespaces; {error}")


def without_managers(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object without the fields of its managers."""
    metadata = item.get("metadata")
    if not isinstance(metadata, Mapping):
        return item
    return {**item, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _labelled(item: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    return str(item["metadata"]["name"]), labels_of(item)
