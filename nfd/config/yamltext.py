"""YAML as NFD reads it (sigs.k8s.io/yaml over go-yaml 2): YAML 1.1 words and octal numbers, text keys, duplicate keys.

Built from parser events with an explicit stack, so that deep nesting, alias bombs and endless files are errors that
name a line, never a crash. Dates stay text, as in Go.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import yaml

from nfd.errors import ConfigError
from nfd.features import printable

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 100
MAX_NODES = 100_000
"""The most values in one text; those of aliases are counted each time."""

TWICE = "is written twice; the last one is used"
Path = tuple[str | int, ...]

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_HALVES = re.compile(r"\\\\|(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})", re.ASCII)
_LONGEST_INT = len("-0b") + 64
_LONGEST_NAME = 100
"""Characters of an anchor in a message."""
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its value, the line of each value by path (lines count from 1), and keys written twice."""

    data: Any
    lines: Mapping[Path, int] = field(default_factory=dict)
    repeated: tuple[Path, ...] = ()


def parse(text: str | bytes, name: str) -> Document:
    """The first document, which is all that NFD reads; an empty text gives None. Raises ConfigError naming `name`."""
    return next(documents(text, name), Document(None))


def documents(text: str | bytes, name: str) -> Iterator[Document]:
    """All documents of a text. Raises ConfigError with name, line and reason."""
    builder = _Builder(name)
    try:
        for event in yaml.parse(_decode(text, name), Loader=LOADER):
            if builder.take(event):
                yield builder.document()
                builder = _Builder(name)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigError(f"{name}:{line}: not YAML: {_problem(text, line, error)}") from error
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{name}: not YAML: {error.reason} (position {error.position})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not YAML: {' '.join(str(error).split())}") from error


def _problem(text: str | bytes, line: int, error: yaml.MarkedYAMLError) -> str:
    """What is wrong in a line; the parser has many words for a tab that indents it."""
    lines = (text.encode() if isinstance(text, str) else text).splitlines()
    start = lines[line - 1] if 0 < line <= len(lines) else b""
    if b"\t" in start[: len(start) - len(start.lstrip())]:
        return "a tab indents the line, where YAML has only blanks"
    return str(error.problem or error.context)


def _decode(text: str | bytes, name: str) -> str:
    if len(text) > MAX_BYTES:
        raise ConfigError(f"{name}: is larger than {MAX_BYTES // 1024} KiB")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-16" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{name}: is not UTF-8: {error.reason} at byte {error.start}") from error
    return join_halves(text.removeprefix("\ufeff"))


def join_halves(text: str) -> str:
    """JSON writes a letter beyond U+FFFF as two escapes, which YAML does not know: as one."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    return _HALVES.sub(lambda found: json.loads(f'"{found[1]}"') if found[1] else found[0], text)


def resolve(text: str) -> Any:
    """What a plain scalar stands for (go-yaml 2, resolve.go)."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) <= _LONGEST_INT and (found := _INT.fullmatch(plain)):
        sign, *digits = found.groups()
        number = next(int(part, base) for part, base in zip(digits, (16, 2, 8, 10), strict=True) if part)
        number = -number if sign == "-" else number
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(value := float(plain)):
        return value
    return text


