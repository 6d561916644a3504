"""The feature source `nvidia`: GPUs in the worker, features `nvidia.gpu`, `.mig`, `.driver` and `.node`."""

from __future__ import annotations

from gfd.config import Config
from gfd.discover import discover as read_inventory
from gfd.discover import is_worth_trying
from gfd.features import from_features, to_features
from gfd.inventory import Inventory, Trouble
from gfd.labels import label
from gfd.memory import gaps
from gfd.memory import resume as resume_inventory
from nfd.features import Features
from nfd.host import Host
from nfd.host.replay import Replay
from nfd.source import Labelled, Partial, Source

NAME = "nvidia"


def discover(host: Host, config: Config) -> Features | Partial:
    """Read the devices; NVML is open only while this runs.

    Reads: as `gfd.discover`.  Absent: a machine without an NVIDIA device has no feature; with one and no driver, what
    PCI tells, and the source counts as failed, so that what was known of the devices stays.
    """
    if not isinstance(host, Replay) and not is_worth_trying(host):
        return Features()
    inventory = read_inventory(host, config.options(), None if config.no_timestamp else changed_at_latest(host))
    if not inventory.gpus and not inventory.node.pci_gpus and inventory.trouble is not Trouble.DRIVER_ERROR:
        return Features()
    return found_in(inventory)


def changed_at_latest(host: Host) -> int:
    """When the labels last changed, as far as a worker that has just started can tell: at boot, so that its start
    alone changes no label. Reads: proc/stat (proc(5)), btime.
    """
    for line in (host.text("proc/stat") or "").splitlines():
        name, _, rest = line.partition(" ")
        if name == "btime" and rest.strip().isdigit():
            return int(rest)
    return int(host.now())


def resume(found: Features | Partial, before: Features) -> Features | Partial:
    """The devices keep what was known of them while they are silent."""
    features = found.features if isinstance(found, Partial) else found
    fresh, last = from_features(features), from_features(before)
    if last is None:
        return found
    if fresh is None:
        if not last.gpus or any(gpu.pci_class for gpu in last.gpus):
            return found
        fresh = Inventory(trouble=Trouble.NO_DRIVER, reason="the driver is gone")
    return found_in(resume_inventory(fresh, last))


def found_in(inventory: Inventory) -> Features | Partial:
    """The features of an inventory; with gaps, it is no reason to remove a label."""
    features = to_features(inventory)
    missing = gaps(inventory)
    return Partial(features, {NAME: missing}) if missing else features


def labels(features: Features, config: Config) -> Labelled:
    """`nvidia.com/*`, as GPU feature discovery has them."""
    inventory = from_features(features)
    return Labelled({}) if inventory is None else label(inventory, config.settings())


SOURCE = Source(NAME, Config, discover, labels, resume=resume, namespaced=True, wakes=frozenset({"pci", "module"}))
