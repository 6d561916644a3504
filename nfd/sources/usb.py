"""USB devices: feature `usb.device`, one instance per device or, where the device leaves its class open, interface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated

from nfd.config.section import Distinct, Section
from nfd.features import Features, Instance
from nfd.host import Host
from nfd.source import Labelled, Partial, Source
from nfd.sources.device_labels import choose_fields, is_listed
from nfd.sources.feature_reader import FeatureReader, gather

DEVICE = "usb.device"

DEVICES = "sys/bus/usb/devices"
FIELDS = ("class", "vendor", "device", "serial")
FILES = {"class": "bDeviceClass", "vendor": "idVendor", "device": "idProduct", "serial": "serial"}

PER_INTERFACE = "00"
"""bDeviceClass of a device whose interfaces have classes of their own  (USB 2.0 specification, table 9-8)."""


class Config(Section):
    """Which USB devices are labelled, and how."""

    device_class_whitelist: Annotated[tuple[str, ...], Distinct(prefixes=True)] = ("0e", "ef", "fe", "ff")
    """Beginnings of the classes that get labels: video, miscellaneous, application and vendor specific."""
    device_label_fields: Annotated[tuple[str, ...], Distinct()] = ("class", "vendor", "device")
    """Parts of a label's name, of class, vendor, device and serial."""


def discover(host: Host, config: Config) -> Features | Partial:
    """List the devices.

    Reads: sys/bus/usb/devices/*/{bDeviceClass,idVendor,idProduct,serial} and */bInterfaceClass below
    (kernel ABI/stable/sysfs-bus-usb, ABI/testing/sysfs-bus-usb)
    Absent: no USB at all is an empty list; a value that is missing or empty is left out.
    """
    return gather(host, {DEVICE: read_devices})


def read_devices(reader: FeatureReader) -> Features:
    """The entries that have an idProduct: devices and hubs, not their interfaces."""
    found: dict[str, Sequence[Instance]] = {}
    for name in reader.host.names(DEVICES):
        with reader.device(name):
            found[name] = list(read_device(reader, f"{DEVICES}/{name}"))
    found |= reader.last(DEVICE, found)
    return Features(instances={DEVICE: tuple(chain(*found.values()))})


def read_device(reader: FeatureReader, folder: str) -> Iterator[Instance]:
    """One instance, or one per interface if the class is 00."""
    if not reader.has(f"{folder}/idProduct"):
        return
    device = {key: value for key, value in reader.values(folder, FILES) if value}
    if device.get("class") != PER_INTERFACE:
        yield device
        return
    for name in reader.names(folder):
        interface = reader.value(f"{folder}/{name}/bInterfaceClass")
        if interface is not None:
            yield device | {"class": interface}


def labels(features: Features, config: Config) -> Labelled:
    """For each listed device; a slash in a serial number is no namespace.

    Labels:
        <class>_<vendor>_<device>.present = true: a USB device of a class in `deviceClassWhitelist` is there.
            `deviceLabelFields` says which fields the name has
    """
    fields, notes = choose_fields(config.device_label_fields, FIELDS, ("class", "vendor", "device"))
    listed = (one for one in features.instances.get(DEVICE, ()) if is_listed(one, config.device_class_whitelist))
    keys = ("_".join(device.get(field, "") for field in fields) for device in listed)
    return Labelled({f"{key}.present": "true" for key in keys}, tuple(notes))


SOURCE = Source("usb", Config, discover, labels, wakes=frozenset({"usb"}), settled=True)
