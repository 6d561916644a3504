"""Models of the compute devices on a node: the one that the plain labels are about, and labels for each of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gfd.inventory import Fact, Gpu, Inventory
from gfd.labels.settings import Settings
from gfd.labels.text import product
from nfd import names
from nfd.source import Labelled

_PREFIX, _LONGEST_SUFFIX = "gpu.model.", ".product"
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
        """MiB: of the last device that tells it, one out of MIG mode if there is one."""
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
    alike = {one.name for one in named if _traits(one) == _traits(gpu)}
    if not named:
        return ""
    return alike.pop() if len(alike) == 1 else None


def _traits(gpu: Gpu) -> tuple[int | None, int | None, int | None]:
    return gpu.memory, gpu.compute_major, gpu.compute_minor


def _rank(model: Model) -> tuple[bool, int, int, str]:
    return (model.carved, -len(model.gpus), model.memory or 0, model.name)


def per_model(inventory: Inventory, settings: Settings) -> Labelled:
    """On a node with several models.

    Labels:
        gpu.mixed = true: the GPUs are of several models; the plain labels are about the most numerous one
        gpu.model.<product>.count = number: GPUs of that model
        gpu.model.<product>.memory = number: MiB of one GPU of that model
        gpu.model.<product>.product = text: the model in full
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


def key_part(text: str, room: int) -> str:
    """At most `room` characters, every piece between dots with a letter or digit at both ends; `unnamed` for none."""
    pieces = (piece.strip("-_") for piece in names.clean(text)[:room].split("."))
    return ".".join(piece for piece in pieces if piece) or "unnamed"
