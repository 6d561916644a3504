"""The feature source `nvidia`: GPUs in the worker, features `nvidia.gpu`, `.mig`, `.driver` and `.node`."""

from __future__ import annotations

from dataclasses import replace

from gfd.config import Config
from gfd.discover import discover as read_inventory
from gfd.discover import is_tegra, is_worth_trying
from gfd.driver_files import list_driver_files
from gfd.inventory import Inventory, Trouble, from_features, to_features
from gfd.labels import label
from gfd.labels.faults import count_faults
from gfd.labels.settings import LabelSettings
from gfd.labels.uncertain import is_uncertain
from gfd.last_reading import gaps, unread
from gfd.last_reading import resume as resume_inventory
from gfd.node_config import for_node, reason_for_pause
from gfd.pci import read_functions
from nfd.config.section import Section
from nfd.features import Features
from nfd.host import PLUGIN_D, Host
from nfd.host.blanks_and_numbers import parse_natural
from nfd.host.replay import Replay
from nfd.source import Labelled, Source

NAME = "nvidia"
MARGIN = 30.0
"""Seconds for all that is read besides what the driver is asked, which has its own limit."""


def discover(host: Host, config: Config) -> Features:
    """Read the devices; NVML is open only while this runs.

    Reads: as `gfd.discover`; proc/stat.  Absent: a machine without an NVIDIA device has no feature, one with a device
    and no driver has what PCI shows.
    """
    functions = read_functions(host)
    if not isinstance(host, Replay) and not is_worth_trying(host, functions):
        return Features()
    inventory = read_inventory(host, config.options(), functions)
    if not inventory.gpus and not inventory.node.pci_gpus and not may_have_gpus(host, inventory):
        return Features()
    if config.no_timestamp or not (inventory.backend or inventory.trouble):
        return to_features(inventory)
    times = replace(inventory.node, timestamp=booted_at(host), read_at=int(host.now()))
    return to_features(replace(inventory, node=times))


def may_have_gpus(host: Host, inventory: Inventory) -> bool:
    """Whether a machine without a device on PCI has one that cannot be asked now.

    So it is on Tegra, whose GPU is part of the chip, and where a library is loaded that does not work.
    """
    broken = inventory.trouble in (Trouble.DRIVER_ERROR, Trouble.MISMATCH)
    return broken or (inventory.trouble is not None and is_tegra(host))


def booted_at(host: Host) -> int:
    """Seconds since the epoch; as long as a worker sees no change, labels are as they were at boot, so that its start
    alone changes none. Reads: proc/stat (proc(5)), btime.
    """
    for line in (host.text("proc/stat") or "").splitlines():
        name, _, rest = line.partition(" ")
        if name == "btime" and (seconds := parse_natural(rest.strip())) is not None:
            return seconds
    return int(host.now())


def resume(found: Features, before: Features) -> Features:
    """The devices keep what was known of them while they are silent, and the time stamp while nothing changes."""
    fresh, last = from_features(found), from_features(before)
    if last is None:
        return found
    if fresh is None:
        if not last.gpus or any(gpu.pci_class for gpu in last.gpus):
            return found
        fresh = Inventory(trouble=Trouble.NO_DRIVER, reason="the driver is gone")
    return to_features(resume_inventory(fresh, last))


def labels(features: Features, config: Config) -> Labelled:
    """`nvidia.com/*`, as GPU feature discovery has them.

    Where a reading has gaps that nothing from before fills, none of them is to be removed, and those whose value it
    is unknown are left out: the master keeps them on the Node.
    """
    inventory = from_features(features)
    if inventory is None:
        return Labelled({})
    settings = config.settings()
    found = label(inventory, settings)
    certain = {key: value for key, value in found.labels.items() if is_known(inventory, settings, key)}
    return found._replace(labels=certain, error=unread(inventory) if settings.dra else gaps(inventory))


def is_known(inventory: Inventory, settings: LabelSettings, key: str) -> bool:
    return not is_uncertain(inventory, settings.mig_strategy, key.partition("/")[2])


def devices(features: Features) -> dict[str, int]:
    """GPUs on PCI, those that the driver can use, those that do not answer or answer with errors, and those with each
    kind of fault."""
    inventory = from_features(features)
    if inventory is None:
        return {}
    usable = 0 if inventory.trouble else sum(not gpu.mute for gpu in inventory.gpus)
    failing = sum(bool(gpu.failing) for gpu in inventory.gpus)
    found = {"present": inventory.node.pci_gpus, "usable": usable, "failing": failing}
    return found | count_faults(inventory)


def needs(config: Config) -> float:
    """More than the driver may take: a run that is given up loses the reading, also one that has just come."""
    return config.timeout + MARGIN


def program_model() -> type[Section]:
    """The configuration file of `gpu-feature-discovery` and the device plugin."""
    from gfd.options import Config

    return Config


SOURCE = Source(
    NAME,
    Config,
    discover,
    labels,
    for_node=for_node,
    watches=(PLUGIN_D,),
    resume=resume,
    devices=devices,
    namespaced=True,
    written=True,  # the revision of a driver version of two parts is empty, as GFD has it
    wakes=frozenset({"pci", "module"}),
    follows=list_driver_files,
    paused=reason_for_pause,
    program=program_model,
    seconds=120.0,  # without persistence mode the driver sets up each GPU when NVML is opened, seconds for each
    needs=needs,
)
