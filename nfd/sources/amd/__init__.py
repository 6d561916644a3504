"""AMD GPUs: features `amd.gpu`, `amd.partition` and `amd.driver`, options, and what makes the worker read them again.

Labels are those of AMD's node labeller (ROCm/k8s-device-plugin, cmd/k8s-node-labeller), from sysfs alone. Its flags are
the options of the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from nfd.config.section import Section
from nfd.features import Features, Instance, Labels
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.amd import kfd
from nfd.sources.amd.gpus import DRIVER, GPU, PARTITION, is_gpu, read_driver, read_gpu
from nfd.sources.amd.labels import derive_labels
from nfd.sources.feature_reader import FeatureReader, gather
from nfd.sources.pci_functions import read_functions


class Config(Section):
    """Which labels of AMD's node labeller are written, by default those that AMD's GPU operator asks for."""

    device_id: bool = True
    """PCI device id of the GPUs."""
    product_name: bool = True
    """Name of the GPUs."""
    family: bool = True
    """Family of the GPUs, as the kernel's driver names it."""
    vram: bool = True
    """Memory of a GPU, or of a partition."""
    simd_count: bool = True
    """SIMD units of a GPU, or of a partition."""
    cu_count: bool = True
    """Compute units of a GPU, or of a partition."""
    driver_version: bool = True
    """Version of AMD's own driver; the one of the kernel has none."""
    driver_src_version: bool = False
    """Checksum of the driver's source."""
    firmware: bool = False
    """Versions of the GPU's firmware."""
    compute_memory_partition: bool = False
    """How the GPUs are divided, if all are divided alike."""
    compute_partitioning_supported: bool = False
    """Whether the GPUs can be divided."""
    memory_partitioning_supported: bool = False
    """Whether the memory of the GPUs can be divided."""
    driver_type: bool = False
    """Whether containers or virtual machines get the GPUs."""
    beta: bool = False
    """Also write each label under its older name, `beta.amd.com/gpu.…`, with a count for each value."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List GPUs and partitions.

    Reads: as `nfd.sources.pci_functions`, `nfd.sources.amd.gpus` and `nfd.sources.amd.kfd`.
    Absent: a machine without an AMD GPU has no feature.
    """
    gpus: list[Instance] = []

    def read_gpus(reading: FeatureReader) -> Features:
        found: dict[str, Sequence[Instance]] = {}
        for one in read_functions(reading, is_gpu):
            with reading.device(one.address):
                found[one.address] = [read_gpu(reading, one, firmware=config.firmware)]
        found |= reading.last(GPU, found)
        gpus.extend(chain(*found.values()))
        return Features(instances={GPU: tuple(gpus)}) if gpus else Features()

    def read_partitions(reading: FeatureReader) -> Features:
        return Features(instances={PARTITION: kfd.read_partitions(reading, gpus)}) if gpus else Features()

    def read_version(reading: FeatureReader) -> Features:
        return Features(attributes={DRIVER: read_driver(reading)}) if gpus else Features()

    return gather(host, {GPU: read_gpus, PARTITION: read_partitions, DRIVER: read_version})


def labels(features: Features, config: Config) -> Labels:
    """A property that all GPUs share has a plain label; one that differs has a label with a count for each value.

    Labels:
        amd.com/gpu.<property> = text: value of a property such as `vram` or `cu-count`, if all GPUs (or partitions)
            have the same value
        amd.com/gpu.<property>.<value> = number: GPUs (or partitions) with that value, if there are several values
        amd.com/gpu.driver-version = text: version of AMD's own driver. The driver of the kernel has no version
        amd.com/gpu.driver-src-version = text: checksum of the driver's source code
        amd.com/gpu.compute-memory-partition = text: compute and memory partition mode of the GPUs, such as `cpx_nps4`,
            if all have the same
        amd.com/gpu.compute-partitioning-supported = true, false: whether the GPUs can be divided
        amd.com/gpu.memory-partitioning-supported = true, false: whether the memory of the GPUs can be divided
        amd.com/gpu.mode = container, pf-passthrough, vf-passthrough: who uses the GPUs. `container`: containers.
            `pf-passthrough`: virtual machines, each with whole GPUs. `vf-passthrough`: virtual machines with virtual
            functions of the GPUs
        beta.amd.com/gpu.<property> = text: older name of `amd.com/gpu.<property>`
        beta.amd.com/gpu.<property>.<value> = number: GPUs (or partitions) with that value, even if all have the same
        beta.amd.com/gpu.firmware.<firmware>.fw.<version> = number: GPUs with that version of the firmware
    """
    return derive_labels(features, config)


SOURCE = Source(
    "amd",
    Config,
    discover,
    labels,
    namespaced=True,
    wakes=frozenset({"pci", "module", "drm"}),
    follows=kfd.list_generation,  # a GPU is divided without a kernel event
    quiet=0.4,  # KFD builds the topology at once
)
