"""Labels about whole GPUs: of the model that the plain labels are about, and of each of several, named in the key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gfd.families import family_of
from gfd.inventory import Fact, Gpu, Inventory
from gfd.labels.productname import compose, product
from gfd.labels.settings import MIG_STRATEGIES, NONE, LabelSettings
from gfd.sharing import GPU, MPS, Shared
from nfd import names
from nfd.source import Labelled

_PREFIX, _LONGEST_SUFFIX = "gpu.model.", ".replicas"
_ROOM = names.MAX_NAME - len(_PREFIX) - len(_LONGEST_SUFFIX)


@dataclass(frozen=True, slots=True)
class Model:
    """The devices of one name."""

    name: str
    gpus: tuple[Gpu, ...]

    @property
    def count(self) -> int:
        """Devices that the driver can use; if it can use none, those there were."""
        return sum(gpu.counts for gpu in self.gpus) or len(self.gpus)

    @property
    def memory(self) -> int | None:
        """MiB: of the last device with a known value, preferably one without MIG mode."""
        known = [gpu.memory for gpu in self.by_mode if gpu.memory]
        return known[-1] if known else None

    @property
    def compute(self) -> tuple[int, int] | None:
        known = [
            (gpu.compute_major, gpu.compute_minor)
            for gpu in self.by_mode
            if gpu.compute_major is not None and gpu.compute_minor is not None
        ]
        return known[-1] if known else None

    @property
    def carved(self) -> bool:
        """Whether all of them are in MIG mode: nothing can be placed on such a GPU as a whole."""
        return all(gpu.mig_enabled for gpu in self.gpus)

    @property
    def by_mode(self) -> tuple[Gpu, ...]:
        """Devices in MIG mode first."""
        return tuple(sorted(self.gpus, key=lambda gpu: not gpu.mig_enabled))


def models(inventory: Inventory) -> tuple[Model, ...]:
    """The most numerous first; of equally many the one with less memory, then by name.

    Before all others come those with a GPU out of MIG mode, since `nvidia.com/gpu` is their resource.
    Devices that do not answer at the moment count, lest another model takes over while they are silent.
    """
    by_name: dict[str, list[Gpu]] = {}
    for gpu in inventory.compute_gpus:
        name = gpu.name if Fact.NAME not in gpu.unknown else _likely_name(gpu, inventory.compute_gpus)
        if name is not None:
            by_name.setdefault(name, []).append(gpu)
    found = (Model(name, tuple(gpus)) for name, gpus in by_name.items())
    return tuple(sorted(found, key=_rank))


def _likely_name(gpu: Gpu, gpus: Sequence[Gpu]) -> str | None:
    """Of a device whose name could not be read: that of the only model like it. Empty if no device has a name, None if
    no model, or more than one, is like it.
    """
    named = [one for one in gpus if Fact.NAME not in one.unknown]
    same = {one.name for one in named if _traits(one) == _traits(gpu)}
    if not named:
        return ""
    return same.pop() if len(same) == 1 else None


def _traits(gpu: Gpu) -> tuple[int | None, int | None, int | None]:
    return gpu.memory, gpu.compute_major, gpu.compute_minor


def _rank(model: Model) -> tuple[bool, int, int, str]:
    return (model.carved, -len(model.gpus), model.memory or 0, model.name)


def per_model(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """On a node with several models.

    Labels:
        gpu.mixed = true: the GPUs are of several models. Labels without a model in their name, such as
            `nvidia.com/gpu.product`, are about the model with the most GPUs
        gpu.model.<product>.count = number: GPUs of that model
        gpu.model.<product>.memory = number: memory of one GPU of that model, in MiB
        gpu.model.<product>.product = text: the full name of the model
        gpu.model.<product>.replicas = number: replicas of each GPU of that model. 0 if all of them are in MIG mode
    """
    found = models(inventory)
    if len(found) < 2:
        return Labelled({})
    labels = {"gpu.mixed": "true"}
    for key, model in zip(keys([product(model.name) for model in found]), found, strict=True):
        if text := product(model.name):
            labels[f"{_PREFIX}{key}.product"] = text
        labels[f"{_PREFIX}{key}.count"] = str(model.count)
        if model.memory is not None:
            labels[f"{_PREFIX}{key}.memory"] = str(model.memory)
        if not settings.dra:
            replicas = 0 if model.carved else settings.shared(inventory, GPU).replicas
            labels[f"{_PREFIX}{key}.replicas"] = str(replicas)
    return Labelled(labels)


def keys(products: list[str]) -> list[str]:
    """Each product as part of a label's name: legal, short enough, and unlike the others."""
    found: list[str] = []
    for text in products:
        key, number = key_part(text, _ROOM), 2
        while key in found:
            tail = f"-{number}"
            key, number = key_part(text, _ROOM - len(tail)) + tail, number + 1
        found.append(key)
    return found


