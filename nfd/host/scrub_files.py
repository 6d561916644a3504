"""Takes out of a recording what identifies one machine or is a secret, so that it may be given to strangers.

Of files that the kernel, its drivers or a distribution write, the addresses, UUIDs and keys are replaced, and all of
such as hold nothing but what identifies. Files that people write (`features.d`, `custom.d`), and those that no
built-in source reads, lose all that is not known to be harmless (`nfd.host.identifiers`).
"""

from __future__ import annotations

import gzip
import re
import zlib

from nfd.host.identifiers import Identifying
from nfd.host.pseudonyms import Pseudonyms

_SECRET_FILES = re.compile(
    r"(?:sys|proc)/.*(?:serial|uuid|asset_tag|boot_id|wwid|wwn|nguid|eui|unique_id|hive_id|asic_id|vpd_pg8[03]|subsysnqn|hostnqn|system-id"
    r"|_guid|node_desc|port_name|node_name|initiatorname|ifalias|phys_(?:port|switch)_id)[^/]*|etc/machine-id"
)
_VERSION_FILES = re.compile(
    r".*/[^/]*(?:release|version|modalias|rev|bios|firmware|sku|family|product_name|board_name)[^/]*"
)
"""What has dots there is no address."""
_WRITTEN = re.compile(r"(?:sys|proc|boot|lib|usr)/.*|etc/(?:os-release|nv_tegra_release|machine-id)|cpuid|auxv")
"""By the kernel, its drivers or a distribution."""
_TOPOLOGY = re.compile(r"sys/.*/kfd/topology/nodes/[^/]*/properties")
_TOPOLOGY_IDS = re.compile(r"(?m)^(unique_id|hive_id|[^\s]*serial[^\s]*) \d+$")
"""Lines of AMD's compute driver that name one GPU, or the GPUs that one link joins (Linux amdkfd/kfd_topology.c)."""
_CMDLINE = "proc/cmdline"
_CONFIGURATIONS = re.compile(r"proc/config\.gz|(?:boot|lib|usr)/.*config[^/]*")
_OPTION = re.compile(
    r"(?m)^(CONFIG_(?:\w*CMDLINE\w*|DEFAULT_HOSTNAME|BUILD_SALT|INITRAMFS_SOURCE|\w+_KEYS?)=\")(.+)(\")$"
)
"""The options of a kernel's configuration into which people write."""
_GZIP = b"\x1f\x8b"
_MAX_UNPACKED = 16 * 1024 * 1024


class Scrubber:
    """Replaces identifying values, the same ones always by the same; see `Pseudonyms`."""

    def __init__(self, key: bytes | None = None) -> None:
        self._pseudonyms = Pseudonyms(key)
        self._written = Identifying(self._pseudonyms, free=False)
        self._free = Identifying(self._pseudonyms, free=True, strict=True)

    def file(self, path: str, data: bytes) -> bytes:
        """A file's content. A packed one is packed anew if something in it was replaced."""
        if path.endswith(".gz") and data.startswith(_GZIP):
            return self._packed(path, data)
        text = data.decode("utf-8", "surrogateescape")
        return self._file(path, text).encode("utf-8", "surrogateescape")

    def text(self, text: str) -> str:
        """The text of a probe, or the value of an environment variable."""
        return self._written.text(text)

    def name(self, path: str) -> str:
        """A path: what has an address, a UUID or the like in its name. Numbers with dots in it are versions."""
        return "/".join(self._written.text(part, "version") for part in path.split("/"))

    def label(self, key: str, value: str) -> str:
        """What becomes of a label's value that comes from a feature file."""
        return self._free.text(f"{key}={value}").partition("=")[2]

    def _file(self, path: str, text: str) -> str:
        if _SECRET_FILES.fullmatch(path):
            return self._written.value(text)
        if _TOPOLOGY.fullmatch(path):
            return _TOPOLOGY_IDS.sub(r"\1 0", text)
        if path == _CMDLINE or not _WRITTEN.fullmatch(path):
            return self._free.text(text)
        if _CONFIGURATIONS.fullmatch(path):
            return _OPTION.sub(lambda found: found[1] + self._free.text(found[2]) + found[3], text)
        return self._written.text(text, "version" if _VERSION_FILES.fullmatch(path) else "")

    def _packed(self, path: str, data: bytes) -> bytes:
        """What cannot be unpacked no scan can read either, and stays out."""
        unpacker = zlib.decompressobj(wbits=31)
        try:
            text = unpacker.decompress(data, _MAX_UNPACKED).decode("utf-8", "surrogateescape")
        except zlib.error:
            return _GZIP
        fresh = self._file(path, text)
        return data if fresh == text else gzip.compress(fresh.encode("utf-8", "surrogateescape"), mtime=0)
