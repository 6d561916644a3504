"""PCI devices: feature `pci.device`, one instance per device."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Annotated

from nfd.config.section import Distinct, Section
from nfd.features import Features, Instance, printable
from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK
from nfd.host.pcie import read_roots
from nfd.source import Labelled, Partial, Source
from nfd.sources.device_labels import choose_fields, is_listed
from nfd.sources.feature_reader import FeatureReader, gather, place

DEVICE = "pci.device"

DEVICES = "sys/bus/pci/devices"
FIELDS = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
MORE = ("sriov_totalvfs", "iommu_group/type", "iommu/intel-iommu/version")

CLASS_DIGITS = 4
"""Base class and subclass; the programming interface, the last two digits, is cut off."""


class Config(Section):
    """Which PCI devices are labelled, and how."""

    device_class_whitelist: Annotated[tuple[str, ...], Distinct(prefixes=True)] = ("03", "0b40", "12")
    """Beginnings of the classes that get labels: display controllers, co-processors, processing accelerators."""
    device_label_fields: Annotated[tuple[str, ...], Distinct()] = ("class", "vendor")
    """Parts of a label's name, of class, vendor, device, subsystem_vendor and subsystem_device."""
    vendor_alias: bool = True
    """Also set `pci-<vendor>.present`, the name that charts for GPU nodes ask for."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List the devices.

    Reads: sys/bus/pci/devices/*/{class,vendor,device,subsystem_vendor,subsystem_device,sriov_totalvfs}
    (kernel ABI/testing/sysfs-bus-pci), iommu_group/type and iommu/intel-iommu/version
    (ABI/testing/sysfs-kernel-iommu_groups, sysfs-class-iommu-intel-iommu), numa_node, and the links in the folder
    Absent: no such directory means no feature; a device without one of the first five files is left out.
    """
    return gather(host, {DEVICE: read_devices})


def read_devices(reader: FeatureReader) -> Features:
    """Values without `0x`; `class` has four digits. The address is no attribute.

    Beyond NFD: `numa_node`, a number, and `pcie_root`, such as `pci0000:64`.
    """
    host = reader.host
    if not host.exists(DEVICES):
        return Features()
    roots = read_roots(host, DEVICES)
    found: dict[str, Sequence[Instance]] = {}
    for name, ids in host.each(DEVICES, partial(read_ids, reader), DEVICE):
        with reader.device(name):
            found[name] = [{**ids, **read_rest(reader, name, roots.get(name, ""))}]
    found |= reader.last(DEVICE, found)
    return Features(instances={DEVICE: tuple(chain(*found.values()))})


def read_ids(reader: FeatureReader, name: str) -> Mapping[str, str] | None:
    """Class, vendor and device, which never change; None if one of them cannot be read."""
    ids: dict[str, str] = {}
    for field in FIELDS:
        with reader.device(name):
            text = reader.text(f"{DEVICES}/{name}/{field}")
        if text is None:
            reader.host.note(f"{DEVICES}/{printable(name)}", f"has no readable {field}, so the device is left out")
            return None
        ids[field] = sys.intern(text.removeprefix("0x").strip(BLANK))
    return ids | {"class": ids["class"][:CLASS_DIGITS]}


def read_rest(reader: FeatureReader, name: str, root: str) -> dict[str, str]:
    """What may change while the device is there."""
    folder = f"{DEVICES}/{name}"
    found = {field: reader.text(f"{folder}/{field}") for field in MORE}
    more = {field: text.removeprefix("0x").strip(BLANK) for field, text in found.items() if text is not None}
    return {**more, **place(reader, f"{folder}/numa_node", root)}


def labels(features: Features, config: Config) -> Labelled:
    """`<fields>.present`, and `<fields>.sriov.capable` where the device reports a number of virtual functions, even 0.

    The vendor-only alias is for the same devices, and `.present` alone.

    Labels:
        <class>_<vendor>.present = true: a PCI device of a class in `deviceClassWhitelist` is there. `deviceLabelFields`
            says which fields the name has
        <class>_<vendor>.sriov.capable = true: a PCI device of a class in `deviceClassWhitelist` can have virtual
            functions
        <vendor>.present = true: a PCI device of that vendor and of a class in `deviceClassWhitelist` is there. The
            worker leaves out this label if `vendorAlias` is `false`
    """
    fields, notes = choose_fields(config.device_label_fields, FIELDS, ("class", "vendor"))
    found: dict[str, str] = {}
    for device in features.instances.get(DEVICE, ()):
        if not is_listed(device, config.device_class_whitelist):
            continue
        name = "_".join(device.get(field, "") for field in fields)
        found[f"{name}.present"] = "true"
        if "sriov_totalvfs" in device:
            found[f"{name}.sriov.capable"] = "true"
        if config.vendor_alias and device["vendor"]:
            found[f"{device['vendor']}.present"] = "true"
    return Labelled(found, tuple(notes))


SOURCE = Source("pci", Config, discover, labels, wakes=frozenset({"pci"}), settled=True)
