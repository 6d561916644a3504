"""What all nodes of a group have in common: labels that pods select by, taints, and extended resources.

A planner (cluster autoscaler, Karpenter, Kueue, Volcano) decides with it about nodes that do not exist yet. So states,
timestamps, values of a single node and kernel versions, which change with the image, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from nfd.fleet.pods import whole
from nfd.names import FEATURE_NS, MAX_NAME, instance_of, is_below, listed_key
from nfd.quantity import parse_quantity

_LIST = "feature-labels"
_PASSING = (
    (re.compile(r".+/(.+\.)?(state|failing|recovery|remap)", re.ASCII), "it is a state"),
    (re.compile(r".+/(.+\.)?timestamp", re.ASCII), "it is a time"),
    (re.compile(r"nvidia\.com/gpu\.clique", re.ASCII), "it belongs to single nodes"),
    (re.compile(rf"{re.escape(FEATURE_NS)}/kernel-version\..+", re.ASCII), "it changes with the image"),
)
_PASSING_TAINTS = (
    "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/", "karpenter.sh/",
    "readiness.k8s.io/", "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler",
)  # fmt: skip
"""Taints that come and go with the state of a node (Kubernetes documentation, "Taints and Tolerations")."""
_RANKS = (
    "nvidia.com/gpu.product", "nvidia.com/gpu.memory", "nvidia.com/gpu.count", "nvidia.com/gpu.family",
    "nvidia.com/gpu.compute", "nvidia.com/gpu.", "nvidia.com/mig", "nvidia.com/", "amd.com/gpu.", "habana.ai/",
    f"{FEATURE_NS}/accelerator-", f"{FEATURE_NS}/pci-", f"{FEATURE_NS}/rdma", f"{FEATURE_NS}/cpu-model",
    f"{FEATURE_NS}/memory", f"{FEATURE_NS}/network", f"{FEATURE_NS}/storage", f"{FEATURE_NS}/system",
)  # fmt: skip
_LAST = f"{FEATURE_NS}/cpu-cpuid."
Json = Mapping[str, Any]
Taint = tuple[str, str, str]
"""Key, value, effect."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A group of nodes, `count` of them, as each of them is.

    `cpu` (cores) and `memory` (bytes) are the least capacity in the group. `left_out` gives for a label or resource
    the reason why it is not in the template.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    resources: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    count: int = 0
    arch: str = ""
    os: str = ""
    cpu: int = 0
    memory: int = 0
    pool: str = ""
    instance_types: tuple[str, ...] = ()

    @property
    def object_name(self) -> str:
        """The name as one of a Kubernetes object (RFC 1123 label)."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")[:MAX_NAME].rstrip("-") or "nodes"

    @property
    def by_rank(self) -> list[str]:
        """The label keys, those that pods select by most often first."""
        return sorted(self.labels, key=lambda key: (_rank(key), key))


def _rank(key: str) -> int:
    if key.startswith(_LAST):
        return len(_RANKS) + 1
    return next((index for index, prefix in enumerate(_RANKS) if key.startswith(prefix)), len(_RANKS))


def group_nodes(nodes: Iterable[Json], label: str) -> tuple[dict[str, list[Json]], list[str]]:
    """The nodes by the value of a label, and the names of nodes without that label."""
    groups: dict[str, list[Json]] = {}
    without: list[str] = []
    for node in nodes:
        value = labels_of(node).get(label, "")
        if value:
            groups.setdefault(value, []).append(node)
        else:
            without.append(node["metadata"]["name"])
    return dict(sorted(groups.items())), sorted(without)


def labels_of(node: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("labels") or {}
    return found


def managed_labels(node: Json) -> frozenset[str]:
    """The labels on the Node that an nfd-master manages."""
    return listed_labels(node["metadata"].get("annotations") or {}) & labels_of(node).keys()


def listed_labels(annotations: Mapping[str, str]) -> frozenset[str]:
    """The label keys in the lists of all nfd-masters on a Node, also NFD's (NFD documentation, "Annotations")."""
    found: set[str] = set()
    for key, text in annotations.items():
        if key.endswith(f"/{_LIST}") and instance_of(key) is not None:
            found.update(listed_key(part) for part in text.split(",") if part)
    return frozenset(found)


