"""What a kubelet has on that machine, and what is left by hand.

CPUs 0 and 8 are reserved, and 1 GiB on node 0. Four GPUs, two on each node; a network card that is near both; a dongle
without a preference. Pods:

* `pinned`, Guaranteed: CPUs 1 and 9, 4 GiB and 512 MiB of huge pages on node 0, one GPU there
* `wide`, Guaranteed, in namespace `other`: CPUs 12 and 13, 40 GiB over both nodes, the network card
* `fraction`, Guaranteed, half a CPU: the shared CPU that an old kubelet lists is not its own
* `burstable`, with a GPU on node 1, shared CPUs and the dongle
* `idle`, which holds shared CPUs and nothing else
"""

from __future__ import annotations

from typing import Any

from nfd.topology import podresources_pb2 as pb
from tests.topology.machine import GIB, MIB

GPU, NIC, DONGLE = "nvidia.com/gpu", "example.com/nic", "example.com/dongle"
HUGE = "hugepages-2Mi"
Json = dict[str, Any]


def near(*nodes: int) -> pb.TopologyInfo:
    return pb.TopologyInfo(nodes=[pb.NUMANode(ID=number) for number in nodes])


def devices(resource: str, *ids: str, nodes: tuple[int, ...] = ()) -> pb.ContainerDevices:
    topology = near(*nodes) if nodes else None
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


def memory(resource: str, size: int, *nodes: int) -> pb.ContainerMemory:
    return pb.ContainerMemory(memory_type=resource, size=size, topology=near(*nodes))


def allocatable() -> pb.AllocatableResourcesResponse:
    return pb.AllocatableResourcesResponse(
        cpu_ids=[1, 2, 3, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15],
        devices=[
            *(devices(GPU, one, nodes=(0,)) for one in ("GPU-a", "GPU-b")),
            *(devices(GPU, one, nodes=(1,)) for one in ("GPU-c", "GPU-d")),
            devices(NIC, "nic-0", nodes=(0, 1)),
            devices(DONGLE, "usb-0"),
        ],
        memory=[
            memory("memory", 31 * GIB, 0),
            memory("memory", 32 * GIB, 1),
            memory(HUGE, GIB, 0),
            memory(HUGE, GIB, 1),
        ],
    )


def pod(namespace: str, name: str, **held: Any) -> pb.PodResources:
    return pb.PodResources(
        namespace=namespace, name=name, containers=[pb.ContainerResources(name="main", **held), {"name": "beside"}]
    )


def pods(default: str = "default", other: str = "other") -> list[pb.PodResources]:
    return [
        pod(
            default,
            "pinned",
            cpu_ids=[1, 9],
            devices=[devices(GPU, "GPU-a", nodes=(0,))],
            memory=[memory("memory", 4 * GIB, 0), memory(HUGE, 512 * MIB, 0)],
        ),
        pod(
            other,
            "wide",
            cpu_ids=[12, 13],
            devices=[devices(NIC, "nic-0", nodes=(0, 1))],
            memory=[memory("memory", 40 * GIB, 0, 1)],
        ),
        pod(default, "fraction", cpu_ids=[7]),
        pod(
            default,
            "burstable",
            cpu_ids=[5, 6],
            devices=[devices(GPU, "GPU-c", nodes=(1,)), devices(DONGLE, "usb-0")],
        ),
        pod(default, "idle", cpu_ids=[5, 6]),
    ]


ASKED: dict[str, tuple[Json, Json]] = {
    "pinned": ({"cpu": "2", "memory": "4Gi", HUGE: "512Mi"}, {"cpu": "2", "memory": "4Gi", HUGE: "512Mi"}),
    "wide": ({"cpu": "2000m", "memory": "40Gi"}, {"cpu": "2", "memory": "40Gi"}),
    "fraction": ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}),
    "burstable": ({"cpu": "2"}, {}),
    "idle": ({"cpu": "1"}, {"cpu": "2"}),
}
"""Requests and limits of the container `main`, by pod."""


def resource(name: str, capacity: str, allocatable: str, available: str) -> Json:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


ZONES: list[Json] = [
    {
        "name": "node-0",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}],
        "resources": [
            resource("cpu", "8", "6", "4"),
            resource(NIC, "1", "1", "0"),
            resource(HUGE, "1073741824", "1073741824", "536870912"),
            resource("memory", "34359738368", "33285996544", "0"),
            resource(GPU, "2", "2", "1"),
        ],
    },
    {
        "name": "node-1",
        "type": "Node",
        "costs": [{"name": "node-0", "value": 21}, {"name": "node-1", "value": 10}],
        "resources": [
            resource("cpu", "8", "8", "6"),
            resource(NIC, "1", "1", "0"),
            resource(HUGE, "1073741824", "1073741824", "1073741824"),
            resource("memory", "34359738368", "34359738368", "20401094656"),
            resource(GPU, "2", "2", "1"),
        ],
    },
]
