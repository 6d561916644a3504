"""Labels about whole GPUs."""

from __future__ import annotations

from gfd.families import family_of
from gfd.inventory import Fact, Inventory
from gfd.labels.models import Model, models
from gfd.labels.settings import MIG_STRATEGIES, NONE, Settings
from gfd.labels.text import compose
from gfd.sharing import GPU, MPS, Shared
from nfd.source import Labelled

_MODES = {"0x030000": "graphics", "0x030200": "compute"}


def capabilities(inventory: Inventory, settings: Settings) -> Labelled:
    """`mig.capable`, `mps.capable` and the configured `mig.strategy`.

    MPS does not work beside a GPU in MIG mode: then the node is not capable of it, whatever is configured, and nothing
    is shared.

    Labels:
        mig.capable = true, false: whether a GPU can be divided by MIG
        mig.strategy = single, mixed: the MIG strategy that is configured
        mps.capable = true, false: whether GPUs are shared by MPS
    """
    gpus = inventory.compute_gpus
    if not gpus:
        return Labelled({})
    impossible = settings.is_mps_impossible(inventory)
    labels = {"mps.capable": _text(settings.sharing.strategy == MPS and not impossible)}
    known = [gpu.mig_capable for gpu in gpus if gpu.mig_capable is not None]
    if known:
        labels["mig.capable"] = _text(any(known))
    if settings.mig_strategy in MIG_STRATEGIES and settings.mig_strategy != NONE:
        labels["mig.strategy"] = settings.mig_strategy
    if impossible:
        return Labelled(labels, (("mps.capable", "false: MPS sharing is configured, and a GPU is in MIG mode"),))
    return Labelled(labels)


def whole_gpus(inventory: Inventory, settings: Settings) -> Labelled:
    """Of one model.

    Labels:
        gpu.count = number: GPUs that the driver can use
        gpu.product = text: the model, such as `NVIDIA-H200`; `-SHARED` is added where GPUs are shared under their name
        gpu.memory = number: MiB of one GPU
        gpu.memory.unified = true: that is the memory of the machine
        gpu.replicas = number: replicas of each GPU (sharing)
        gpu.sharing-strategy = none, time-slicing, mps: how GPUs are shared
        gpu.family = text: the architecture, such as `hopper`
        gpu.compute.major = number: compute capability, first part
        gpu.compute.minor = number: compute capability, second part
    """
    found = models(inventory)
    if not found:
        return Labelled({})
    model = found[0]
    return Labelled(
        {
            "gpu.count": str(model.count),
            **whole_gpu(model, settings.shared(inventory, GPU)),
            **architecture(model, settings),
            **({"gpu.memory.unified": "true"} if any(gpu.memory_unified for gpu in model.gpus) else {}),
        }
    )


def whole_gpu(model: Model, shared: Shared) -> dict[str, str]:
    """GPUs in MIG mode have no replicas, and a model without a name is no product."""
    shared = Shared(replicas=0) if model.carved else shared
    labels = {"gpu.replicas": str(shared.replicas), "gpu.sharing-strategy": shared.strategy}
    if name := model.name and compose(model.name, suffix=shared.suffix):
        labels["gpu.product"] = name
    return labels if model.memory is None else {**labels, "gpu.memory": str(model.memory)}


def architecture(model: Model, settings: Settings) -> dict[str, str]:
    """Compute capability, and the family it belongs to if that is known."""
    if model.compute is None or model.compute[0] == 0:
        return {}
    major, minor = model.compute
    labels = {"gpu.compute.major": str(major), "gpu.compute.minor": str(minor)}
    family = family_of(settings.families, major, minor)
    return {**labels, "gpu.family": family} if family else labels


def mode(inventory: Inventory, settings: Settings) -> Labelled:
    """After the PCI class that all devices have, as far as their place on PCI is known.

    Labels:
        gpu.mode = graphics, compute, unknown: whether the GPUs are display controllers
    """
    told = (gpu for gpu in inventory.compute_gpus if not gpu.mute and Fact.PCI not in gpu.unknown)
    classes = {gpu.pci_class for gpu in told} | {gpu.pci_class for gpu in inventory.compute_gpus if gpu.pci_class}
    if not classes:
        return Labelled({})
    return Labelled({"gpu.mode": _MODES.get(classes.pop(), "unknown") if len(classes) == 1 else "unknown"})


def clique(inventory: Inventory, settings: Settings) -> Labelled:
    """None if they differ.

    Labels:
        gpu.clique = text: cluster UUID and clique of the NVLink fabric that the GPUs are attached to
    """
    found = sorted({gpu.clique for gpu in inventory.compute_gpus if gpu.clique})
    if len(found) > 1:
        return Labelled({}, (("gpu.clique", f"left out, since the devices differ: {', '.join(found)}"),))
    return Labelled({"gpu.clique": found[0]} if found else {})


def _text(value: bool) -> str:
    return str(value).lower()
