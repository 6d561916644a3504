"""The configuration file of GPU feature discovery and the device plugin, version v1.

Keys match without regard to case, but for those of shared and renamed resources; of several spellings of one key the
last in alphabetical order counts, as Go's JSON decoder sees them. Unknown keys are ignored, a null is as good as
nothing. Source: NVIDIA/k8s-device-plugin `api/config/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gfd.durations import read_sleep
from gfd.sharing import Misfit, Sharing, parse_sharing, resource_name, whole
from nfd.config.load import read_file
from nfd.config.overlay import key_text
from nfd.config.reading import is_blank
from nfd.config.yamltext import TWICE, Document, parse
from nfd.errors import ConfigError

VERSION = "v1"
TEXT, BOOL, SLEEP, TEXTS, NUMBERS = (
    "text",
    "true or false",
    "a duration",
    "text or a list of texts",
    "a list of numbers",
)

_PLUGIN = {
    "passDeviceSpecs": BOOL,
    "deviceListStrategy": TEXTS,
    "deviceIDStrategy": TEXT,
    "cdiAnnotationPrefix": TEXT,
    "nvidiaCTKPath": TEXT,
    "containerDriverRoot": TEXT,
    "sharedDevicesAllocationPolicy": TEXT,
}
_GFD = {"oneshot": BOOL, "noTimestamp": BOOL, "sleepInterval": SLEEP, "outputFile": TEXT, "machineTypeFile": TEXT}
_FLAGS = {
    "migStrategy": TEXT,
    "failOnInitError": BOOL,
    "useNodeFeatureAPI": BOOL,
    "deviceDiscoveryStrategy": TEXT,
    "mpsRoot": TEXT,
    "nvidiaDriverRoot": TEXT,
    "nvidiaDevRoot": TEXT,
    "gdrcopyEnabled": BOOL,
    "gdsEnabled": BOOL,
    "mofedEnabled": BOOL,
    "gfd": _GFD,
    "plugin": _PLUGIN,
}
SCHEMA: Mapping[str, Any] = {"version": TEXT, "flags": _FLAGS, "imex": {"channelIDs": NUMBERS, "required": BOOL}}
STAYS = "what was read from it before stays in use"
_RENAMED = ("gpus", "mig")


@dataclass(frozen=True, slots=True)
class FileConfig:
    """`flags` by their path in the file (`gfd.sleepInterval`), only those that are given."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    warnings: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    """File, line and key of each flag, as messages name them."""
    blank: bool = False
    """Whether there was nothing in the file at all."""


def read_config(path: str, current: FileConfig | None = None) -> FileConfig:
    """Read the file; one that is empty or `/dev/null` gives the defaults. Raises ConfigError naming file and key.

    At a reload, with what is `current`, a file that is missing or has become empty is on its way to be written anew, by
    an editor or by `cp`: what is current stays, with a warning.
    """
    if Path(path).resolve() == Path("/dev/null"):
        return FileConfig(blank=True)
    try:
        data = read_file(path)
    except FileNotFoundError as error:
        if current is None:
            raise ConfigError(f"config file {path}: {error.strerror}") from error
        return replace(current, warnings=(f"{path}: is missing; {STAYS}",))
    if not is_blank(data):
        return parse_config(parse(data, path), path)
    if current is None or current.blank:
        return FileConfig(blank=True)
    return replace(current, warnings=(f"{path}: is empty; {STAYS}",))


def parse_config(document: Document, path: str) -> FileConfig:
    """Raises ConfigError as `read_config`."""
    try:
        config = _config(document.data)
    except Misfit as error:
        raise ConfigError(f"{_place(document, path, error.key)}: {error.reason}") from error
    twice = tuple(f"{path}:{document.lines[one]}: {key_text(one)}: {TWICE}" for one in document.repeated)
    places = {key: _place(document, path, f"flags.{key}") for key in config.flags}
    return replace(config, warnings=(*twice, *config.warnings), places=places)


def _config(data: Any) -> FileConfig:
    if data is None:
        return FileConfig()
    values = {where: value for where, value in dict(_walk(SCHEMA, data, "")).items() if value is not None}
    version = values.get("version")
    if version and version != VERSION:
        raise Misfit("version", f"{version!r} is not supported, only {VERSION} is")
    top = _by_name(data, ("sharing", "resources"))
    renamed = _by_name(_section(top.get("resources"), "resources"), _RENAMED)
    for name, entries in renamed.items():
        _check_renamed(entries, f"resources.{name}")
    shared = _by_name(_section(top.get("sharing"), "sharing"), ("timeSlicing", "mps"))
    try:
        sharing, warnings = parse_sharing(shared)
    except Misfit as error:
        raise Misfit(f"sharing.{error.key}", error.reason) from error
    notes = [f"sharing.{warning}" for warning in warnings]
    notes += [f"resources.{name}: has no effect" for name, entries in renamed.items() if entries]
    flags = {key.removeprefix("flags."): value for key, value in values.items() if key.startswith("flags.")}
    return FileConfig(flags, sharing, tuple(notes))


def _walk(schema: Mapping[str, Any], data: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Path and value of every known leaf, None for a null. Raises Misfit for one of the wrong type."""
    for name, value in _named(_section(data, path), schema):
        kind = schema[name]
        where = f"{path}.{name}".removeprefix(".")
        if isinstance(kind, Mapping):
            yield from _walk(kind, value, where)
        else:
            yield where, None if value is None else _leaf(kind, value, where)


