"""Removes what identifies machines, people and networks from texts and objects, and packs them into one archive."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfd.config.yamltext import dump
from nfd.errors import ConfigError
from nfd.host.identifiers import Identifying
from nfd.host.pseudonyms import Pseudonyms

FOLDER = "nfd-report"
_MACHINE = ("cpu.", "kernel.", "memory.", "pci.", "storage.", "system.osrelease", "usb.")
"""Features whose values come from the kernel and its drivers, not from people."""
_CONTENT = ("flags", "attributes", "instances")
_SHORTEST_ALIAS = 3
_COMMON = frozenset({"worker", "master", "node", "control-plane", "localhost", "gpu", "cpu", "nfd", "default", "host"})
"""First parts of names that many nodes share, and that texts of this product contain."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Several YAML documents of one file."""

    items: tuple[Any, ...]


class Cleaner:
    """Replaces equal values by equal texts; the key is thrown away.

    With `names`, these names and names of hosts are replaced as well, with and without their domain.
    """

    def __init__(self, names: Iterable[str] | None = None) -> None:
        pseudonyms = Pseudonyms()
        known = None if names is None else _replacements(names)
        self._people = Identifying(pseudonyms, free=True, names=known)
        self._machine = Identifying(pseudonyms, names=known)

    def text(self, text: str) -> str:
        """The text with identifying parts replaced."""
        return self._people.text(text)

    def value(self, value: Any, key: str = "", clean: Identifying | None = None) -> Any:
        """The JSON value, including its keys, with identifying parts replaced; `key` is its name in its source.

        `clean` is for values of features that come from the kernel and its drivers.
        """
        clean = clean or self._people
        match value:
            case str():
                return clean.text(value, key)
            case Documents():
                return Documents(tuple(self.value(one) for one in value.items))
            case Mapping() if key == "features" and value.keys() <= set(_CONTENT):
                return {
                    kind: {name: self.value(one, "", self._of(name)) for name, one in sets.items()}
                    for kind, sets in value.items()
                }
            case Mapping():
                return {clean.text(str(name)): self.value(one, str(name), clean) for name, one in value.items()}
            case list() | tuple():
                return [self.value(one, key, clean) for one in value]
        return value

    def _of(self, feature: str) -> Identifying:
        return self._machine if feature.startswith(_MACHINE) else self._people


def _replacements(names: Iterable[str]) -> dict[str, str]:
    """Names of nodes become node-1 and so on, with a domain node-1.example; their first parts become the same."""
    found: dict[str, str] = {}
    whole = sorted(set(names), key=lambda name: (-len(name), name))
    for number, name in enumerate(whole, 1):
        found[name] = f"node-{number}.example" if "." in name else f"node-{number}"
    for number, name in enumerate(whole, 1):
        alias = name.partition(".")[0]
        if len(alias) >= _SHORTEST_ALIAS and alias not in _COMMON and not alias.isdigit():
            found.setdefault(alias, f"node-{number}")
    return found


def render(name: str, value: Any) -> str:
    """The text of a file: JSON or YAML by its name, or a text as it is."""
    if isinstance(value, str):
        return value
    if name.endswith(".json"):
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return "---\n".join(map(dump, value.items)) if isinstance(value, Documents) else dump(value)


def write_bundle(path: Path, files: Mapping[str, str]) -> int:
    """Write a .tar.gz with these files in one folder; returns their number. Raises: ConfigError if it cannot be
    written."""
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
