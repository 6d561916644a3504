"""What a kubelet says may be allocated and what pods hold, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one resource that are near the same NUMA nodes; none if they have no preference."""

    resource: str
    ids: tuple[str, ...]
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of `memory` or of huge pages (`hugepages-2Mi`), on these NUMA nodes together."""

    resource: str
    size: int
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Container:
    """What one container holds. CPUs are exclusive ones, but for kubelets of old, which list shared ones too."""

    name: str
    cpus: tuple[int, ...] = ()
    devices: tuple[Devices, ...] = ()
    memory: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that the kubelet knows."""

    namespace: str
    name: str
    containers: tuple[Container, ...] = ()

    @property
    def has_devices(self) -> bool:
        return any(container.devices for container in self.containers)

    @property
    def holds(self) -> bool:
        """Whether it holds anything that is counted."""
        return any(one.cpus or one.devices or one.memory for one in self.containers)


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What may be given to pods at all, held or not."""

    cpus: tuple[int, ...] = ()
    devices: tuple[Devices, ...] = ()
    memory: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What the API server knows of a pod: whether its QoS class is Guaranteed, and its containers that ask for whole
    CPUs."""

    guaranteed: bool
    whole_cpus: frozenset[str] = frozenset()