def scalar_text(value: bool | float) -> str:
    """A number or boolean where text belongs, as sigs.k8s.io/yaml writes it: `true`, `192`, `1.5`, `1e+06`.

    A fraction has the digits that tell it from its neighbours in single precision: `123456.79`.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    near = _single(value)
    if not math.isfinite(near):
        return {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}[str(near)]
    shortest = next(text for size in range(1, 10) if _single(float(text := f"{near:.{size}g}")) == near)
    _, digits, exponent = Decimal(shortest).normalize().as_tuple()
    power = len(digits) + int(exponent) - 1
    if not any(digits) or -4 <= power < 6:
        return f"{Decimal(shortest).normalize():f}"
    first, rest = str(digits[0]), "".join(map(str, digits[1:]))
    mantissa = f"{'-' if value < 0 else ''}{first}{'.' if rest else ''}{rest}"
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _single(value: float) -> float:
    """The nearest number of single precision."""
    try:
        (near,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(near)


@dataclass(slots=True)
class _Frame:
    """A list or mapping that is being filled."""

    into: list[Any] | dict[str, Any]
    path: Path
    anchor: str | None
    line: int
    start: int
    key: str | None = None
    merges: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)

    def finish(self) -> Any:
        if not self.merged or not isinstance(self.into, dict):
            return self.into
        whole: dict[str, Any] = {}
        for part in reversed(self.merged):
            whole.update(part)
        return {**whole, **self.into}


class _Builder:
    """Turns the events of one document into dicts, lists and scalars."""

    def __init__(self, name: str) -> None:
        self._data: Any = None
        self._lines: dict[Path, int] = {}
        self._repeated: dict[Path, None] = {}
        self._merges = False
        self._name = name
        self._nodes = 0
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Document:
        """What was built; lines of values that others have replaced are left out."""
        lines = self._lines
        if self._repeated or self._merges:
            lines = {path: line for path, line in lines.items() if _holds(self._data, path)}
        return Document(self._data, lines, tuple(path for path in self._repeated if path in lines))

    def take(self, event: Any) -> bool:
        """Handle one event; True at the end of the document."""
        if isinstance(event, yaml.ScalarEvent):
            self._count(1, event)
            self._put(self._scalar(event), event, event.anchor, 1)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._open(event)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            frame = self._stack.pop()
            self._put(frame.finish(), event, frame.anchor, self._nodes - frame.start + 1, frame.line)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                name = str(event.anchor)[:_LONGEST_NAME]
                raise self._error(event, f"alias *{name} has no anchor, or is inside its anchor's value")
            value, size = self._anchors[event.anchor]
            self._count(size, event)
            self._put(value, event, None, size)
        return isinstance(event, yaml.DocumentEndEvent)

    def _open(self, event: Any) -> None:
        self._count(1, event)
        if len(self._stack) >= MAX_DEPTH:
            raise self._error(event, f"is nested more than {MAX_DEPTH} levels deep")
        path: Path = ()
        if self._stack:
            frame = self._stack[-1]
            if isinstance(frame.into, dict) and frame.key is None:
                raise self._error(event, "a key must be text")
            path = (*frame.path, len(frame.into) if isinstance(frame.into, list) else frame.key or "")
        into: list[Any] | dict[str, Any] = [] if isinstance(event, yaml.SequenceStartEvent) else {}
        self._stack.append(_Frame(into, path, event.anchor, event.start_mark.line + 1, self._nodes))

    def _put(self, value: Any, event: Any, anchor: str | None, size: int, line: int = 0) -> None:
        """Give a finished value to the list or mapping around it."""
        if anchor:
            self._anchors[anchor] = (value, size)
        line = line or event.start_mark.line + 1
        if not self._stack:
            self._data, self._lines[()] = value, line
            return
        frame = self._stack[-1]
        if isinstance(frame.into, list):
            self._lines[(*frame.path, len(frame.into))] = line
            frame.into.append(value)
        elif frame.key is None:
            frame.key = self._key(value, event)
            frame.merges = value == "<<" and bool(getattr(event, "implicit", ())[:1] == (True,))  # not in quotes
            place = (*frame.path, frame.key)
            if frame.key in frame.into:
                self._repeated[place] = None
            self._lines[place] = line
        else:
            if frame.merges:
                self._merge(frame, value, event)
            else:
                frame.into[frame.key] = value
            frame.key = None

    def _scalar(self, event: Any) -> Any:
        tag = (event.tag or "").removeprefix(_TAG)
        if (event.tag is None and event.implicit[0]) or tag in ("int", "float", "bool", "null"):
            return resolve(event.value)
        return event.value

    def _key(self, value: Any, event: Any) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return scalar_text(value)
        raise self._error(event, "a key must be text")

    def _merge(self, frame: _Frame, value: Any, event: Any) -> None:
        """`<<`: keys written in the mapping itself win, then those of the first of several."""
        self._merges = True
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            raise self._error(event, "<< must be a mapping or a list of mappings")
        frame.merged.extend(parts)

    def _count(self, size: int, event: Any) -> None:
        self._nodes += size
        if self._nodes > MAX_NODES:
            raise self._error(event, f"holds more than {MAX_NODES} values, aliases counted each time")

    def _error(self, event: Any, reason: str) -> ConfigError:
        return ConfigError(f"{self._name}:{event.start_mark.line + 1}: {reason}")


def _holds(data: Any, path: Path) -> bool:
    for step in path:
        if not (step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))):
            return False
        data = data[step]
    return True


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]  # chosen at run time
    """Quotes every text that YAML 1.1, as Go reads it, takes for something else (`y`, `0300`, `1e3`); no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    quoted = not isinstance(resolve(text), str)
    text = text if text.isascii() else printable(text)
    return dumper.represent_scalar(f"{_TAG}str", text, style="'" if quoted else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(tuple, lambda dumper, items: dumper.represent_list(items))


def dump(value: Any, *, flow: bool = False) -> str:
    """YAML of plain values that Go reads back as the same values; with `flow` on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10**9, default_flow_style=flow
    )
    return text.removesuffix("...\n").strip() if flow else text
