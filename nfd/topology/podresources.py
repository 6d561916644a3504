"""The kubelet's pod-resources socket (Kubernetes documentation, "Device Plugins", Monitoring device plugin resources).

The kubelet makes the socket anew when it starts: each reading connects, asks twice and closes, as a worker does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import grpc

from nfd.errors import HostError
from nfd.topology import podresources_pb2 as pb
from nfd.topology.allocations import Allocatable, Container, Devices, Memory, Pod

SERVICE = "/v1.PodResourcesLister"
DEADLINE = 10.0
"""Seconds for each of the two calls, connecting included."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer; a kubelet's own clients take as much."""


async def read(socket: str) -> tuple[Allocatable, tuple[Pod, ...]]:
    """What may be allocated, and what each pod holds now. Raises: HostError if the kubelet does not say."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own lines would repeat the log
    options = [("grpc.max_receive_message_length", LARGEST), ("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)]
    async with grpc.aio.insecure_channel(f"unix:{socket}", options) as channel:
        try:
            may = await _ask(channel, "GetAllocatableResources", pb.AllocatableResourcesRequest(), _ALLOCATABLE)
            held = await _ask(channel, "List", pb.ListPodResourcesRequest(), _LIST)
        except grpc.aio.AioRpcError as error:
            raise HostError(socket, f"{error.code().name}: {' '.join((error.details() or '').split())}") from error
    return allocatable_of(may), pods_of(held.pod_resources)


_ALLOCATABLE = pb.AllocatableResourcesResponse.FromString
_LIST = pb.ListPodResourcesResponse.FromString


async def _ask(channel: Any, method: str, request: Any, read_answer: Any) -> Any:
    call = channel.unary_unary(
        f"{SERVICE}/{method}", request_serializer=type(request).SerializeToString, response_deserializer=read_answer
    )
    return await call(request, timeout=DEADLINE)


def allocatable_of(answer: pb.AllocatableResourcesResponse) -> Allocatable:
    return Allocatable(tuple(answer.cpu_ids), _devices(answer.devices), _memory(answer.memory))


def pods_of(found: Iterable[pb.PodResources]) -> tuple[Pod, ...]:
    return tuple(_pod(one) for one in found)


def _pod(pod: pb.PodResources) -> Pod:
    containers = (
        Container(one.name, tuple(one.cpu_ids), _devices(one.devices), _memory(one.memory)) for one in pod.containers
    )
    return Pod(pod.namespace, pod.name, tuple(containers))


def _devices(found: Iterable[pb.ContainerDevices]) -> tuple[Devices, ...]:
    return tuple(Devices(one.resource_name, tuple(one.device_ids), _nodes(one.topology)) for one in found)


def _memory(found: Iterable[pb.ContainerMemory]) -> tuple[Memory, ...]:
    return tuple(Memory(one.memory_type, one.size, _nodes(one.topology)) for one in found if one.size)


def _nodes(topology: pb.TopologyInfo) -> tuple[int, ...]:
    return tuple(sorted({node.ID for node in topology.nodes}))
