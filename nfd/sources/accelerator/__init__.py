"""Accelerators of every vendor: feature `accelerator.device`, one instance for each PCI function; options, labels.

The devices of each vendor are described by a data file (`nfd.accelerators`). Labels are the same few for all of them,
and those that the vendor's own labeller writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Annotated

from nfd.accelerators.vendors import Vendor, entries_of, load
from nfd.config.section import Distinct, Section
from nfd.errors import HostError
from nfd.features import Features, Instance, printable
from nfd.host import Host
from nfd.source import Labelled, Partial, Source
from nfd.sources.accelerator import states
from nfd.sources.accelerator.labels import derive_labels
from nfd.sources.accelerator.states import DEVICE
from nfd.sources.feature_reader import FeatureReader, gather
from nfd.sources.pci_functions import Function, Ids, first_value, read_functions, read_memory


class Config(Section):
    """Which vendors are labelled."""

    exclude: Annotated[tuple[str, ...], Distinct()] = ("nvidia",)
    """Vendors without `accelerator-<vendor>` labels. Their devices count for `accelerator-any` all the same."""
    vendor_labels: bool = True
    """Also write the labels that the vendor's own labeller writes, such as `rebellions.ai/npu.product`."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List the accelerators.

    Reads: as `nfd.sources.pci_functions`; of an accelerator the files that its vendor's data names, below
    sys/bus/pci/devices/*, and sys/module/*/{initstate,version}.  Absent: a machine without one has no feature.
    """
    return gather(host, {DEVICE: read_devices})


def read_devices(reading: FeatureReader) -> Features:
    """`address`, `vendor`, `device`, and as far as they are known `product`, `family`, `memory` (MiB of the whole
    device), `driver`, `version`, `state`; `virtual` and `integrated` are `true` or missing.
    """
    found: dict[str, Sequence[Instance]] = {}
    for function in read_functions(reading, lambda ids: bool(entries_of(ids.vendor, ids.kind))):
        ids = function.ids
        with reading.device(function.address):
            vendors = [one for one in vendors_of(reading, ids) if one.has(ids.device, ids.kind)]
            found[function.address] = [read_device(reading, function, one) for one in vendors]
    found |= reading.last(DEVICE, found)
    devices = tuple(chain(*found.values()))
    return Features(instances={DEVICE: devices}) if devices else Features()


def vendors_of(reading: FeatureReader, ids: Ids) -> Iterator[Vendor]:
    """The vendors that a function may be of. If the data of one cannot be loaded, the feature is incomplete."""
    for entry in entries_of(ids.vendor, ids.kind):
        try:
            yield load(entry)
        except ValueError as error:
            reading.errors.append(HostError("nfd.accelerators", str(error)))


def read_device(reading: FeatureReader, function: Function, vendor: Vendor) -> Instance:
    model = vendor.model(function.ids.device, function.revision)
    device = {
        "address": printable(function.address),
        "vendor": vendor.name,
        "device": function.ids.device,
        "product": first_value(reading, function.path, vendor.product) or model.product,
        "family": model.family,
        "memory": "" if model.integrated else read_memory(reading, function, vendor) or str(model.memory or ""),
        "driver": function.driver,
        "version": reading.value(vendor.version) or "" if vendor.version and function.driver else "",
        "state": states.read_state(reading, function, vendor),
        "virtual": "true" if function.virtual else "",
        "integrated": "true" if model.integrated else "",
    }
    return {key: value for key, value in device.items() if value}


def resume(found: Features, before: Features) -> Features:
    """A device keeps its memory and name while no driver tells them."""
    known = {(one["address"], one["vendor"], one["device"]): one for one in before.instances.get(DEVICE, ())}
    held = tuple(_held(one, known) for one in found.instances.get(DEVICE, ()))
    return Features(instances={DEVICE: held}) if held else found


def _held(one: Instance, known: Mapping[tuple[str, str, str], Instance]) -> Instance:
    last = known.get((one["address"], one["vendor"], one["device"]))
    if last is None or not one.get("state"):
        return one
    return {**one, **{key: last[key] for key in ("product", "memory") if key in last}}


def labels(features: Features, config: Config) -> Labelled:
    """The same for every vendor, and the vendor's own.

    Labels:
        <vendor>.present = true: an accelerator of that vendor is on PCI
        <vendor>.product = text: the model, if all devices are of the same model
        <vendor>.product.<product> = number: devices of that model, if there are several models
        <vendor>.count = number: devices. Virtual functions count only if there is no other device of the vendor
        <vendor>.count.failing = number: devices without a working driver, if there are any
        <vendor>.count.vfio = number: devices that VFIO holds for virtual machines, if there are any
        <vendor>.count.virtual = number: virtual functions that `count` does not contain, if there are any
        <vendor>.memory = number: memory of the smallest device, in MiB
        <vendor>.driver = text: the kernel driver, if all devices have the same
        <vendor>.state = no-driver, driver-error, degraded, vfio: what is wrong with the devices
        any.present = true: an accelerator of any vendor is on PCI
        any.memory = number: memory of the smallest device that has its own memory, in MiB
        furiosa.ai/npu.count, rebellions.ai/npu.count = number: devices of the vendor
        furiosa.ai/npu.family, rebellions.ai/npu.family = text: the family, if all devices are of the same family
        furiosa.ai/npu.product, rebellions.ai/npu.product = text: the model, if all devices are of the same model
        rebellions.ai/npu.present = true: a device of the vendor is on PCI
        rebellions.ai/driver-version.full = text: the driver's version
        rebellions.ai/driver-version.major = text: first part of the driver's version
        rebellions.ai/driver-version.minor = text: second part of the driver's version
        rebellions.ai/driver-version.patch = text: third part of the driver's version
        rebellions.ai/driver-version.revision = text: rest of the driver's version, such as `6d00b56`
        intel.feature.node.kubernetes.io/gaudi = true: an Intel Gaudi is on PCI
    """
    return Labelled(derive_labels(features, config.exclude, vendor_labels=config.vendor_labels))


SOURCE = Source(
    "accelerator",
    Config,
    discover,
    labels,
    resume=resume,
    devices=states.count_devices,
    namespaced=True,
    depends=frozenset({"nvidia"}),
    wakes=frozenset({"pci", "module"}),
)
