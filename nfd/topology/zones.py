"""NodeResourceTopology objects (API topology.node.k8s.io/v1alpha2), pure.

Lists are in a fixed order, so that what means the same is the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xxhash

from nfd.topology.accounting import Amount, Left
from nfd.topology.numa import NumaNode

API_VERSION = "topology.node.k8s.io/v1alpha2"
KIND = "NodeResourceTopology"
POLICY = "topologyManagerPolicy"
SCOPE = "topologyManagerScope"
FINGERPRINT = "nodeTopologyPodsFingerprint"

_POLICIES = {"single-numa-node": "SingleNUMANode", "restricted": "Restricted", "best-effort": "BestEffort"}
_SCOPES = {"container": "ContainerLevel", "pod": "PodLevel"}
_SUFFIXES = ("", "k", "M", "G", "T", "P", "E")

Json = dict[str, Any]


def topology(node: str, zones: Sequence[Json], policy: str, scope: str, attributes: Mapping[str, str]) -> Json:
    """The whole object, without an owner."""
    named = {POLICY: policy, SCOPE: scope, **attributes}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": node},
        "topologyPolicies": [policy_in_one_word(policy, scope)],
        "attributes": [{"name": name, "value": value} for name, value in named.items()],
        "zones": list(zones),
    }


def owned(wanted: Json, owner: Json | None) -> Json:
    """With a reference to what takes the object along when it is deleted, if there is such a thing."""
    return {**wanted, "metadata": {**wanted["metadata"], "ownerReferences": [owner]}} if owner else wanted


def zones_of(nodes: Iterable[NumaNode], left: Left) -> list[Json]:
    return [_zone(node, left.nodes[node.number]) for node in nodes]


def policy_in_one_word(policy: str, scope: str) -> str:
    """`topologyPolicies`, which the attributes have made superfluous; what is not known is `None`."""
    if policy not in _POLICIES or scope not in _SCOPES:
        return "None"
    return f"{_POLICIES[policy]}{_SCOPES[scope]}"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """A set of pods, given by namespace and name, in short: schedulers compare it with the pods they know of a node.

    Version v001 of the k8stopologyawareschedwg pod fingerprint: the XXH64 of each name, seeded with that of its
    namespace; sorted, as little-endian words, hashed once more.
    """
    words = b"".join(
        struct.pack("<Q", one) for one in sorted(_hash(name, _hash(namespace)) for namespace, name in pods)
    )
    return f"pfp0v001{xxhash.xxh64_hexdigest(words)}"


def quantity(number: int) -> str:
    """A Kubernetes quantity in its canonical form: the greatest decimal suffix that needs no fraction."""
    power = 0
    while number and number % 1000 == 0 and power < len(_SUFFIXES) - 1:
        number, power = number // 1000, power + 1
    return f"{number}{_SUFFIXES[power]}"


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two objects say the same of a node; `other` may have been written with more owners."""
    parts = ("zones", "attributes", "topologyPolicies")
    if any((one.get(part) or []) != (other.get(part) or []) for part in parts):
        return False
    owners = [_owner(owner) for owner in (other.get("metadata") or {}).get("ownerReferences") or ()]
    return all(_owner(owner) in owners for owner in one["metadata"].get("ownerReferences") or ())


def _hash(text: str, seed: int = 0) -> int:
    return xxhash.xxh64_intdigest(text.encode(), seed)


def _owner(owner: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(owner.get(key) for key in ("apiVersion", "kind", "name", "uid"))


def _zone(node: NumaNode, amounts: Mapping[str, Amount]) -> Json:
    zone: Json = {"name": _name(node.number), "type": "Node"}
    if node.distances:
        zone["costs"] = [{"name": _name(number), "value": cost} for number, cost in node.distances.items()]
    zone["resources"] = [
        {
            "name": resource,
            "capacity": quantity(amount.capacity),
            "allocatable": quantity(amount.allocatable),
            "available": quantity(amount.available),
        }
        for resource, amount in amounts.items()
    ]
    return zone


def _name(number: int) -> str:
    return f"node-{number}"
