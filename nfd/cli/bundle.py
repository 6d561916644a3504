"""Texts without what identifies machines, packed into one archive."""

from __future__ import annotations

import io
import ipaddress
import re
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from nfd.errors import ConfigError
from nfd.host.scrub import Scrubber

FOLDER = "nfd-report"
_V4 = re.compile(r"(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\d)")
_V6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_FIELD = re.compile(r"(?i)(\"?[\w./-]*(?:serial|asset.?tag|machine.?id)[\w./-]*\"?\s*[:=]\s*\"?)([^\"\s,}]+)")
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")


class Cleaner:
    """Replaces the same value by the same text; the key is thrown away. `names` are replaced as well."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._scrubber = Scrubber()
        self._addresses: dict[str, str] = {}
        self._names = {name: f"node-{number}" for number, name in enumerate(sorted(names, key=len, reverse=True), 1)}
        parts = "|".join(map(re.escape, self._names))
        self._pattern = re.compile(rf"(?<![\w.-])(?:{parts})(?![\w-]|\.\w)") if parts else None

    def text(self, text: str) -> str:
        """The same text, cleaned."""
        text = _TOKEN.sub("(token)", text)
        text = self._scrubber.probe(text)
        text = _FIELD.sub(lambda found: found[1] + self._secret(found[2]), text)
        for pattern in (_V4, _V6):
            text = pattern.sub(lambda found: self._address(found[0]), text)
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._names[found[0]], text)
        return text

    def _secret(self, text: str) -> str:
        """Values that the recordings' scrubber knows by the name of their field."""
        return self._scrubber.probe(f"serial={text}").removeprefix("serial=")

    def _address(self, text: str) -> str:
        """Another address of the ranges for documentation (RFC 5737, RFC 3849); what means nobody stays."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified:
            return text
        number = len(self._addresses) + 1
        fresh = f"192.0.2.{number % 255}" if address.version == 4 else f"2001:db8::{number:x}"
        return self._addresses.setdefault(str(address), fresh)


def write_bundle(path: Path, files: Mapping[str, str]) -> int:
    """A .tar.gz with these files in one folder; how many. Raises: ConfigError if it cannot be written."""
    try:
        with path.open("xb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, text in sorted(files.items()):
                data = text.encode("utf-8", "replace")
                info = tarfile.TarInfo(f"{FOLDER}/{name}")
                info.size, info.mode = len(data), 0o644
                archive.addfile(info, io.BytesIO(data))
    except OSError as error:
        raise ConfigError(f"--output-file {path}: {error.strerror}") from error
    return len(files)
