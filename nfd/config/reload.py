"""Reloads a configuration: an invalid drop-in keeps its previous content, and everything else is updated.

If a file of the configuration in use is missing or empty, that is an error. Editors move a file away and write it
again, and shells empty it before they write. Neither means "the defaults".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nfd.config.load import Loaded, M, check, file_layer, files, load
from nfd.config.overlay import Finding, Layer
from nfd.config.section import Section
from nfd.errors import ConfigError, FileGone


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


def reload_files(
    model: type[M],
    in_use: FilesInUse,
    path: str,
    rest: Sequence[Layer] = (),
    *,
    required: bool = False,
    pipes: bool = False,
) -> tuple[Loaded[M], list[Layer]]:
    """The configuration of the file, its drop-ins and further layers; and the layers from files.

    A drop-in that was in use and is now unreadable or invalid keeps its previous content, with a finding. Raises:
    ConfigError; FileGone if only files of the configuration in use are missing.
    """
    findings: list[Finding] = []

    def older(name: str, error: ConfigError) -> Layer:
        layer = in_use.layer(name)
        if layer is None:
            raise error
        findings.append(Finding(name, "", f"is invalid, its previous content stays in use:  {error}"))
        return layer

    def drop_in(name: Path) -> Layer | None:
        try:
            return file_layer(name)
        except ConfigError as error:
            return older(str(name), error)

    read = files(path, required=required, pipes=pipes, drop_in=drop_in)
    in_use.check(path, read)
    try:
        loaded = load(model, [*read, *rest])
    except ConfigError:
        if not in_use.loaded:
            raise
        read = [_usable(model, layer, path, older) for layer in read]
        loaded = load(model, [*read, *rest])
    in_use.take(read)
    return Loaded(loaded.config, (*findings, *loaded.findings)), read


Older = Callable[[str, ConfigError], Layer]


def _usable(model: type[Section], layer: Layer, path: str, older: Older) -> Layer:
    """A drop-in without mistakes of its own, or its previous content; the file itself is returned as it is."""
    wrong = [one for one in check(model, [layer]) if one.fatal]
    return older(layer.name, ConfigError(str(wrong[0]))) if wrong and layer.name != str(Path(path)) else layer