def _section(data: Any, path: str) -> Mapping[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise Misfit(path or "the config", f"must be a mapping, not {data!r}")
    return data


def _by_name(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values under the given names, however these are capitalised."""
    return dict(_named(data, names))


def _named(data: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Name and value of every key that is one of the names, in alphabetical order of what is written."""
    folded = {name.lower(): name for name in names}
    return ((folded[key.lower()], value) for key, value in sorted(data.items()) if key.lower() in folded)


def _leaf(kind: str, value: Any, where: str) -> Any:
    if kind == SLEEP:
        try:
            return read_sleep(value)
        except ValueError as error:
            raise Misfit(where, str(error)) from error
    fits = {
        TEXT: isinstance(value, str),
        BOOL: isinstance(value, bool),
        TEXTS: isinstance(value, str) or _is_list(value, lambda one: isinstance(one, str)),
        NUMBERS: _is_list(value, lambda one: whole(one) is not None),
    }
    if not fits[kind]:
        raise Misfit(where, f"must be {kind}, not {value!r}")
    return value


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    """A null in a list is an empty text, or 0."""
    return isinstance(value, list) and all(one is None or fits(one) for one in value)


def _check_renamed(entries: Any, where: str) -> None:
    if entries is not None and not isinstance(entries, list):
        raise Misfit(where, f"must be a list, not {entries!r}")
    for index, entry in enumerate(entries or ()):
        place = f"{where}[{index}]"
        if not isinstance(entry, Mapping):
            raise Misfit(place, f"must be a mapping with pattern and name, not {entry!r}")
        if "pattern" not in entry:
            raise Misfit(f"{place}.pattern", "is missing")
        if entry["pattern"] is not None and not isinstance(entry["pattern"], str):
            raise Misfit(f"{place}.pattern", f"must be text, not {entry['pattern']!r}")
        resource_name(entry.get("name"), f"{place}.name")


def _place(document: Document, path: str, key: str) -> str:
    line = _line(document, key)
    return f"{path}{line and f':{line}'}: {key}"


def _line(document: Document, key: str) -> str:
    """The line of a key, or of what it would stand in; empty if neither is known."""
    lines = {tuple(str(part).lower() for part in path): line for path, line in document.lines.items()}
    path = tuple(part.lower() for part in re.findall(r"[^.\[\]]+", key))
    return next((str(lines[path[:end]]) for end in range(len(path), 0, -1) if path[:end] in lines), "")