def key_part(text: str, limit: int) -> str:
    """At most `limit` characters, every piece between dots with a letter or digit at both ends; `unnamed` for none."""
    pieces = (piece.strip("-_") for piece in names.clean(text)[:limit].split("."))
    return ".".join(piece for piece in pieces if piece) or "unnamed"


_MODES = {"0x030000": "graphics", "0x030200": "compute"}


def capabilities(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """`mig.capable`, `mps.capable` and the configured `mig.strategy`.

    MPS does not work beside a GPU in MIG mode: then the node is not capable of it, whatever is configured, and nothing
    is shared.

    Labels:
        mig.capable = true, false: whether a GPU supports MIG
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
        return Labelled(labels, (("mps.capable", "false: MPS sharing is configured, but a GPU is in MIG mode"),))
    return Labelled(labels)


def whole_gpus(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """Of one model.

    Labels:
        gpu.count = number: GPUs that the driver can use
        gpu.product = text: the model, such as `NVIDIA-H200`. The suffix `-SHARED` means that pods share GPUs under the
            resource name `nvidia.com/gpu`. If the shared resource is called `nvidia.com/gpu.shared`, there is no suffix
        gpu.memory = number: memory of one GPU, in MiB
        gpu.memory.unified = true: the GPU uses the memory of the machine
        gpu.replicas = number: replicas of each GPU. 1 without sharing, 0 if all GPUs are in MIG mode
        gpu.sharing-strategy = none, time-slicing, mps: how pods share GPUs
        gpu.family = text: the architecture, such as `hopper`
        gpu.compute.major = number: first part of the compute capability
        gpu.compute.minor = number: second part of the compute capability
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
    if name := model.name and compose(model.name, suffix=shared.product_suffix):
        labels["gpu.product"] = name
    return labels if model.memory is None else {**labels, "gpu.memory": str(model.memory)}


def architecture(model: Model, settings: LabelSettings) -> dict[str, str]:
    """Compute capability, and the family it belongs to if that is known."""
    if model.compute is None or model.compute[0] == 0:
        return {}
    major, minor = model.compute
    labels = {"gpu.compute.major": str(major), "gpu.compute.minor": str(minor)}
    family = family_of(settings.families, major, minor)
    return {**labels, "gpu.family": family} if family else labels


def mode(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """After the PCI class that all devices have, as far as their place on PCI is known.

    Labels:
        gpu.mode = graphics, compute, unknown: the PCI class of the GPUs. `graphics`: VGA controller. `compute`: 3D
            controller. `unknown`: another class, or several classes
    """
    known = (gpu for gpu in inventory.compute_gpus if not gpu.mute and Fact.PCI not in gpu.unknown)
    classes = {gpu.pci_class for gpu in known} | {gpu.pci_class for gpu in inventory.compute_gpus if gpu.pci_class}
    if not classes:
        return Labelled({})
    return Labelled({"gpu.mode": _MODES.get(classes.pop(), "unknown") if len(classes) == 1 else "unknown"})


def topology(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """How the GPUs are connected. The version is that of the links that are up, if it is the same for all.

    Labels:
        gpu.nvlink.version = text: version of the NVLinks that are up, such as `4.0`
        gpu.numa.aligned = true, false: whether all GPUs are on the same NUMA node, if there are several GPUs
    """
    gpus = inventory.compute_gpus
    labels: dict[str, str] = {}
    versions = {gpu.nvlink_version for gpu in gpus if gpu.nvlink_version}
    if len(versions) == 1:
        labels["gpu.nvlink.version"] = versions.pop()
    nodes = {gpu.numa_node for gpu in gpus}
    if len(gpus) > 1 and None not in nodes:
        labels["gpu.numa.aligned"] = _text(len(nodes) == 1)
    return Labelled(labels)


def clique(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """None if they differ.

    Labels:
        gpu.clique = text: cluster UUID and clique ID of the GPUs in the NVLink fabric, if all have the same
    """
    found = sorted({gpu.clique for gpu in inventory.compute_gpus if gpu.clique})
    if len(found) > 1:
        return Labelled({}, (("gpu.clique", f"omitted, since the devices differ:  {', '.join(found)}"),))
    return Labelled({"gpu.clique": found[0]} if found else {})


def _text(value: bool) -> str:
    return str(value).lower()