def make_template(name: str, nodes: Sequence[Json], keys: Collection[str] = ()) -> NodeTemplate:
    """What the nodes have in common. `keys` are patterns (fnmatch); with some, only labels that match one are taken.

    Raises: ValueError if there is no node.
    """
    if not nodes:
        raise ValueError(f"group {name}: no node of it has feature labels")
    labels, left_out = _common_labels(nodes, keys)
    resources, unequal = _common_resources(nodes)
    info = [(node.get("status") or {}).get("nodeInfo") or {} for node in nodes]
    return NodeTemplate(
        name=name,
        labels=labels,
        taints=_common_taints(nodes),
        resources=resources,
        left_out=left_out | unequal,
        count=len(nodes),
        arch=_same(labels_of(node).get("kubernetes.io/arch", "") for node in nodes)
        or _same(str(one.get("architecture", "")) for one in info),
        os=_same(labels_of(node).get("kubernetes.io/os", "linux") for node in nodes),
        cpu=_least(nodes, "cpu"),
        memory=_least(nodes, "memory"),
        pool=_same(labels_of(node).get("karpenter.sh/nodepool", "") for node in nodes),
        instance_types=tuple(
            sorted({labels_of(node).get("node.kubernetes.io/instance-type", "") for node in nodes} - {""})
        ),
    )


def _common_labels(nodes: Sequence[Json], keys: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    labels: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for key in sorted(frozenset().union(*(managed_labels(node) for node in nodes))):
        if keys and not any(fnmatchcase(key, pattern) for pattern in keys):
            continue
        values = {labels_of(node).get(key) for node in nodes}
        if reason := next((text for pattern, text in _PASSING if pattern.fullmatch(key)), ""):
            left_out[key] = reason
        elif None in values:
            lacking = sum(key not in labels_of(node) for node in nodes)
            left_out[key] = f"{lacking} of {len(nodes)} nodes do not have it"
        elif len(values) > 1:
            left_out[key] = f"the nodes have {len(values)} values"
        else:
            labels[key] = labels_of(nodes[0])[key]
    return labels, left_out


def _common_taints(nodes: Sequence[Json]) -> tuple[Taint, ...]:
    sets = [set(_lasting_taints(node)) for node in nodes]
    return tuple(sorted(set.intersection(*sets)))


def _lasting_taints(node: Json) -> Iterator[Taint]:
    for taint in (node.get("spec") or {}).get("taints") or ():
        key = str(taint.get("key", ""))
        if not key.startswith(_PASSING_TAINTS):
            yield key, str(taint.get("value") or ""), str(taint.get("effect", ""))


def _common_resources(nodes: Sequence[Json]) -> tuple[dict[str, str], dict[str, str]]:
    """Extended resources with the same capacity on all nodes; the others with a reason. Zero counts as none."""
    found = [
        {name: amount for name, amount in _capacity(node).items() if is_extended(name) and parse_quantity(amount)}
        for node in nodes
    ]
    resources: dict[str, str] = {}
    unequal: dict[str, str] = {}
    for name in sorted({name for one in found for name in one}):
        values = {one.get(name) for one in found}
        if len(values) == 1:
            resources[name] = found[0][name]
        else:
            unequal[name] = "the nodes have different amounts"
    return resources, unequal


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: it has a domain that is not Kubernetes's own (KEP-1819)."""
    domain = name.rpartition("/")[0]
    return bool(domain) and not is_below(domain, "kubernetes.io")


def _capacity(node: Json) -> dict[str, str]:
    return {name: str(amount) for name, amount in ((node.get("status") or {}).get("capacity") or {}).items()}


def _least(nodes: Sequence[Json], name: str) -> int:
    return min(whole(_capacity(node).get(name, "0")) for node in nodes)


def _same(values: Iterable[str]) -> str:
    """The one value that all have, "" if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def distinguish(template: NodeTemplate, others: Iterable[Mapping[str, str]], limit: int) -> tuple[dict[str, str], int]:
    """A few labels that tell the group from nodes with the labels `others`, and how many nodes have them all, too.

    The first one is what pods select by most often; then the one that most of the remaining nodes do not have, at most
    `limit` in all.
    """
    chosen: dict[str, str] = {}
    keys = template.by_rank
    rest = list(others)
    if keys:
        chosen[keys[0]] = template.labels[keys[0]]
        rest = [labels for labels in rest if _has(labels, chosen)]
    while rest and len(chosen) < limit:
        best = min(keys, key=lambda key: sum(_has(labels, {key: template.labels[key]}) for labels in rest))
        left = [labels for labels in rest if _has(labels, {best: template.labels[best]})]
        if len(left) == len(rest):
            break
        chosen[best] = template.labels[best]
        rest = left
    return chosen, len(rest)


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
