"""Metrics about the fleet: GPUs by product and state, resources that differ from labels, and chosen labels of nodes.

Only the leader has them, so that nothing is counted twice. Their number is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nfd.fleet.gpu_labels import read_gpus
from nfd.fleet.gpu_resources import differing_resources, is_hami
from nfd.names import NVIDIA_NS, key_problem
from nfd.runtime.prometheus import Family
from nfd.store.base import Node

MOST_LABELS = 10
"""Labels that one may choose."""
MOST_NODES = 10_000
"""Nodes with a series of their own."""
MOST_SERIES = 100
"""Products and states, or resources, with a series of their own; the rest is `others`."""
OK = "ok"
NODE = "node_name"
"""Not `node`, which scraping sets to the node of the master's pod."""
_INFO = "1 for each Node. The option featureInfoLabels lists the labels of the Node that become labels of the series."
_NODES = "Nodes with NVIDIA GPUs by product and state. The state is ok if there is no problem."
_GPUS = (
    "NVIDIA GPUs or MIG devices by product and state. State missing: the device is on PCI, but it is neither usable "
    "nor failing."
)
_DIFFERING = "Nodes whose amount of a GPU resource differs from the amount in their labels."
Sample = tuple[str, Mapping[str, str], float]
_ODD = re.compile(r"[^a-zA-Z0-9_]")


def label_name(key: str) -> str:
    """The metric's label for a label of a Node, as kube-state-metrics names it: `label_nvidia_com_gpu_product`."""
    return f"label_{_ODD.sub('_', key)}"


def chosen_problem(keys: Sequence[str]) -> str:
    """Why these labels cannot be chosen; "" if they can."""
    if len(keys) > MOST_LABELS:
        return f"{len(keys)} labels, at most {MOST_LABELS} are possible"
    for key in keys:
        if problem := key_problem(key):
            return f"{key[:100]!r}: {problem}"
    names = Counter(map(label_name, set(keys)))
    both = [key for key in keys if names[label_name(key)] > 1]
    return f"{' and '.join(map(repr, both))} have the same name in metrics" if both else ""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is counted of a node, and what that was made of."""

    node: Node
    product: str = ""
    state: str = OK
    devices: Mapping[str, int] | None = None
    differing: tuple[str, ...] = ()

    def are_of(self, node: Node) -> bool:
        before = self.node
        parts = ("labels", "annotations", "resources", "allocatable")
        return all(getattr(before, part) is getattr(node, part) for part in parts)


class FleetMetrics:
    """`nodes` are all Nodes, none where this master does not lead; `keys` are the chosen labels."""

    def __init__(self, nodes: Callable[[], Iterable[Node]], keys: Callable[[], Sequence[str]]) -> None:
        self._nodes = nodes
        self._keys = keys
        self._known: dict[str, _Facts] = {}

    def families(self) -> Iterator[Family]:
        """All series."""
        nodes = list(self._nodes())
        facts = [self._facts(node) for node in nodes]
        self._known = {one.node.name: one for one in facts}
        by_state: Counter[tuple[str, ...]] = Counter()
        devices: Counter[tuple[str, ...]] = Counter()
        differing: Counter[tuple[str, ...]] = Counter()
        for one in facts:
            differing.update((name,) for name in one.differing)
            if one.devices is not None:
                by_state[one.product, one.state] += 1
                devices.update({(one.product, state): count for state, count in one.devices.items()})
        yield Family("nfd_master_gpu_nodes", "gauge", _NODES, _bounded(by_state, "product", "state"))
        yield Family("nfd_master_gpus", "gauge", _GPUS, _bounded(devices, "product", "state"))
        yield Family("nfd_master_differing_resource_nodes", "gauge", _DIFFERING, _bounded(differing, "resource"))
        yield Family("nfd_node_feature_info", "gauge", _INFO, self._info(nodes))

    def _facts(self, node: Node) -> _Facts:
        known = self._known.get(node.name)
        return known if known is not None and known.are_of(node) else _facts_of(node)

    def _info(self, nodes: Iterable[Node]) -> list[Sample]:
        names = {key: label_name(key) for key in self._keys()}
        if not names:
            return []
        ordered = sorted(nodes, key=lambda node: node.name)[:MOST_NODES]
        return [
            ("", {NODE: node.name, **{name: node.labels.get(key, "") for key, name in names.items()}}, 1)
            for node in ordered
        ]


def _facts_of(node: Node) -> _Facts:
    if not any(f"{NVIDIA_NS}/gpu.{name}" in node.labels for name in ("count", "state", "present", "count.present")):
        return _Facts(node)
    gpus = read_gpus(node.labels)
    missing = max(gpus.present - gpus.usable - gpus.failing, 0)
    found = {"usable": gpus.usable, "failing": gpus.failing, "missing": missing}
    differing = () if is_hami(node.annotations) else differing_resources(node.labels, node.resources, node.allocatable)
    return _Facts(node, gpus.product or "unknown", gpus.state or OK, found if gpus else None, tuple(differing))


def _bounded(counts: Counter[tuple[str, ...]], *names: str) -> list[Sample]:
    """The series with the greatest counts, and one for the rest."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    found: list[Sample] = [
        ("", dict(zip(names, values, strict=True)), float(count)) for values, count in ordered[:MOST_SERIES]
    ]
    if rest := ordered[MOST_SERIES:]:
        found.append(("", {names[0]: "others", **dict.fromkeys(names[1:], "")}, float(sum(count for _, count in rest))))
    return found
