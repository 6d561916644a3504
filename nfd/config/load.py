"""Loads a configuration, layer over layer, then one validation; and says whether the content of its files changed.

    layers = [*files("/etc/…/nfd-worker.conf"), *inline(options_text), *parsed.layers]
    config, findings = load(WorkerConfig, layers)

`files` gives the file and its drop-ins (`nfd-worker.conf.d/*`), `inline` the text of `--options`,
`nfd.config.flags.parse` the layers of variables and flags; `nfd.config.flags.configure` does all of it at once.
`findings` are warnings for the log (`str(finding)` is one line that names file and key); an invalid value is a
ConfigError, also one line. How layers are merged is in `nfd.config.overlay`, the reading of YAML in
`nfd.config.yamltext`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from nfd.config.named_files import is_blank, read_bytes
from nfd.config.overlay import Finding, Layer, Origin, Overlay, key_text
from nfd.config.section import Inside, Section
from nfd.config.yamltext import Document, parse
from nfd.errors import ConfigError

M = TypeVar("M", bound=Section)


class Loaded(NamedTuple, Generic[M]):
    """A configuration and its warnings."""

    config: M
    findings: tuple[Finding, ...]


def load(model: type[M], layers: Iterable[Layer], *, strict_text: bool = False) -> Loaded[M]:
    """Merge the layers and validate once.

    With `strict_text` a number where text is required is an error. Raises: ConfigError with the first error and the
    number of the others.
    """
    config, findings = _load(model, layers, strict_text)
    errors = [finding for finding in findings if finding.fatal]
    if errors or config is None:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise ConfigError(f"{errors[0]}{more}")
    return Loaded(config, findings)


def check(model: type[Section], layers: Iterable[Layer], *, strict_text: bool = False) -> tuple[Finding, ...]:
    """Everything that `load` would warn of or reject, in the order of the layers."""
    return _load(model, layers, strict_text)[1]


def place_of(model: type[Section], layers: Iterable[Layer], path: tuple[str | int, ...]) -> str:
    """File and line, flag or variable, that set the value at a path last; empty for a default."""
    return _laid(model, layers).place(path)


class Contents:
    """The content of a configuration file and its drop-ins, to tell a change from a touch or an equal copy."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._seen = contents(path)

    def changed(self) -> bool:
        """Whether the content changed since the last call or, at the first call, since this object was made."""
        before, self._seen = self._seen, contents(self._path)
        return before != self._seen


def contents(path: str | Path) -> tuple[tuple[str, bytes], ...]:
    """Name and bytes of a configuration file and its drop-ins, or why they cannot be read. Missing files are left
    out."""
    found = []
    try:
        names = names_of(path) if str(path) else []
    except ConfigError as error:
        return ((str(path), str(error).encode(errors="replace")),)
    for name in names:
        with suppress(FileNotFoundError):
            found.append((str(name), _content(name)))
    return tuple(found)


def _content(path: Path) -> bytes:
    """The content of a file; a device or a pipe is not opened. Raises: FileNotFoundError."""
    try:
        return read_file(path) if stat.S_ISREG(path.stat().st_mode) else b""
    except FileNotFoundError:
        raise
    except (ConfigError, OSError, ValueError) as error:
        return str(error).encode(errors="replace")


def files(
    path: str | Path,
    *,
    required: bool = False,
    pipes: bool = False,
    drop_in: Callable[[Path], Layer | None] | None = None,
) -> list[Layer]:
    """A configuration file and its drop-ins: the files in `PATH.d` in the order of names, without hidden ones.

    With `pipes` the file may be one. A missing file is no layer, unless `required`. `drop_in` reads a drop-in, where
    that is not `file_layer`.
    """
    if not str(path):
        return []
    first, *drop_ins = names_of(path)
    found = [file_layer(first, required=required, pipes=pipes), *map(drop_in or file_layer, drop_ins)]
    return [layer for layer in found if layer is not None]


def names_of(path: str | Path) -> list[Path]:
    """The file and the files in its folder of drop-ins. Raises: ConfigError if that cannot be listed."""
    path = Path(path)
    folder = path.parent / f"{path.name}.d"  # "." and "/" have no name
    try:
        names = sorted(one for one in folder.iterdir() if not one.name.startswith(".") and not one.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder}: {getattr(error, 'strerror', None) or error}") from error
    return [path, *names]


def inline(text: str, name: str = "--options") -> list[Layer]:
    """The text of `--options`."""
    return [layer_of(name, replace(parse(text, name), lines={}), Origin.OPTIONS)] if text.strip() else []


def layer_of(name: str, document: Document, origin: Origin = Origin.FILE) -> Layer:
    """A text that was read, as a layer; its findings name line and key."""
    return Layer(name, document.data, origin, document.lines, document.repeated)


def read_file(path: str | Path, *, pipes: bool = False) -> bytes:
    """As `read_bytes`. Raises ConfigError that names the file, or FileNotFoundError."""
    try:
        return read_bytes(path, pipes=pipes)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error


def file_layer(path: Path, *, required: bool = False, pipes: bool = False) -> Layer | None:
    """One file as a layer. Absent: a missing one is none, unless `required`. Raises: ConfigError."""
    try:
        data = read_file(path, pipes=pipes)
    except FileNotFoundError as error:
        if required:
            raise ConfigError(f"{path}: {os.strerror(errno.ENOENT)}") from error
        return None
    if is_blank(data):
        return Layer(str(path), None, blank=not path.is_char_device())  # /dev/null stands for the defaults
    return layer_of(str(path), parse(data, str(path)))


def _load(model: type[M], layers: Iterable[Layer], strict_text: bool) -> tuple[M | None, tuple[Finding, ...]]:
    overlay = _laid(model, layers, strict_text=strict_text)
    try:
        config = model.model_validate(overlay.tree)
    except ValidationError as error:
        known = {one.key for one in overlay.findings if one.fatal}
        wrong = [_finding(overlay, detail) for detail in error.errors(include_url=False)]
        return None, (*overlay.findings, *(one for one in wrong if one.key not in known))
    remarks = [Finding(overlay.place(path), key_text(path), reason) for path, reason in config.remarks()]
    return config, (*overlay.findings, *remarks)


def _laid(model: type[Section], layers: Iterable[Layer], *, strict_text: bool = False) -> Overlay:
    overlay = Overlay(model, strict_text=strict_text)
    for layer in layers:
        overlay.lay(layer)
    return overlay


def _finding(overlay: Overlay, detail: ErrorDetails) -> Finding:
    """One of pydantic's errors as a Finding."""
    error = detail.get("ctx", {}).get("error")
    path = (*detail["loc"], *(error.path if isinstance(error, Inside) else ()))
    reason = " ".join(detail["msg"].removeprefix("Value error, ").split())
    if detail["type"] == "missing":
        reason = "is required"
    elif detail["type"] == "literal_error":
        reason = f"{detail['input']!r} is not one of {detail['ctx']['expected'].replace(' or ', ', ')}"
    return Finding(overlay.place(path), key_text(path), reason, fatal=True)
