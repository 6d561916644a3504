"""Merges a reading with the last one, so that a device keeps its identity while the driver is busy or fails.

A value that could not be read is either held from an earlier reading, or unknown. `gaps` reports unknown values: labels
that depend on them stay on the Node as long as that lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gfd.inventory import LOST, Driver, Fact, Gpu, Inventory, MigDevice, Trouble, join_facts

NONE_LISTED = "the driver lists no devices"
NOT_LISTED = "is on PCI, but the driver does not list it"


def resume(fresh: Inventory, last: Inventory) -> Inventory:
    """The fresh reading, with missing values from the last one.

    After a failed reading these are all devices. Otherwise they are devices that do not answer or are not listed,
    values that a device or the driver did not report, and the MIG devices of a GPU that has none at the moment. The
    time stamp stays while nothing changes.
    """
    result = _whole(fresh, last) if last.gpus else fresh
    if fresh.node.timestamp is None:
        return result
    if _without_times(result) == _without_times(last):
        times = last.node if last.node.timestamp is not None else fresh.node
    else:
        times = replace(fresh.node, timestamp=fresh.node.read_at)
    return replace(result, node=replace(result.node, timestamp=times.timestamp, read_at=times.read_at))


def gaps(inventory: Inventory) -> str:
    """Why labels may be missing that the devices had before; empty if nothing is."""
    if reason := unread(inventory):
        return reason
    bare = [gpu for gpu in inventory.compute_gpus if is_bare(inventory, gpu)]
    return f"GPU {bare[0].index} is in MIG mode and has no MIG device" if bare else ""


def unread(inventory: Inventory) -> str:
    """What could not be read and is not known from before; empty if nothing. MIG devices that are not there are no part
    of that.
    """
    if inventory.trouble is not None and not inventory.stale:
        return inventory.reason or str(inventory.trouble)
    if lists_none(inventory):
        return NONE_LISTED
    if inventory.driver.failing and not inventory.driver.is_complete:
        return inventory.driver.failing
    if (number := count_not_listed(inventory)) > 0:
        return f"GPUs on PCI that the driver does not list and never listed:  {number}"
    missing = [gpu for gpu in inventory.gpus if gpu.unknown and not gpu.display_only]
    return f"GPU {missing[0].index}: {missing[0].failing or 'some values are unknown'}" if missing else ""


def count_not_listed(inventory: Inventory) -> int:
    """Devices that the driver has and does not list, and that are not known from before."""
    carried = sum(gpu.failing == NOT_LISTED for gpu in inventory.gpus)
    return inventory.node.pci_missing - carried


def are_some_unknown(inventory: Inventory) -> bool:
    """Whether there is a GPU of which is not known whether it is capable of MIG."""
    unknown = any(Fact.MIG in gpu.unknown for gpu in inventory.gpus if not gpu.display_only)
    return unknown or count_not_listed(inventory) > 0


def lists_none(inventory: Inventory) -> bool:
    """Whether the driver works and lists no device, although PCI has one that is no virtual machine's."""
    node = inventory.node
    asked = inventory.backend not in ("", "vfio") and inventory.trouble is None
    return asked and not inventory.gpus and node.pci_gpus > node.pci_passed


def is_empty(inventory: Inventory, gpu: Gpu) -> bool:
    """Whether a GPU in MIG mode has no MIG devices now."""
    return gpu.mig_enabled and not gpu.failing and (gpu.mig_held or not inventory.migs_of(gpu))


def is_bare(inventory: Inventory, gpu: Gpu) -> bool:
    """In MIG mode, without MIG devices, and none known from before: what they were is unknown."""
    return gpu.mig_enabled and not inventory.migs_of(gpu)


def are_migs_unknown(inventory: Inventory) -> bool:
    """Whether a GPU may have, or may have had, MIG devices of which nothing is known."""
    return any(is_bare(inventory, gpu) or {Fact.MIG, Fact.MIGS} & gpu.unknown for gpu in inventory.compute_gpus)


def _without_times(inventory: Inventory) -> Inventory:
    return replace(inventory, node=replace(inventory.node, timestamp=None, read_at=None))


def _whole(fresh: Inventory, last: Inventory) -> Inventory:
    if fresh.trouble is not None or not fresh.gpus:
        return _stale(fresh, last) if _is_still_there(fresh, last) else fresh
    gpus: list[Gpu] = []
    migs: list[MigDevice] = []
    paired = list(_paired(fresh, last))
    for gpu, before in paired:
        merged, kept = (gpu, fresh.migs_of(gpu)) if before is None else _merged(fresh, gpu, last, before)
        gpus.append(merged)
        migs.extend(replace(mig, gpu=gpu.index) for mig in kept)
    for lost in _not_listed(fresh, last, [before for _, before in paired if before is not None]):
        index = max(gpu.index for gpu in gpus) + 1
        gpus.append(replace(lost, index=index, failing=NOT_LISTED, mute=min(lost.mute + 1, LOST)))
        migs.extend(replace(mig, gpu=index) for mig in last.migs_of(lost))
    return replace(fresh, driver=_driver(fresh.driver, last.driver), gpus=tuple(gpus), migs=tuple(migs))


def _not_listed(fresh: Inventory, last: Inventory, found: Iterable[Gpu]) -> list[Gpu]:
    """Devices of before that the driver has and does not list any more, although PCI still does."""
    seen, addresses = {gpu.index for gpu in found}, {gpu.pci_address for gpu in fresh.gpus}
    left = [gpu for gpu in last.gpus if gpu.index not in seen and gpu.pci_class and gpu.pci_address not in addresses]
    return left[: fresh.node.pci_missing]


