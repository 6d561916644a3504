"""What sysfs says of devices on PCI: where they are attached, by its links into sys/devices, and what drives them."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Mapping

from nfd.errors import HostError
from nfd.host import NO_VALUE, Host
from nfd.host.blanks_and_numbers import parse_natural

_ROOT = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})/", re.ASCII)


def read_roots(host: Host, folder: str, entries: Collection[str] | None = None) -> Mapping[str, str]:
    """Entry → PCIe root, `pci0000:64`; entries that are not below one are left out. Reads: as `of_links`."""
    return of_links(host, "pcie-roots", folder, _root, entries)


def of_links(
    host: Host,
    name: str,
    folder: str,
    parse: Callable[[str, str], str],
    entries: Collection[str] | None = None,
) -> Mapping[str, str]:
    """Entry → what `parse` makes of its name and of the path that its link leads to, unless that is empty.

    Of these entries; None: all of the folder.

    Reads: the links in the folder, such as sys/bus/pci/devices or sys/class/net  (kernel admin-guide/sysfs-rules.rst)
    A recording has no links, so it keeps the answer as that of a probe.
    Absent: an empty mapping, also where links may not be read. Raises: HostError if they cannot be read.
    """

    def live() -> Mapping[str, str]:
        found = {entry: parse(entry, target) for entry, target in _targets(host, folder, entries)}
        return {entry: value for entry, value in found.items() if value}

    probe = f"{name}:{folder}" if entries is None else f"{name}:{folder}:{','.join(sorted(entries))}"
    return host.probe_value(probe, live, lambda found: json.dumps(dict(found)), _parse) or {}


def _root(entry: str, target: str) -> str:
    found = _ROOT.search(target)
    return found[1] if found else ""


def driver_in(uevent: str) -> str:
    """The kernel driver that has a device, from the text of its file `uevent`; empty if none has."""
    return next((line.removeprefix("DRIVER=") for line in uevent.splitlines() if line.startswith("DRIVER=")), "")


def is_vfio(driver: str) -> bool:
    """Whether a driver gives the device to a virtual machine: vfio-pci, or one of its variants for certain devices.

    All of them end alike, whichever dash is in their names: `nvgrace-gpu-vfio-pci`, `mlx5_vfio_pci` (Linux,
    drivers/vfio/pci; Documentation/driver-api/vfio-pci-device-specific-driver-acceptance.rst).
    """
    return "vfio" in re.split("[-_]", driver)


def numa_node(text: str | None) -> str | None:
    """The number of a NUMA node in a file `numa_node`; None for -1, which stands for none."""
    return None if text is None or parse_natural(text) is None else text


def _targets(host: Host, folder: str, entries: Collection[str] | None) -> list[tuple[str, str]]:
    try:
        directory = host.directory(folder)
    except OSError as error:
        _check_absent(folder, error)
        return []
    try:
        names = sorted(os.listdir(directory) if entries is None else entries)  # noqa: PTH208
        return [(name, _target(folder, name, directory)) for name in names]
    finally:
        os.close(directory)


def _target(folder: str, name: str, directory: int) -> str:
    """Where an entry leads; empty for what is no link (EINVAL)."""
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        _check_absent(f"{folder}/{name}", error)
        return ""


def _check_absent(path: str, error: OSError) -> None:
    """Raise a HostError unless the error says that there is no link, or that it may not be read."""
    if error.errno not in {errno.ENOENT, errno.ENOTDIR} | NO_VALUE:
        raise HostError(path, error.strerror or str(error), error.errno) from error


def _parse(text: str) -> Mapping[str, str]:
    """Raises: ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ValueError("is not a mapping of texts")
    return found
