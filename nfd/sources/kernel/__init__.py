"""The kernel: version, configuration, modules, security modules, SELinux and KVM; options and labels.

Features `kernel.version`, `kernel.config`, `kernel.selinux`, `kernel.kvm` (attributes), `kernel.loadedmodule`,
`kernel.enabledmodule` and `kernel.lsm` (flags).
"""

from __future__ import annotations

import re
from typing import Annotated

from nfd.config.section import Distinct, Section
from nfd.errors import HostError
from nfd.features import Features, Labels
from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK, first_word
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, attributes, gather, unless_denied
from nfd.sources.kernel import kconfig

VERSION, CONFIG, SELINUX, KVM = "kernel.version", "kernel.config", "kernel.selinux", "kernel.kvm"
LOADED, ENABLED, LSM = "kernel.loadedmodule", "kernel.enabledmodule", "kernel.lsm"
RELEASE_FILE, LOADED_FILE, LSM_FILE = "proc/sys/kernel/osrelease", "proc/modules", "sys/kernel/security/lsm"
MODULE_FOLDERS = ("lib/modules", "usr/lib/modules")
"""One place, unless the machine has no link from one to the other."""

_PARTS = re.compile(r"([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-.*)?", re.ASCII | re.DOTALL)
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)


class Config(Section):
    """Where the kernel's configuration is, and what of it is labelled."""

    kconfig_file: str = ""
    """File with the kernel's configuration, tried before the usual places; a name ending in .gz is decompressed."""
    config_opts: Annotated[tuple[str, ...], Distinct()] = ("NO_HZ", "NO_HZ_IDLE", "NO_HZ_FULL", "PREEMPT")
    """Configuration options that get a label, without CONFIG_."""


def discover(host: Host, config: Config) -> Features | Partial:
    """Read what the running kernel says about itself, and the files that belong to its release."""
    return gather(
        host,
        {
            VERSION: read_version,
            CONFIG: lambda reader: read_config(reader, config),
            LOADED: lambda reader: _flags(LOADED, read_loaded(host)),
            ENABLED: lambda reader: _flags(ENABLED, read_enabled(reader, release_or_none(host))),
            LSM: read_security_modules,
            SELINUX: read_selinux,
            KVM: read_kvm,
        },
    )


def read_release(host: Host) -> str | None:
    """The release, as `uname -r` prints it; None if there is none."""
    text = host.text(RELEASE_FILE)
    return None if text is None else text.strip(BLANK)


def release_or_none(host: Host) -> str | None:
    """The release as part of paths; None if there is none, or if it cannot be the name of a file."""
    release = read_release(host)
    return None if not release or "/" in release or "\0" in release else release


def read_version(reader: FeatureReader) -> Features:
    """`full`, and as far as it has them `major`, `minor` and `revision`.

    Reads: proc/sys/kernel/osrelease  (uname(2))
    """
    release = read_release(reader.host)
    if release is None:
        return Features()
    parts = parse_release(release)
    if parts["full"] != release:
        reader.host.note(RELEASE_FILE, f"{release!r} became {parts['full']!r} to be a label value")
    return attributes(VERSION, parts)


def parse_release(release: str) -> dict[str, str]:
    """`full`, the release with `_` for each character that a label value cannot have and without signs at its ends.

    `major`, `minor` and `revision` where the whole of it is up to three numbers, then nothing or `-` and anything; a
    number that is not there has no entry. Leading zeros stay, the length is not limited.
    """
    full = _ILLEGAL.sub("_", release).strip("-_.")
    match = _PARTS.fullmatch(full)
    parts = zip(("major", "minor", "revision"), match.groups() if match else (), strict=False)
    return {"full": full, **{name: part for name, part in parts if part is not None}}


def read_config(reader: FeatureReader, config: Config) -> Features:
    """The options that are set, by name, without CONFIG_.

    Reads: the first of the places in `kconfig` that is there
    Absent: many kernels are shipped without; then there is no feature, and a note.
    """
    release = release_or_none(reader.host)
    options = kconfig.read(reader.host, config.kconfig_file, release)
    if options is None and release is not None:
        reader.host.note(CONFIG, "the kernel's configuration is in none of the usual places")
    return attributes(CONFIG, options)


