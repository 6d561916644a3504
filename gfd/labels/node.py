"""Labels about the node: time stamp, machine, versions of driver and CUDA, vGPU guests."""

from __future__ import annotations

from gfd.inventory import Inventory
from gfd.labels.productname import sanitize
from gfd.labels.settings import LabelSettings
from nfd.source import Labelled


def versions(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """Parts of the driver version stay text (`04`); without a third part the revision is empty.

    Labels:
        cuda.driver-version.full = text: the driver's version
        cuda.driver-version.major = text: first part of the driver's version
        cuda.driver-version.minor = text: second part of the driver's version
        cuda.driver-version.revision = text: third part of the driver's version
        cuda.runtime-version.full = text: the newest CUDA version that the driver supports
        cuda.runtime-version.major = number: first part of that CUDA version
        cuda.runtime-version.minor = number: second part of that CUDA version
        cuda.driver.major = text: older name of `nvidia.com/cuda.driver-version.major`
        cuda.driver.minor = text: older name of `nvidia.com/cuda.driver-version.minor`
        cuda.driver.rev = text: older name of `nvidia.com/cuda.driver-version.revision`
        cuda.runtime.major = number: older name of `nvidia.com/cuda.runtime-version.major`
        cuda.runtime.minor = number: older name of `nvidia.com/cuda.runtime-version.minor`
    """
    if not inventory.compute_gpus:
        return Labelled({})
    driver, notes = driver_version(inventory.driver.version)
    return Labelled({**driver, **cuda_version(inventory.driver.cuda)}, notes)


def driver_version(version: str) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
    """`580.159.04`, or a version of two parts; anything else has no parts."""
    if not version:
        return {}, ()
    parts = version.split(".")
    if len(parts) not in (2, 3):
        return {"cuda.driver-version.full": version}, (("driver version", f"{version!r} is not X.Y or X.Y.Z"),)
    major, minor, revision = (*parts, "")[:3]
    return {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.driver-version.full": version,
    }, ()


def cuda_version(number: int | None) -> dict[str, str]:
    """12040 is 12.4."""
    if number is None:
        return {}
    major, minor = str(number // 1000), str(number % 1000 // 10)
    return {
        "cuda.runtime.major": major,
        "cuda.runtime.minor": minor,
        "cuda.runtime-version.major": major,
        "cuda.runtime-version.minor": minor,
        "cuda.runtime-version.full": f"{major}.{minor}",
    }


def timestamp(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """When.

    Labels:
        gfd.timestamp = number: a time in seconds since the epoch. The worker writes the time of the last scan that
            found changed values. Before such a scan, the worker writes the boot time. `gpu-feature-discovery` writes
            the time at which it started or last reloaded its configuration
    """
    when = inventory.node.timestamp
    if when is None or not (settings.alone or inventory.gpus):
        return Labelled({})
    return Labelled({"gfd.timestamp": str(when)})


def machine(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """The product. Firmware that leaves its name empty, or gives one of which nothing can stand in a label, says none.

    Labels:
        gpu.machine = text: the machine's product name, or `unknown`
    """
    name = sanitize(inventory.node.machine)
    return Labelled({"gpu.machine": name} if name and inventory.compute_gpus else {})


def guest(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """Where PCI configuration space can be read.

    Labels:
        vgpu.present = true, false: whether the node is a guest with a vGPU
        vgpu.host-driver-version = text: the version of the host's driver
        vgpu.host-driver-branch = text: the branch of the host's driver
    """
    node = inventory.node
    if node.vgpu_present is None or not (settings.alone or inventory.gpus):
        return Labelled({})
    labels = {"vgpu.present": str(node.vgpu_present).lower()}
    if node.vgpu_version:
        labels["vgpu.host-driver-version"] = node.vgpu_version
    if node.vgpu_branch:
        labels["vgpu.host-driver-branch"] = node.vgpu_branch
    return Labelled(labels)
