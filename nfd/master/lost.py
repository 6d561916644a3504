"""Custom resources that exist, but make no sense: what they gave before the master started is not known to be gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nfd.master.desired import OBJECT, RULE
from nfd.master.mirror import Mirrored
from nfd.master.objects import NODE_NAME


class Lost:
    """Origins of the lost ones, and the nodes that lost NodeFeatures are for."""

    def __init__(self, objects: Mirrored[Any], rules: Mirrored[Any]) -> None:
        self._objects = objects
        self._rules = rules
        self._seen = (0, 0)
        self._origins: frozenset[str] = frozenset()
        self._nodes: frozenset[str] = frozenset()

    def origins(self) -> frozenset[str]:
        """`object:NAMESPACE/NAME` and `rule:OBJECT`."""
        self._look()
        return self._origins

    def concern(self, node: str) -> bool:
        """Whether rules see less of this node than there is."""
        self._look()
        return node in self._nodes

    def _look(self) -> None:
        seen = (self._objects.losses, self._rules.losses)
        if seen == self._seen:
            return
        self._seen = seen
        objects = (f"{OBJECT}{namespace}/{name}" for namespace, name in self._objects.lost)
        self._origins = frozenset((*objects, *(f"{RULE}{name}" for _, name in self._rules.lost)))
        self._nodes = frozenset(map(_node_of, self._objects.lost.values()))


def _node_of(metadata: object) -> str:
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    node = labels.get(NODE_NAME) if isinstance(labels, Mapping) else None
    return node if isinstance(node, str) else ""
