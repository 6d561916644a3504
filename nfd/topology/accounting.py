"""What is left in each NUMA node: capacity, allocatable and available of each resource, as numbers (pure).

* CPUs: capacity is those of the node, the rest reserved; held are those of containers of Guaranteed pods that ask for
  whole CPUs (Kubernetes documentation, "CPU Management Policies").
* Devices: by identity. One that is near several NUMA nodes counts in each, and is gone from each once it is held. One
  without a preference belongs to none.
* Memory and huge pages: as the kubelet's memory manager gives them out. A block on several NUMA nodes takes what is
  left in the first, then goes on with the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nfd.topology.allocations import Allocatable, Claim, Container, Memory, Pod
from nfd.topology.numa import NumaNode

CPU = "cpu"
MEMORY = "memory"
HUGEPAGES = "hugepages-"
EVERY_NAMESPACE = "*"


@dataclass(frozen=True, slots=True)
class Amount:
    """CPUs and devices in number, memory in bytes."""

    capacity: int
    allocatable: int
    available: int


@dataclass(frozen=True, slots=True)
class Left:
    """Amounts by node and resource, and what could not be counted."""

    nodes: Mapping[int, Mapping[str, Amount]]
    problems: tuple[tuple[str, str], ...] = ()
    """(subject, reason)"""


@dataclass(slots=True)
class _Ledger:
    """Device identities and bytes by (node, resource): what may be given away, and what is left."""

    ids: dict[tuple[int, str], set[str]] = field(default_factory=dict)
    taken: dict[tuple[int, str], set[str]] = field(default_factory=dict)
    size: dict[tuple[int, str], int] = field(default_factory=dict)
    left: dict[tuple[int, str], int] = field(default_factory=dict)


def account(
    nodes: Sequence[NumaNode],
    allocatable: Allocatable,
    pods: Iterable[Pod],
    claims: Mapping[tuple[str, str], Claim],
    excluded: Collection[str] = (),
) -> Left:
    """`claims` are those of the pods, by namespace and name."""
    problems: list[tuple[str, str]] = []
    home = {cpu: node.number for node in nodes for cpu in node.cpus}
    ledger = _open(allocatable, home, frozenset(node.number for node in nodes), problems)
    where = _where(ledger)
    for pod in pods:
        claim = claims[pod.namespace, pod.name]
        if claim.guaranteed or pod.has_devices:
            for container in pod.containers:
                _take(ledger, where, container, claim, f"{pod.namespace}/{pod.name}", problems)
    amounts = {node.number: _amounts(ledger, node, excluded) for node in nodes}
    return Left(amounts, tuple(dict.fromkeys(problems)))


def counted(pods: Iterable[Pod], namespace: str) -> list[Pod]:
    """Those that hold anything, in that namespace or, for `*`, in any."""
    return [pod for pod in pods if namespace in (EVERY_NAMESPACE, pod.namespace) and pod.holds]


def excluded_for(node: str, lists: Mapping[str, Collection[str]]) -> frozenset[str]:
    """What `excludeList` leaves out on a node: its own entry and that of `*` together."""
    return frozenset({*lists.get(node, ()), *lists.get("*", ())})


def _open(
    allocatable: Allocatable, home: Mapping[int, int], known: frozenset[int], problems: list[tuple[str, str]]
) -> _Ledger:
    ledger = _Ledger()
    for cpu in allocatable.cpus:
        if cpu in home:
            ledger.ids.setdefault((home[cpu], CPU), set()).add(str(cpu))
        else:
            problems.append((f"CPU {cpu}", "is allocatable, but online in no NUMA node"))
    for devices in allocatable.devices:
        for number in devices.nodes:
            if number in known:
                ledger.ids.setdefault((number, devices.resource), set()).update(devices.ids)
            else:
                problems.append((devices.resource, f"is near NUMA node {number}, which there is not"))
    for block in allocatable.memory:
        for number in block.nodes:
            if number in known:
                key = number, block.resource
                ledger.size[key] = ledger.left[key] = ledger.size.get(key, 0) + block.size
    return ledger


def _where(ledger: _Ledger) -> dict[tuple[str, str], list[int]]:
    """Resource and identity → the nodes that count it."""
    found: dict[tuple[str, str], list[int]] = {}
    for (number, resource), ids in ledger.ids.items():
        for identity in ids:
            found.setdefault((resource, identity), []).append(number)
    return found


def _take(
    ledger: _Ledger,
    where: Mapping[tuple[str, str], list[int]],
    container: Container,
    claim: Claim,
    pod: str,
    problems: list[tuple[str, str]],
) -> None:
    held = [(devices.resource, identity) for devices in container.devices for identity in devices.ids]
    if claim.guaranteed and container.name in claim.whole_cpus:
        held += [(CPU, str(cpu)) for cpu in container.cpus]
    for resource, identity in held:
        for number in where.get((resource, identity), ()):
            ledger.taken.setdefault((number, resource), set()).add(identity)
    for block in container.memory:
        if missing := _take_memory(ledger, block):
            problems.append((pod, f"holds {missing} bytes of {block.resource} more than its NUMA nodes have"))


def _take_memory(ledger: _Ledger, block: Memory) -> int:
    """What of the block is nowhere left."""
    rest = block.size
    for number in block.nodes:
        share = min(rest, ledger.left.get((number, block.resource), 0))
        if share:
            ledger.left[number, block.resource] -= share
            rest -= share
    return rest if block.nodes else 0


def _amounts(ledger: _Ledger, node: NumaNode, excluded: Collection[str]) -> dict[str, Amount]:
    """Of one node, by resource; its CPUs even where all are reserved."""
    found = {CPU: Amount(len(node.cpus), 0, 0)}
    for (number, resource), ids in ledger.ids.items():
        if number == node.number:
            taken = ledger.taken.get((number, resource), set())
            capacity = len(node.cpus) if resource == CPU else len(ids)
            found[resource] = Amount(capacity, len(ids), len(ids - taken))
    for (number, resource), size in ledger.size.items():
        if number == node.number:
            found[resource] = Amount(node.memory.get(resource, size), size, ledger.left[number, resource])
    return {resource: found[resource] for resource in sorted(found) if resource not in excluded}
