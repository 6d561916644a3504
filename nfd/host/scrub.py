"""Takes out of a recording what identifies one machine: MAC addresses, UUIDs, serial numbers, asset tags.

Replacements keep length, case and separators, and are equal for equal originals within one recording. They are keyed
hashes with a key that is thrown away, so that short originals cannot be found by trying.
"""

from __future__ import annotations

import re
import secrets
from hashlib import blake2b

_MAC = re.compile(rb"(?<![0-9A-Fa-f:-])[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4,18}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])")
"""Ethernet has 6 bytes, InfiniBand 20."""
_NAMED_MAC = re.compile(rb"(?<=\benx)[0-9a-f]{12}\b")
"""An interface named after its address (systemd.net-naming-scheme)."""
_UUID = re.compile(rb"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_FIELD = re.compile(rb"(?i)((?:serial|uuid|sequence code|asset.?tag)[\w ]*\"?[ \t]*[:=][ \t]*\"?)([^\"\s,}]+)")
"""`Serial : 10000000abcdef01`, `"serial": "1322…"`."""

_SECRET_FILES = re.compile(
    r"(?:sys|proc)/.*(?:serial|uuid|asset_tag|boot_id|wwid|wwn|nguid|eui|unique_id|vpd_pg8[03])[^/]*|etc/machine-id"
)
_FILES_WITH_FIELDS = re.compile(r"proc/(cpuinfo|sysinfo)|sys/.*/uevent")
_COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")


class Scrubber:
    """Replaces identifying values, the same ones always by the same."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def file(self, path: str, data: bytes) -> bytes:
        """A file's content; compressed ones stay as they are."""
        if data.startswith(_COMPRESSED):
            return data
        fresh = self.anything(data)
        if fresh == data and _SECRET_FILES.fullmatch(path):
            return self._secret(data)
        return self._fields(fresh) if _FILES_WITH_FIELDS.fullmatch(path) else fresh

    def probe(self, text: str) -> str:
        """The text of a probe."""
        return self._fields(self.anything(text.encode("utf-8", "surrogateescape"))).decode("utf-8", "surrogateescape")

    def name(self, path: str) -> str:
        """A path: addresses and UUIDs in its names."""
        return self.anything(path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def anything(self, data: bytes) -> bytes:
        """MAC addresses and UUIDs wherever they stand."""
        for pattern in (_MAC, _NAMED_MAC, _UUID):
            data = pattern.sub(lambda found: self._hex(found.group()), data)
        return data

    def _fields(self, data: bytes) -> bytes:
        """Values named serial, UUID and the like, but for those that `anything` has replaced already."""
        return _FIELD.sub(
            lambda found: found[1] + (found[2] if _is_replaced(found[2]) else self._secret(found[2])), data
        )

    def _hex(self, text: bytes) -> bytes:
        """Hexadecimal digits anew, separators kept; all zeros or all ones mean nothing and stay."""
        digits = re.sub(rb"[:-]", b"", text).lower()
        if set(digits) <= set(b"0") or set(digits) <= set(b"f"):
            return text
        fresh = iter(b"02" + self._digest(digits)[2:] if len(digits) == 12 else self._digest(digits))
        spread = bytes(byte if byte in b":-" else next(fresh) for byte in text)
        return spread.upper() if text != text.lower() else spread

    def _secret(self, text: bytes) -> bytes:
        """Letters and digits anew, everything else kept; zeros alone mean nothing and stay."""
        if not text.strip(b"0 \n"):
            return text
        noise = self._digest(text.strip())
        return bytes(_exchange(byte, noise[index % len(noise)]) for index, byte in enumerate(text))

    def _digest(self, text: bytes) -> bytes:
        """64 hexadecimal digits that only this recording's key gives for this text."""
        return blake2b(text, key=self._key, digest_size=32).hexdigest().encode()


def _is_replaced(text: bytes) -> bool:
    return bool(_MAC.search(text) or _UUID.search(text))


def _exchange(byte: int, noise: int) -> int:
    """Another character of the same class."""
    if not bytes((byte,)).isalnum():
        return byte
    first, size = (ord("0"), 10) if byte <= ord("9") else (ord("A"), 26) if byte <= ord("Z") else (ord("a"), 26)
    return first + noise % size
