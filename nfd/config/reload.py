"""Reloads a configuration: an invalid drop-in keeps its previous content, and everything else is updated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from nfd.config.load import Loaded, check, file_layer, load, names_of
from nfd.config.overlay import Finding, Layer
from nfd.config.reload_guard import FilesInUse
from nfd.config.section import Section
from nfd.errors import ConfigError

M = TypeVar("M", bound=Section)


def reload_files(
    model: type[M],
    in_use: FilesInUse,
    path: str,
    rest: Sequence[Layer] = (),
    *,
    required: bool = False,
    pipes: bool = False,
    strict_text: bool = False,
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

    read = _read(path, older, required=required, pipes=pipes)
    in_use.check(path, read)
    try:
        loaded = load(model, [*read, *rest], strict_text=strict_text)
    except ConfigError:
        if not in_use.loaded:
            raise
        read = [_usable(model, layer, path, older, strict_text) for layer in read]
        loaded = load(model, [*read, *rest], strict_text=strict_text)
    in_use.take(read)
    return Loaded(loaded.config, (*findings, *loaded.findings)), read


Older = Callable[[str, ConfigError], Layer]


def _read(path: str, older: Older, *, required: bool, pipes: bool) -> list[Layer]:
    if not path:
        return []
    first, *drop_ins = names_of(path)
    found = [file_layer(first, required=required, pipes=pipes)]
    for name in drop_ins:
        try:
            found.append(file_layer(name))
        except ConfigError as error:
            found.append(older(str(name), error))
    return [layer for layer in found if layer is not None]


def _usable(model: type[Section], layer: Layer, path: str, older: Older, strict_text: bool) -> Layer:
    """A drop-in without mistakes of its own, or its previous content; the file itself is returned as it is."""
    wrong = [one for one in check(model, [layer], strict_text=strict_text) if one.fatal]
    return older(layer.name, ConfigError(str(wrong[0]))) if wrong and layer.name != str(Path(path)) else layer
