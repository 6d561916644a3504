"""Merges one layer of configuration over another, as NFD decodes YAML onto its structs.

Sections and maps are merged key by key, lists are replaced, lists of objects are merged index by index. Keys match
without regard to case. Null leaves a section or a single value unchanged and empties a list or map; in a section that
is `nullable` it stands for a key's default. Where text is required, a number or boolean becomes text as in Go, with a
warning. (sigs.k8s.io/yaml, encoding/json; NFD "Worker configuration reference".)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite
from typing import Any, Final

from pydantic.fields import FieldInfo

from nfd.config.option_values import parse_text
from nfd.config.options import Kind, Shape, find_mark, key_of, shape_of
from nfd.config.section import Checked, Distinct, Flag, Replaces, Section, UnionOfFiles
from nfd.config.yamltext import TWICE, Path, scalar_text
from nfd.message_text import did_you_mean, visible


class Origin(Enum):
    """The kind of a layer's source."""

    FILE = "file"
    OPTIONS = "options"
    VARIABLE = "variable"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Layer:
    """Part of a configuration: plain YAML values, and the name of their source (file, flag or variable)."""

    name: str
    data: Any
    origin: Origin = Origin.FILE
    lines: Mapping[Path, int] = field(default_factory=dict)
    repeated: tuple[Path, ...] = ()
    blank: bool = False
    """Whether the file is empty, but for white space."""
    folded: dict[Path, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """`lines` by lower-case paths, filled when they are first needed."""

    def line_of(self, path: Path) -> int | None:
        """The line of the nearest value that has one; it may be written in another case."""
        ends = range(len(path), 0, -1)
        if (line := self.lines.get(path) if path else None) is not None:
            return line
        if not self.folded:
            self.folded.update((_folded(written), line) for written, line in self.lines.items())
        found = (self.lines.get(path[:end]) or self.folded.get(_folded(path[:end])) for end in ends)
        return next((line for line in found if line), None)


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with one key; as text it is one line. It is a warning unless `fatal`."""

    place: str
    key: str
    reason: str
    fatal: bool = False
    harmless: bool = False
    """NFD's own files have it: no error for `nfd config validate` either."""

    def __str__(self) -> str:
        return ": ".join(map(_shown, filter(None, (self.place, self.key, self.reason))))


_KEEP: Final = object()
"""The layer does not set the value."""
_LONGEST = 500
"""Characters of a part of a finding."""
_UNITING = (Origin.FILE, Origin.OPTIONS)


class Overlay:
    """The configuration, merged layer by layer: plain values under their keys in `tree`."""

    def __init__(self, model: type[Section], *, strict_text: bool = False) -> None:
        self.tree: dict[str, Any] = {}
        self.findings: list[Finding] = []
        self._model = model
        self._strict_text = strict_text
        self._layer = Layer("", None)
        self._writers: dict[Path, Layer] = {}

    def lay(self, layer: Layer) -> None:
        """Merge a layer over the current values."""
        self._layer = layer
        for path in layer.repeated:
            self._warn(path, TWICE)
        if layer.data is None:
            return
        if not isinstance(layer.data, Mapping):
            self._fail((), f"expected a mapping, found {_name_of(layer.data)}")
            return
        self.tree = self._section(self._model, self.tree, layer.data, ())

    def place(self, path: Path) -> str:
        """File and line, flag or variable, that set the value at a path last; empty for a built-in default."""
        for end in range(len(path), 0, -1):
            if layer := self._writers.get(path[:end]):
                return place_in(layer, path)
        return ""

    def _section(self, model: type[Section], before: Mapping[str, Any], data: Mapping[str, Any], path: Path) -> Any:
        """Merge a mapping over the plain values of a section."""
        names = self._names(model)
        tree, last = dict(before), dict[str, str]()
        for written, value in sorted(self._renamed(model, data, path).items()):
            if (name := names.get(written if model.exact else written.lower())) is None:
                former = next((why for key, why in model.former.items() if key.lower() == written.lower()), "")
                reason = former or "unknown key" + _advice(written, model, names)
                self._warn((*path, written), reason, harmless=bool(former))
                continue
            if (other := last.get(name)) is not None:
                self._warn((*path, other), f"is the same key as {written}, which overrides it")
            last[name] = written
            one = model.model_fields[name]
            key = key_of(name, one)
            shape = shape_of(one, loose=model.loose)
            if value is None and model.nullable and shape.kind is not Kind.SECTION:
                tree.pop(key, None)  # so that it is the default itself, which may have no text form
                self._writers.pop((*path, key), None)
                continue
            old = tree[key] if key in tree else _plain(one.get_default(call_default_factory=True))
            new = self._value(shape, old, value, (*path, key))
            if new is _KEEP:
                continue
            for mark in (find_mark(one, Checked), find_mark(one, Distinct)):
                for index, reason in mark.problems(new) if mark else ():
                    self._warn((*path, key, index), reason)
            if find_mark(one, UnionOfFiles) and key in tree and self._layer.origin in _UNITING:
                new = list(dict.fromkeys([*tree[key], *new]))
            tree[key] = new
            self._writers[(*path, key)] = self._layer
        return tree

    def _names(self, model: type[Section]) -> dict[str, str]:
        """Key → field of what the layer may set."""
        in_file = self._layer.origin in _UNITING
        fields = {name: one for name, one in model.model_fields.items() if not (in_file and _is_outside(one))}
        return {
            key if model.exact else key.lower(): name for name, one in fields.items() for key in (key_of(name, one),)
        }

    def _renamed(self, model: type[Section], data: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """Deprecated keys take the place of those that they stand for, or are left out."""
        data = dict(data)
        for name, one in model.model_fields.items():
            if (replaces := find_mark(one, Replaces)) is None:
                continue
            target = key_of(replaces.field, model.model_fields[replaces.field])
            for written in [written for written in data if written.lower() == key_of(name, one).lower()]:
                value = data.pop(written)
                if self._layer.origin is not Origin.FILE:
                    self._warn((*path, written), f"can only be set in files; use {target}")
                elif value is not None:
                    self._warn((*path, written), f"is deprecated; use {target}")
                    data = {other: kept for other, kept in data.items() if other.lower() != target.lower()}
                    data[target] = value
        return data

    def _value(self, shape: Shape, old: Any, new: Any, path: Path) -> Any:
        """The plain value of `new` merged over `old`, or _KEEP."""
        if new is None:
            return self._null(shape, path)
        match shape.kind:
            case Kind.SECTION if shape.model is not None:
                return self._nested(shape.model, old, new, path)
            case Kind.MAP if shape.item is not None:
                return self._map(shape.item, old, new, path)
            case Kind.LIST if shape.item is not None:
                return self._list(shape.item, old, new, path)
            case Kind.ANY:
                return _lay_any(old, new)
            case Kind.DURATION:
                return new
            case Kind.TEXT | Kind.PATTERN:
                return self._text(new, path, harmless=shape.loose)
            case _:
                return self._number(shape, new, path)

    def _null(self, shape: Shape, path: Path) -> Any:
        if shape.model is not None and shape.model.exact and isinstance(path[-1], int):
            needed = [key_of(name, one) for name, one in shape.model.model_fields.items() if one.is_required()]
            return self._fail(path, f"expected a section with {' and '.join(needed)}, found nothing")
        if shape.optional:
            return None
        if shape.model is not None and shape.model.removable:
            return {}
        return {Kind.LIST: [], Kind.MAP: {}}.get(shape.kind, _KEEP)

    def _nested(self, model: type[Section], old: Any, new: Any, path: Path) -> Any:
        if model.bare:
            one = model.model_fields[model.bare]
            key = key_of(model.bare, one)
            value = self._value(shape_of(one), (old or {}).get(key), new, path)
            return value if value is _KEEP else {key: value}
        if not isinstance(new, Mapping):
            return self._fail(path, f"expected a section, found {_name_of(new)}")
        return self._section(model, old or {}, new, path)

    def _map(self, item: Shape, old: Any, new: Any, path: Path) -> Any:
        if not isinstance(new, Mapping):
            return self._fail(path, f"expected a mapping, found {_name_of(new)}")
        tree = dict(old or {})
        for key, value in new.items():
            value = "" if value is None and item.kind is Kind.TEXT else value
            found = self._value(item, tree.get(key), value, (*path, key))
            if found is not _KEEP:
                tree[key] = found
        return tree

    def _list(self, item: Shape, old: Any, new: Any, path: Path) -> Any:
        """Objects are merged over the older ones of the same index, null keeps an older text, everything else is
        replaced."""
        if not isinstance(new, list):
            return self._fail(path, f"expected a list, found {_name_of(new)}")
        older = old if isinstance(old, list) and item.kind in (Kind.SECTION, Kind.MAP, Kind.ANY, Kind.TEXT) else []
        items: list[Any] = []
        for index, value in enumerate(new):
            below = older[index] if index < len(older) else None
            value = (below or "") if value is None and item.kind is Kind.TEXT else value
            found = self._value(item, below, value, (*path, index))
            if found is not _KEEP:
                items.append(found)
        return items

    def _text(self, new: Any, path: Path, *, harmless: bool = False) -> Any:
        if isinstance(new, str):
            return new
        if not isinstance(new, bool | int | float):
            return self._fail(path, f"expected text, found {_name_of(new)}")
        text = scalar_text(new)
        if self._strict_text:
            return self._fail(path, f"expected text, found {_name_of(new)} {text}; put it in quotes")
        self._warn(path, f"expected text, {_name_of(new)} is used as {text!r}; put it in quotes", harmless=harmless)
        return text

    def _number(self, shape: Shape, new: Any, path: Path) -> Any:
        """Booleans and numbers, of which a whole one may be written as 2.0."""
        if isinstance(new, str) and shape.loose:
            try:
                return parse_text(shape, new)
            except ValueError as error:
                return self._fail(path, str(error))
        good = {
            Kind.BOOL: isinstance(new, bool),
            Kind.INTEGER: _is_number(new) and new == new // 1,
            Kind.NUMBER: _is_number(new),
        }
        if not good[shape.kind]:
            return self._fail(path, f"expected {shape.kind}, found {_name_of(new)}")
        return int(new) if shape.kind is Kind.INTEGER else new

    def _warn(self, path: Path, reason: str, *, harmless: bool = False) -> None:
        self.findings.append(Finding(place_in(self._layer, path), key_text(path), reason, harmless=harmless))

    def _fail(self, path: Path, reason: str) -> Any:
        self.findings.append(Finding(place_in(self._layer, path), key_text(path), reason, fatal=True))
        return _KEEP


def _shown(text: str) -> str:
    """The text if it is a single line, else quoted; a key may be any text."""
    line = visible(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def key_text(path: Path) -> str:
    """`core.sources[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def place_in(layer: Layer, path: Path) -> str:
    """The layer's name, with the line of the nearest value that has one."""
    line = layer.line_of(path)
    return f"{layer.name}:{line}" if line else layer.name


def _is_outside(one: FieldInfo) -> bool:
    mark = find_mark(one, Flag)
    return mark is not None and mark.outside


def _folded(path: Path) -> Path:
    return tuple(part.lower() if isinstance(part, str) else part for part in path)


def _advice(written: str, model: type[Section], names: Mapping[str, str]) -> str:
    """Advice: the flag that alone may set the key, or the nearest key that the layer may set (`names`, key → field)."""
    for name, one in model.model_fields.items():
        mark = find_mark(one, Flag)
        if mark and mark.outside and written.lower() in (key_of(name, one).lower(), mark.name):
            return f"; use the flag --{mark.name}"
    return did_you_mean(written, (key_of(name, model.model_fields[name]) for name in names.values()))


def _plain(value: Any) -> Any:
    """A default as YAML; of a section only what differs from the defaults of its own model."""
    if isinstance(value, Section):
        return value.model_dump(by_alias=True, exclude_defaults=True)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | frozenset) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value


def _lay_any(old: Any, new: Any) -> Any:
    """Values without a model: mappings and lists of mappings are merged."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        return {**old, **{key: _lay_any(old.get(key), value) for key, value in new.items()}}
    if isinstance(old, list) and isinstance(new, list) and all(isinstance(one, Mapping) for one in new):
        return [_lay_any(old[index] if index < len(old) else None, one) for index, one in enumerate(new)]
    return new


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _name_of(value: Any) -> str:
    if isinstance(value, bool):
        return "a boolean"
    names: tuple[tuple[Any, str], ...] = (
        (int | float, "a number"),
        (str, "text"),
        (list, "a list"),
        (Mapping, "a mapping"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "nothing")
