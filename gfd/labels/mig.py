"""Labels about MIG devices: under `gpu.` with the strategy `single`, under `mig-<profile>.` with `mixed`."""

from __future__ import annotations

from gfd.inventory import Fact, Gpu, Inventory, MigDevice
from gfd.labels.productname import compose
from gfd.labels.settings import MIXED, SINGLE, LabelSettings
from gfd.last_reading import is_empty
from gfd.sharing import GPU, PREFIX, Shared
from nfd.source import Labelled

_ATTRIBUTES = (
    *("memory", "multiprocessors", "slices.gi", "slices.ci"),
    *("engines.copy", "engines.decoder", "engines.encoder", "engines.jpeg", "engines.ofa"),
)
"""Fields of `MigDevice`, whose names have `_` for the dot."""


def devices(inventory: Inventory, settings: LabelSettings) -> Labelled:
    """The MIG devices of GPUs in MIG mode; the labels of a profile are from its first device.

    Where the layout does not fit the strategy `single`, or a GPU is still being carved, the labels of the whole GPU
    stay, and `gpu.state` says so.

    Labels, where <devices> is `gpu` with the strategy single, `mig-<profile>` (such as `mig-1g.5gb`) with mixed:
        <devices>.count = number: MIG devices of one profile
        <devices>.product = text: model and profile, such as `NVIDIA-A100-SXM4-40GB-MIG-1g.5gb`
        <devices>.memory = number: memory of one MIG device, in MiB
        <devices>.multiprocessors = number: multiprocessors of one MIG device
        <devices>.replicas = number: replicas of each MIG device, 1 without sharing
        <devices>.sharing-strategy = none, time-slicing: how pods share MIG devices
        <devices>.slices.gi = number: slices of the GPU instance of one MIG device
        <devices>.slices.ci = number: slices of the compute instance of one MIG device
        <devices>.engines.copy = number: copy engines of one MIG device
        <devices>.engines.decoder = number: video decoders of one MIG device
        <devices>.engines.encoder = number: video encoders of one MIG device
        <devices>.engines.jpeg = number: JPEG engines of one MIG device
        <devices>.engines.ofa = number: optical flow engines of one MIG device
    """
    found = mig_devices(inventory)
    if settings.mig_strategy == SINGLE:
        problem = layout_problem(inventory)
        if problem:
            return Labelled({}, (("mig.strategy", f"single does not fit: {problem}"),))
        return Labelled(_labels("gpu", found, settings.shared(inventory, GPU))) if found else Labelled({})
    if settings.mig_strategy != MIXED:
        return Labelled({})
    labels: dict[str, str] = {}
    for profile in dict.fromkeys(mig.profile for _, mig in found):
        same = [(gpu, mig) for gpu, mig in found if mig.profile == profile]
        labels |= _labels(f"mig-{profile}", same, settings.shared(inventory, f"{PREFIX}mig-{profile}"))
    return Labelled(labels)


def mig_devices(inventory: Inventory) -> list[tuple[Gpu, MigDevice]]:
    """With the GPU each is a part of, in the driver's order."""
    return [(gpu, mig) for gpu in inventory.compute_gpus if gpu.mig_enabled for mig in inventory.migs_of(gpu)]


def layout_problem(inventory: Inventory) -> str:
    """Why the strategy `single` does not fit what is carved; empty if it does, or if no GPU is in MIG mode."""
    gpus = inventory.compute_gpus
    carved = [gpu for gpu in gpus if gpu.mig_enabled]
    if not carved:
        return ""
    if any(not inventory.migs_of(gpu) for gpu in carved):
        return "a GPU in MIG mode has no MIG device"
    if len(carved) < len(gpus):
        return "not all GPUs are in MIG mode"
    profiles = sorted({mig.profile for _, mig in mig_devices(inventory)})
    return f"several profiles: {', '.join(profiles)}" if len(profiles) > 1 else ""


def is_pending(inventory: Inventory) -> bool:
    """Whether a GPU is on its way into or out of MIG mode, or has no MIG device yet."""
    return any(gpu.mig_changing or is_empty(inventory, gpu) for gpu in inventory.compute_gpus)


def _labels(prefix: str, found: list[tuple[Gpu, MigDevice]], shared: Shared) -> dict[str, str]:
    _, mig = found[0]
    named = next((gpu for gpu, _ in found if Fact.NAME not in gpu.unknown), None)
    labels = {
        **({"product": compose(named.name, mig.profile, shared.product_suffix)} if named else {}),
        "count": str(sum(gpu.counts for gpu, _ in found) or len(found)),
        "replicas": str(shared.replicas),
        "sharing-strategy": shared.strategy,
        **{name: str(getattr(mig, name.replace(".", "_"))) for name in _ATTRIBUTES},
    }
    return {f"{prefix}.{name}": value for name, value in labels.items()}
