"""Partitions of AMD's GPUs, from the topology of the compute driver (KFD).

Reads: sys/class/kfd/kfd/topology/generation_id; of nodes/* there properties and mem_banks/0/properties, lines of
`name number` (Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c). Nodes of a GPU can only be read by who may open its
render device: the kernel asks the device cgroup of the reading process. So in most containers they answer EPERM, which
says nothing about the GPU. Then the number of partitions comes from PCI (`current_compute_partition`), and the size of
one from that of the GPU.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from nfd.errors import HostError
from nfd.features import Instance
from nfd.host import DENIED, Host
from nfd.host.blanks_and_numbers import parse_decimal
from nfd.sources.amd.gpus import AMDGPU, PARTITION, is_counted
from nfd.sources.feature_reader import FeatureReader
from nfd.sources.pci_functions import MIB

NODES = "sys/class/kfd/kfd/topology/nodes"
GENERATION = "sys/class/kfd/kfd/topology/generation_id"
AMD = 0x1002
SIMD_PER_CU, SIMD_PER_CU_RDNA = 4, 2
UNKNOWN = "may not be read here, and compute units of this GPU are not known otherwise"

Node = Mapping[str, int]


def read_partitions(reading: FeatureReader, gpus: Iterable[Instance]) -> tuple[Instance, ...]:
    """`address` of the GPU, and as far as they are known `simd.count`, `cu.count` and `memory` (MiB) of one partition.

    A GPU that is not divided is one partition.
    """
    counted = {gpu["address"]: gpu for gpu in gpus if is_counted(gpu)}
    nodes, denied = read_nodes(reading) if counted else ([], "")
    by_gpu: dict[str, list[Node]] = {address: [] for address in counted}
    for node in nodes:
        if (address := address_of(node, counted)) is not None:
            by_gpu[address].append(node)
    found: dict[str, Sequence[Instance]] = {}
    for address, own in by_gpu.items():
        with reading.device(address):
            parts = found[address] = partitions_of(counted[address], own, complete=not denied)
            if denied and counted[address].get("driver") == AMDGPU and "cu.count" not in parts[0]:
                reading.errors.append(HostError(denied, UNKNOWN, errno.EPERM))
    found |= reading.last(PARTITION, found)
    return tuple(chain(*found.values()))


def list_generation(host: Host) -> tuple[str, ...]:
    """The number of KFD's topology, which changes with each partition that comes or goes. Every process may read it."""
    try:
        return tuple(filter(None, [host.text(GENERATION)]))
    except HostError:
        return ()


def read_nodes(reading: FeatureReader) -> tuple[list[Node], str]:
    """The nodes of GPUs that may be read, and the path of one that may not."""
    found: list[Node] = []
    denied = ""
    for name in reading.names(NODES):
        path = f"{NODES}/{name}"
        try:
            node = parse(reading.host.text(f"{path}/properties") or "")
            if is_gpu(node):
                bank = parse(reading.host.text(f"{path}/mem_banks/0/properties") or "")
                size = bank.get("size_in_bytes", 0) if bank.get("heap_type") else 0
                found.append({**node, "memory": size // MIB})
        except HostError as error:
            if error.errno not in DENIED:
                reading.errors.append(error)
            denied = error.path
    return found, denied


def parse(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    numbers = ((pair[0], parse_decimal(pair[1])) for pair in pairs if len(pair) == 2)
    return {name: number for name, number in numbers if number is not None}


def is_gpu(node: Node) -> bool:
    compute = node.get("simd_count", 0) > 0 or node.get("gfx_target_version", 0) > 0
    return compute and not node.get("cpu_cores_count") and node.get("vendor_id", AMD) == AMD


def address_of(node: Node, gpus: Mapping[str, Instance]) -> str | None:
    """The GPU that a node belongs to. The function in its location may be the number of a partition."""
    location = node.get("location_id", 0)
    device = f"{node.get('domain', 0):04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}"
    return next((one for one in (f"{device}.{location & 7}", f"{device}.0") if one in gpus), None)


def partitions_of(gpu: Instance, nodes: Sequence[Node], *, complete: bool) -> list[Instance]:
    """One instance for each partition: as KFD has them, or where not all may be read, as many as PCI tells.

    KFD may lack some of a GPU's partitions; each has the same part of the GPU all the same.
    """
    parts = max(int(gpu["parts"]), len(nodes))
    if nodes and complete:
        return [partition(gpu, node, parts) for node in nodes]
    return [partition(gpu, nodes[0] if nodes else {}, parts)] * parts


def partition(gpu: Instance, node: Node, parts: int) -> Instance:
    units, simds, memory = int(gpu.get("units", 0)) // parts, 0, int(gpu.get("memory", 0)) // parts
    if node.get("simd_count"):
        simds = node["simd_count"]
        units = simds // (node.get("simd_per_cu") or simd_per_cu(gpu))
    found = {
        "address": gpu["address"],
        "cu.count": units,
        "simd.count": simds or units * simd_per_cu(gpu),
        "memory": node.get("memory") or memory,
    }
    return {key: str(value) for key, value in found.items() if value}


def simd_per_cu(gpu: Instance) -> int:
    """Two since RDNA, graphics core 10."""
    major = parse_decimal(gpu.get("chip", "").partition(".")[0])
    return SIMD_PER_CU_RDNA if major is not None and major >= 10 else SIMD_PER_CU