def read_loaded(host: Host) -> frozenset[str] | None:
    """Names of the loaded modules; None if the kernel has no list.

    Reads: proc/modules  (proc(5))
    """
    text = host.text(LOADED_FILE)
    return None if text is None else parse_loaded(text)


def parse_loaded(text: str) -> frozenset[str]:
    """The first word of each line; blank lines say nothing."""
    return frozenset(filter(None, map(first_word, text.split("\n"))))


def read_enabled(reader: FeatureReader, release: str | None) -> frozenset[str] | None:
    """Loaded and built-in modules; None without a list of the built-in ones. Spelled as the files have it.

    Reads: modules.builtin of lib/modules/<release> or usr/lib/modules/<release>  (kernel kbuild/kbuild), proc/modules
    """
    if release is None:
        return None
    lists = (reader.host.parsed(f"{folder}/{release}/modules.builtin", parse_builtin) for folder in MODULE_FOLDERS)
    builtin = next((found for found in lists if found is not None), None)
    if builtin is None:
        return None
    try:
        return builtin | (read_loaded(reader.host) or frozenset())
    except HostError as error:
        reader.errors.append(error)
        return builtin


def parse_builtin(data: bytes) -> frozenset[str]:
    """Base names of the lines that end in `.ko`, without it."""
    lines = (line.strip(BLANK) for line in data.decode("utf-8", "replace").split("\n"))
    return frozenset(line.rpartition("/")[2].removesuffix(".ko") for line in lines if line.endswith(".ko"))


def read_security_modules(reader: FeatureReader) -> Features:
    """Names of the active security modules, such as `apparmor` and `landlock`; NFD has no such feature.

    Reads: sys/kernel/security/lsm  (kernel admin-guide/LSM)
    Absent: without securityfs, or where a security policy denies access, there is no feature.
    """
    text = unless_denied(reader.host, lambda: reader.host.text(LSM_FILE), None)
    if text is None:
        return Features()
    return _flags(LSM, frozenset(name for part in text.split(",") if (name := part.strip(BLANK))))


def read_selinux(reader: FeatureReader) -> Features:
    """`enabled`: whether SELinux enforces its policy; permissive is false.

    Reads: sys/fs/selinux/enforce  (selinuxfs)
    Absent: without SELinux the file is missing, which is false; without sys/fs there is no feature.
    """
    if not reader.host.is_dir("sys/fs"):
        return Features()
    text = reader.host.text("sys/fs/selinux/enforce") or ""
    return attributes(SELINUX, {"enabled": "true" if text.startswith("1") else "false"})


def read_kvm(reader: FeatureReader) -> Features:
    """`enabled`: whether /dev/kvm is served.

    Reads: sys/devices/virtual/misc/kvm, whether it exists  (kernel virt/kvm/api)
    """
    exists = reader.host.exists("sys/devices/virtual/misc/kvm")
    return attributes(KVM, {"enabled": "true" if exists else "false"})


def _flags(feature: str, names: frozenset[str] | None) -> Features:
    return Features() if names is None else Features(flags={feature: names})


def labels(features: Features, config: Config) -> Labels:
    """Of the running kernel.

    Labels:
        version.full = text: the release, as `uname -r` prints it
        version.major = number: first part of the release
        version.minor = number: second part of the release
        version.revision = number: third part of the release
        config.<option> = true, text: value of a kernel option that `configOpts` lists. `true` stands for `y` and `m`
        selinux.enabled = true: SELinux enforces its policy
    """
    version_of = features.attributes.get(VERSION, {})
    options = features.attributes.get(CONFIG, {})
    found = {f"version.{part}": text for part, text in version_of.items()}
    for name in config.config_opts:
        if name in options:
            found[f"config.{name}"] = "true" if options[name] in ("y", "m") else options[name]
    if features.attributes.get(SELINUX, {}).get("enabled") == "true":
        found["selinux.enabled"] = "true"
    return found


SOURCE = Source("kernel", Config, discover, labels, wakes=frozenset({"module"}))
