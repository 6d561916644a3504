"""Remembers the files of the configuration in use: if one is missing or empty at a reload, that is an error.

Editors move a file away and write it again, and shells empty it before they write. Neither means "the defaults".
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nfd.config.overlay import Layer
from nfd.errors import FileGone


class FilesInUse:
    """The files of the configuration in use. A file counts if it has more than `{}` or comments."""

    def __init__(self) -> None:
        self.loaded = False
        """Whether a configuration is in use."""
        self._saying: frozenset[str] = frozenset()
        self._layers: dict[str, Layer] = {}
        self._reported = ""

    def check(self, path: str, layers: Iterable[Layer]) -> None:
        """Compare the file and its drop-ins with those in use. Raises: FileGone.

        A drop-in that was deleted from its folder is no longer used, like a rule file of `custom.d`. One that is empty,
        or missing with its folder, is an error.
        """
        found = {layer.name: layer for layer in layers}
        for name in sorted(self._saying):
            layer = found.get(name)
            if layer is None and name != str(Path(path)) and _is_taken_back(Path(name)):
                continue
            if layer is None or layer.blank:
                text = f"{name}: is {'empty' if layer else 'gone'}; write {{}} to it for the defaults"
                news, self._reported = text != self._reported, text
                raise FileGone(text, news=news)

    def layer(self, name: str) -> Layer | None:
        """The layer of a file of the configuration in use."""
        return self._layers.get(name)

    def take(self, layers: Iterable[Layer]) -> None:
        """These layers are in use from now on."""
        self.loaded = True
        self._layers = {layer.name: layer for layer in layers}
        self._saying = frozenset(name for name, layer in self._layers.items() if layer.data)
        self._reported = ""


def _is_taken_back(name: Path) -> bool:
    return name.parent.is_dir() and not name.exists()