def _driver(fresh: Driver, last: Driver) -> Driver:
    """A version that could not be asked for is the last good one."""
    if not fresh.failing:
        return fresh
    return replace(
        fresh, version=fresh.version or last.version, cuda=fresh.cuda if fresh.cuda is not None else last.cuda
    )


def _stale(fresh: Inventory, last: Inventory) -> Inventory:
    trouble = fresh.trouble or Trouble.DRIVER_ERROR
    reason = fresh.reason or NONE_LISTED
    driver = replace(last.driver, module=fresh.driver.module, library=fresh.driver.library)
    node = replace(fresh.node, pci_missing=last.node.pci_missing)  # a failed reading cannot count them
    return replace(last, driver=driver, trouble=trouble, reason=reason, stale=True, node=node)


def _is_still_there(fresh: Inventory, last: Inventory) -> bool:
    """Whether the devices can still be in the machine: those PCI knew must not all be gone or passed through."""
    on_pci = any(gpu.pci_class for gpu in last.gpus)
    return fresh.node.pci_gpus > fresh.node.pci_passed if on_pci else fresh.trouble is not None


def _paired(fresh: Inventory, last: Inventory) -> Iterator[tuple[Gpu, Gpu | None]]:
    """Each device with what was known of it."""
    left = list(last.gpus)
    found: dict[int, Gpu] = {}
    for is_same in _SAME:
        for gpu in fresh.gpus:
            before = None if gpu.index in found else next((one for one in left if is_same(gpu, one)), None)
            if before is not None:
                found[gpu.index] = before
                left.remove(before)
    return ((gpu, found.get(gpu.index)) for gpu in fresh.gpus)


def _may_be_same(gpu: Gpu, before: Gpu) -> bool:
    """Whether nothing that is known of both tells two devices apart."""
    known = ((gpu.uuid, before.uuid), (gpu.pci_address, before.pci_address), (gpu.name, before.name))
    return all(not now or not then or now == then for now, then in known)


def _may_be_any(fresh: Inventory, gpu: Gpu, last: Inventory) -> bool:
    """Whether neither UUID nor PCI address of a device can be read, and its place says nothing, since others are not
    listed: what it answers may be about any of them."""
    return not gpu.uuid and Fact.PCI in gpu.unknown and len(fresh.gpus) < len(last.gpus)


_SAME: Sequence[Callable[[Gpu, Gpu], bool]] = (
    lambda gpu, before: bool(gpu.uuid) and gpu.uuid == before.uuid,
    lambda gpu, before: bool(gpu.pci_address) and gpu.pci_address == before.pci_address and _may_be_same(gpu, before),
    lambda gpu, before: not gpu.mute and gpu.index == before.index and _may_be_same(gpu, before),
    lambda gpu, before: not gpu.mute and not gpu.uuid and _may_be_same(gpu, before),
    lambda gpu, before: gpu.index == before.index and _may_be_same(gpu, before),
    lambda gpu, before: not gpu.uuid and _may_be_same(gpu, before),
)
"""Ways to find what was known of a device, the surest first: its UUID, its PCI address, its place. A device without a
UUID is otherwise the first of those that are left and may be it. Devices that do not answer come last.
"""


def _merged(fresh: Inventory, gpu: Gpu, last: Inventory, before: Gpu) -> tuple[Gpu, tuple[MigDevice, ...]]:
    """The device with held values, and its MIG devices."""
    if gpu.mute or _may_be_any(fresh, gpu, last):
        mute = min(before.mute + 1, LOST) if gpu.mute else 0
        return replace(before, index=gpu.index, failing=gpu.failing, mute=mute), last.migs_of(before)
    held = gpu.unknown - before.unknown - ({Fact.MIGS} if is_bare(last, before) else set())
    merged = _filled(replace(gpu, uuid=gpu.uuid or before.uuid), before, held)
    found, old = fresh.migs_of(gpu), last.migs_of(before)
    still = join_facts(Fact(one) for one in merged.unknown | (before.unknown & {Fact.MIGS}))
    if Fact.MIG in held:
        return replace(merged, unread=still), old
    if Fact.MIGS in gpu.unknown:
        known = {mig.uuid for mig in found if mig.uuid}
        return merged, (*found, *(mig for mig in old if mig.uuid not in known and mig not in found))
    if gpu.mig_enabled and not found and old:
        return replace(merged, unread=still, mig_held=True), old
    return merged, found


_FIELDS: Mapping[str, tuple[str, ...]] = {
    Fact.NAME: ("name",),
    Fact.PCI: ("pci_address", "pci_class", "numa_node", "pcie_root"),
    Fact.MEMORY: ("memory", "memory_unified"),
    Fact.COMPUTE: ("compute_major", "compute_minor"),
    Fact.MIG: ("mig_capable", "mig_enabled"),
    Fact.CLIQUE: ("clique", "fabric_state", "fabric_health"),
    Fact.RECOVERY: ("recovery",),
    Fact.REMAP: ("remap",),
    Fact.UNREPAIRABLE: ("unrepairable",),
    Fact.NVLINK: ("nvlink_up", "nvlink_count", "nvlink_peer", "nvlink_version", "nvlink_peers"),
    Fact.PCIE: ("pcie_width", "pcie_width_max"),
    Fact.VBIOS: ("vbios",),
    Fact.GSP: ("gsp",),
}
"""Fields of a device by the fact that they are."""


def _filled(gpu: Gpu, before: Gpu, held: frozenset[str]) -> Gpu:
    """The device with those facts as they were before."""
    fields = [field for fact in held for field in _FIELDS.get(fact, ())]
    values: dict[str, Any] = {field: getattr(before, field) for field in fields}
    return replace(gpu, unread=join_facts(Fact(one) for one in gpu.unknown - held), **values)
