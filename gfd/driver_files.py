"""Names of the files by which NVIDIA's driver shows its devices and MIG devices: listing them opens no device.

A change says that a reading would find something else. Sources: NVIDIA "Multi-Instance GPU User Guide", section "Device
Nodes and Capabilities"; NVIDIA Linux driver README, chapter "The /proc Interface".
"""

from __future__ import annotations

from collections.abc import Iterator

from nfd.errors import HostError
from nfd.host import Host

NODES = "dev"
NODE_PREFIX = "nvidia"
CAPABILITY_FOLDER = "nvidia-caps"
DRIVER = "proc/driver/nvidia"
GPUS = f"{DRIVER}/gpus"
CAPABILITIES = f"{DRIVER}/capabilities"
GPU_PREFIX = "gpu"


def list_driver_files(host: Host) -> tuple[str, ...]:
    """Their paths, as far as they are visible; what cannot be listed is left out."""
    found = [name for name in host.listing(NODES) if name.startswith(NODE_PREFIX)]
    if CAPABILITY_FOLDER in found:
        found += host.listing(f"{NODES}/{CAPABILITY_FOLDER}")
    if driver := host.listing(DRIVER):
        found += [*driver, *host.listing(GPUS), *_capabilities(host)]
    return tuple(found)


def _capabilities(host: Host) -> Iterator[str]:
    """`gpu0/mig/gi1/ci0`: the compute instances, and the GPU instances that they are part of."""
    for gpu in host.listing(CAPABILITIES):
        if gpu.startswith(GPU_PREFIX):
            for instance in _folders(host, f"{CAPABILITIES}/{gpu}/mig"):
                yield instance
                yield from _folders(host, instance)


def _folders(host: Host, folder: str) -> Iterator[str]:
    try:
        yield from (f"{folder}/{name}" for name in host.folders(folder))
    except HostError:
        return
