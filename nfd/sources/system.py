"""The operating system and the machine: features `system.name`, `system.osrelease` and `system.dmiid`."""

from __future__ import annotations

import re

from nfd.config.section import Section
from nfd.features import Features, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, attributes, gather

NAME, OS_RELEASE, DMI = "system.name", "system.osrelease", "system.dmiid"

OS_RELEASE_FILES = ("etc/os-release", "usr/lib/os-release")
DMI_FOLDER = "sys/devices/virtual/dmi/id"
DMI_FIELDS = (
    "bios_date",
    "bios_vendor",
    "bios_version",
    "board_asset_tag",
    "board_name",
    "board_vendor",
    "board_version",
    "chassis_asset_tag",
    "chassis_type",
    "chassis_vendor",
    "chassis_version",
    "product_family",
    "product_name",
    "product_sku",
    "product_version",
    "sys_vendor",
)
"""Serial numbers and the product UUID are left out on purpose: they identify a machine."""

MAX_LINE = 65535
"""Bytes; NFD's line reader stops at a longer line, and so does this one, with a note."""

LABELLED = ("ID", "VERSION_ID", "VERSION_ID.major", "VERSION_ID.minor")

_LINE = re.compile(r"(\w+)=(.+)", re.ASCII)
_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\..*)?", re.ASCII | re.DOTALL)


class Config(Section):
    """Labels of the operating system."""

    os_release_labels: tuple[str, ...] = LABELLED
    """Fields of os-release that become labels `system-os_release.<field>`; a list replaces the default."""


def discover(host: Host, config: Config) -> Features | Partial:
    """Read node name, os-release and DMI."""
    return gather(host, {NAME: read_name, OS_RELEASE: read_os_release, DMI: read_dmi})


def read_name(reader: FeatureReader) -> Features:
    """`nodename`: the variable NODE_NAME, empty if unset."""
    return attributes(NAME, {"nodename": printable(reader.host.env("NODE_NAME"))})


def read_os_release(reader: FeatureReader) -> Features:
    """The fields of os-release, and the parts of VERSION_ID.

    Reads: etc/os-release, or usr/lib/os-release if that is not there  (os-release(5)). A folder in its place is what a
    container runtime makes of a mount that the machine does not have.
    Absent: no such file means no feature.
    """
    host = reader.host
    path = next((path for path in OS_RELEASE_FILES if host.exists(path) and not host.is_dir(path)), None)
    data = None if path is None else host.data(path)
    if path is None or data is None:
        return Features()
    fields, whole = parse_os_release(data)
    if not whole:
        host.note(path, f"a line is longer than {MAX_LINE} bytes; it and all after it is left out")
    return attributes(OS_RELEASE, fields | split_version(fields.get("VERSION_ID", "")))


def read_dmi(reader: FeatureReader) -> Features:
    """What the firmware says about the machine; empty values are kept.

    Reads: sys/devices/virtual/dmi/id/*  (kernel ABI/testing/sysfs-class-dmi, SMBIOS specification)
    Absent: no field at all means no feature.
    """
    return attributes(DMI, dict(reader.values(DMI_FOLDER, dict(zip(DMI_FIELDS, DMI_FIELDS, strict=True)))) or None)


def parse_os_release(data: bytes) -> tuple[dict[str, str], bool]:
    """Fields by name, the later of two equal names winning; False if the text was read only up to a very long line.

    A line is `KEY=value` from its first character; quotes of both kinds around the value are stripped, shell escapes
    are not interpreted.
    """
    fields: dict[str, str] = {}
    for line in data.split(b"\n"):
        if len(line) > MAX_LINE:
            return fields, False
        match = _LINE.fullmatch(line.decode("utf-8", "replace").removesuffix("\r"))
        if match:
            fields[match.group(1)] = match.group(2).strip("\"'")
    return fields, True


def split_version(version: str) -> dict[str, str]:
    """`VERSION_ID.major` and `VERSION_ID.minor`, as far as the version has them; one `v` may stand before it."""
    match = _VERSION.fullmatch(version)
    parts = zip(("VERSION_ID.major", "VERSION_ID.minor"), match.groups() if match else (), strict=False)
    return {name: part for name, part in parts if part}


def labels(features: Features, config: Config) -> Labels:
    """The fields that schedulers ask for, as far as os-release has them.

    Labels:
        os_release.ID = text: the operating system, such as `ubuntu`
        os_release.VERSION_ID = text: the operating system's version, such as `24.04`
        os_release.VERSION_ID.major = text: first part of that version
        os_release.VERSION_ID.minor = text: second part of that version
        os_release.<field> = text: another field that `osReleaseLabels` lists
    """
    fields = features.attributes.get(OS_RELEASE, {})
    return {f"os_release.{name}": fields[name] for name in config.os_release_labels if name in fields}


SOURCE = Source("system", Config, discover, labels)
