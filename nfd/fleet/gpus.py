"""Who has which GPUs: products × memory × MIG layout × sharing × driver, over all nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nfd.fleet.nodes import NodeSummary


@dataclass(frozen=True, slots=True)
class Amount:
    """Of one resource: what is offered, and what of it pods hold."""

    allocatable: int = 0
    allocated: int = 0

    def plus(self, allocatable: int, allocated: int) -> Amount:
        return Amount(self.allocatable + allocatable, self.allocated + allocated)


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes whose GPUs are alike. `memory` is in MiB of one device, of the greatest where there are several kinds.

    `usable` and `present` count devices over all of the nodes, as `Gpus` does for one.
    """

    product: str
    memory: int = 0
    mig: str = ""
    sharing: str = ""
    driver: str = ""
    nodes: tuple[str, ...] = ()
    usable: int = 0
    present: int = 0
    resources: Mapping[str, Amount] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints."""
        found: dict[str, Any] = {
            name: getattr(self, name) for name in ("product", "memory", "mig", "sharing", "driver", "usable", "present")
        }
        amounts = {
            name: {"allocatable": one.allocatable, "allocated": one.allocated} for name, one in self.resources.items()
        }
        return {key: value for key, value in found.items() if value not in ("", None)} | {
            "nodes": list(self.nodes),
            "resources": amounts,
        }


def group(nodes: Iterable[NodeSummary]) -> list[Group]:
    """Nodes with GPUs, the most numerous products first."""
    found: dict[tuple[str, int, str, str, str], list[NodeSummary]] = {}
    for node in nodes:
        if node.gpus or node.resources:
            found.setdefault(_key(node), []).append(node)
    groups = [_join(key, members) for key, members in found.items()]
    return sorted(groups, key=lambda one: (-one.present, one.product, one.memory, one.mig, one.sharing, one.driver))


def sharing_of(node: NodeSummary) -> str:
    """How the GPUs of a node are shared; several ways where its resources differ."""
    return " ".join(dict.fromkeys(one.shared for one in node.resources if one.shared))


def _key(node: NodeSummary) -> tuple[str, int, str, str, str]:
    gpus = node.gpus
    memory = max((model.memory for model in gpus.models), default=0)
    return gpus.product, memory, gpus.layout, sharing_of(node), gpus.driver


def _join(key: tuple[str, int, str, str, str], members: list[NodeSummary]) -> Group:
    resources: dict[str, Amount] = {}
    for node in members:
        for one in node.resources:
            resources[one.name] = resources.get(one.name, Amount()).plus(one.allocatable, one.allocated)
    names = tuple(sorted(node.name for node in members))
    usable, present = (sum(getattr(node.gpus, part) for node in members) for part in ("usable", "present"))
    return Group(*key, names, usable, present, dict(sorted(resources.items())))
