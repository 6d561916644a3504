"""How a reading goes over the last one, so that a device keeps its identity while the driver is busy or unwell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gfd.inventory import LOST, Driver, Gpu, Inventory, MigDevice, Trouble


def resume(fresh: Inventory, last: Inventory) -> Inventory:
    """The fresh reading, with what it could not tell taken from the last one.

    After a failed reading that is every device; otherwise those that do not answer, what a failing one or the driver
    did not say, and the MIG devices of a GPU that has none at the moment. The time stamp stays while nothing changes.
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
    if inventory.trouble is not None and not inventory.stale:
        return inventory.reason
    if inventory.driver.failing and not inventory.driver.is_complete:
        return inventory.driver.failing
    missing = [gpu for gpu in inventory.gpus if gpu.failing and not _is_complete(inventory, gpu)]
    if missing:
        return f"GPU {missing[0].index}: {missing[0].failing}"
    empty = [gpu for gpu in inventory.gpus if is_empty(inventory, gpu) and not gpu.mig_held]
    return f"GPU {empty[0].index} is in MIG mode and has no MIG device" if empty else ""


def is_empty(inventory: Inventory, gpu: Gpu) -> bool:
    """Whether a GPU in MIG mode has no MIG devices now."""
    return gpu.mig_enabled and not gpu.failing and (gpu.mig_held or not inventory.migs_of(gpu))


def _without_times(inventory: Inventory) -> Inventory:
    return replace(inventory, node=replace(inventory.node, timestamp=None, read_at=None))


def _is_complete(inventory: Inventory, gpu: Gpu) -> bool:
    return bool(gpu.name) and None not in (gpu.memory, gpu.compute_major, gpu.mig_capable)


def _whole(fresh: Inventory, last: Inventory) -> Inventory:
    if fresh.trouble is not None or not fresh.gpus:
        return _stale(fresh, last) if _is_still_there(fresh, last) else fresh
    gpus: list[Gpu] = []
    migs: list[MigDevice] = []
    for gpu, before in _paired(fresh, last):
        merged = gpu if before is None else _merged(fresh, gpu, before)
        kept = merged.mig_held or (merged.mig_enabled and gpu.failing and not fresh.migs_of(gpu))
        found = last.migs_of(before) if kept and before is not None else fresh.migs_of(gpu)
        gpus.append(merged)
        migs.extend(replace(mig, gpu=gpu.index) for mig in found)
    return replace(fresh, driver=_driver(fresh.driver, last.driver), gpus=tuple(gpus), migs=tuple(migs))


def _driver(fresh: Driver, last: Driver) -> Driver:
    """A version that could not be asked for is the last good one."""
    if not fresh.failing:
        return fresh
    return replace(
        fresh, version=fresh.version or last.version, cuda=fresh.cuda if fresh.cuda is not None else last.cuda
    )


def _stale(fresh: Inventory, last: Inventory) -> Inventory:
    trouble = fresh.trouble or Trouble.DRIVER_ERROR
    reason = fresh.reason or "the driver lists no device"
    return replace(last, trouble=trouble, reason=reason, stale=True, node=fresh.node)


def _is_still_there(fresh: Inventory, last: Inventory) -> bool:
    """Whether the devices can still be in the machine: those PCI knew must not all be gone or passed through."""
    on_pci = any(gpu.pci_class for gpu in last.gpus)
    return fresh.node.pci_gpus > fresh.node.pci_passed if on_pci else fresh.trouble is not None


def _paired(fresh: Inventory, last: Inventory) -> Iterator[tuple[Gpu, Gpu | None]]:
    """Each device with what was known of it: by UUID, by place for one without, and what is left for the mute ones."""
    by_uuid = {gpu.uuid: gpu for gpu in last.gpus if gpu.uuid}
    seen = {gpu.uuid for gpu in fresh.gpus if gpu.uuid}
    left = [gpu for gpu in last.gpus if gpu.uuid not in seen]
    for gpu in fresh.gpus:
        before = by_uuid.get(gpu.uuid) if gpu.uuid else None
        if before is None and not gpu.uuid:
            before = next((one for one in left if one.index == gpu.index), left[0] if left else None)
            left = [one for one in left if one is not before]
        yield gpu, before


def _merged(fresh: Inventory, gpu: Gpu, before: Gpu) -> Gpu:
    if gpu.mute:
        return replace(before, index=gpu.index, failing=gpu.failing, mute=min(before.mute + 1, LOST))
    if gpu.failing:
        return replace(
            gpu,
            pci_address=gpu.pci_address or before.pci_address,
            pci_class=gpu.pci_class or before.pci_class,
            memory=gpu.memory if gpu.memory is not None else before.memory,
            compute_major=gpu.compute_major if gpu.compute_major is not None else before.compute_major,
            compute_minor=gpu.compute_minor if gpu.compute_minor is not None else before.compute_minor,
            mig_capable=before.mig_capable if gpu.mig_capable is None else gpu.mig_capable,
            mig_enabled=before.mig_enabled if gpu.mig_capable is None else gpu.mig_enabled,
            clique=gpu.clique or before.clique,
        )
    return replace(gpu, mig_held=True) if is_empty(fresh, gpu) else gpu
