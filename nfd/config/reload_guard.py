"""What the configuration in use was read from: if a file of it is missing or empty later, that is an error.

Editors move a file away and write it anew, shells empty it before they write; none of the two means "the defaults".
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nfd.config.overlay import Layer
from nfd.errors import FileGone


class Held:
    """From one load to the next. A file counts if it said something: more than `{}` or comments."""

    def __init__(self) -> None:
        self.loaded = False
        """Whether a configuration is in use."""
        self._saying: frozenset[str] = frozenset()
        self._layers: dict[str, Layer] = {}
        self._told = ""

    def check(self, path: str, layers: Iterable[Layer]) -> None:
        """Compare what was read of the file and its drop-ins with what is in use. Raises: FileGone.

        A drop-in that is no longer in its folder was taken back, as a rule file of `custom.d` is; one that is empty, or
        gone with the folder, was not.
        """
        found = {layer.name: layer for layer in layers}
        for name in sorted(self._saying):
            layer = found.get(name)
            if layer is None and name != str(Path(path)) and _is_taken_back(Path(name)):
                continue
            if layer is None or layer.blank:
                text = f"{name}: is {'empty' if layer else 'gone'}; write {{}} into it for the defaults"
                news, self._told = text != self._told, text
                raise FileGone(text, news=news)

    def layer(self, name: str) -> Layer | None:
        """What a file says that the configuration in use was read from."""
        return self._layers.get(name)

    def take(self, layers: Iterable[Layer]) -> None:
        """From now on this is in use."""
        self.loaded = True
        self._layers = {layer.name: layer for layer in layers}
        self._saying = frozenset(name for name, layer in self._layers.items() if layer.data)
        self._told = ""


def _is_taken_back(name: Path) -> bool:
    return name.parent.is_dir() and not name.exists()
