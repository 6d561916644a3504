"""Kernel modules: loaded ones, and those built into the kernel."""

from __future__ import annotations

from nfd.errors import HostError
from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK, first_word
from nfd.sources.feature_reader import FeatureReader

LOADED_FILE = "proc/modules"
FOLDERS = ("lib/modules", "usr/lib/modules")
"""One place, unless the machine has no link from one to the other."""


def read_loaded(host: Host) -> frozenset[str] | None:
    """Names of the loaded modules; None if the kernel has no list.

    Reads: proc/modules  (proc(5))
    """
    text = host.text(LOADED_FILE)
    return None if text is None else parse_loaded(text)


def read_enabled(reader: FeatureReader, release: str | None) -> frozenset[str] | None:
    """Loaded and built-in modules; None without a list of the built-in ones. Spelled as the files have it.

    Reads: modules.builtin of lib/modules/<release> or usr/lib/modules/<release>  (kernel kbuild/kbuild), proc/modules
    """
    if release is None:
        return None
    lists = (reader.host.parsed(f"{folder}/{release}/modules.builtin", parse_builtin) for folder in FOLDERS)
    builtin = next((found for found in lists if found is not None), None)
    if builtin is None:
        return None
    try:
        return builtin | (read_loaded(reader.host) or frozenset())
    except HostError as error:
        reader.errors.append(error)
        return builtin


def parse_loaded(text: str) -> frozenset[str]:
    """The first word of each line; blank lines say nothing."""
    return frozenset(name for line in text.split("\n") if (name := first_word(line)))


def parse_builtin(data: bytes) -> frozenset[str]:
    """Base names of the lines that end in `.ko`, without it."""
    lines = (line.strip(BLANK) for line in data.decode("utf-8", "replace").split("\n"))
    return frozenset(line.rpartition("/")[2].removesuffix(".ko") for line in lines if line.endswith(".ko"))
