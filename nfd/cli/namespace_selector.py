"""Which NodeFeature objects a master goes by: those of namespaces that its nodeFeatureNamespaceSelector selects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfd.errors import Forbidden
from nfd.kube.client import KubeClient
from nfd.kube.lists import list_all, list_if_known
from nfd.kube.paths import NAMESPACES, NODE_FEATURES
from nfd.kube.responses import identity, labels_of
from nfd.master.http.reports_api import MasterState
from nfd.master.node.desired import OBJECT, Freshness
from nfd.master.rules.nodefeatures import FeatureObject, node_of, parse_feature_object

OPTION = "nodeFeatureNamespaceSelector"


@dataclass(frozen=True, slots=True)
class Selected:
    """Objects that count and those that do not; `doubt` says why that is not known, and then all of them count.

    `invalid` are origins of objects that exist and cannot be read, each with the node that it is for.
    """

    objects: Sequence[FeatureObject]
    left_out: Sequence[FeatureObject] = ()
    doubt: str = ""
    invalid: Mapping[str, str] = field(default_factory=dict)

    def lists(self, node: str) -> Freshness:
        """What a master that has all objects knows of them, for a pass over that node."""
        return Freshness(blind=node in self.invalid.values(), uncertain=self.invalid.keys())

    def remarks(self) -> Iterator[str]:
        """What whoever asked about the objects should know."""
        for one in self.left_out:
            yield f"NodeFeature {one.namespace}/{one.name} is left out: {OPTION} does not select its namespace"
        if self.doubt:
            yield f"whether {OPTION} leaves out NodeFeature objects is not known: {self.doubt}"


async def read_objects(
    client: KubeClient, standing: MasterState | None, query: Mapping[str, str] | None = None
) -> Selected:
    """NodeFeature objects, as a master with these settings sees them; None if nobody asked one. Raises: KubeError."""
    invalid: dict[str, str] = {}

    def parse(item: Mapping[str, Any]) -> FeatureObject | None:
        try:
            return parse_feature_object(item)
        except ValueError:
            invalid["{}{}/{}".format(OBJECT, *identity(item))] = node_of(item.get("metadata"))
            return None

    found = await list_if_known(client, NODE_FEATURES, parse, query)
    selector = standing.namespace_selector if standing is not None else None
    if selector is None and found:
        doubt = "the master does not tell it" if standing is not None else "give --master"
        return Selected(found, doubt=doubt, invalid=invalid)
    if not selector or not found:
        return Selected(found, invalid=invalid)
    try:
        namespaces = dict(await list_all(client, NAMESPACES, _labelled))
    except Forbidden as error:
        return Selected(found, doubt=f"it looks at the labels of namespaces; {error}", invalid=invalid)
    taken = [selector.selects(namespaces.get(one.namespace, {})) for one in found]
    pairs = list(zip(found, taken, strict=True))
    left_out = [one for one, counts in pairs if not counts]
    return Selected([one for one, counts in pairs if counts], left_out, invalid=invalid)


def _labelled(item: Mapping[str, Any]) -> tuple[str, Mapping[str, str]]:
    return str(item["metadata"]["name"]), labels_of(item)
