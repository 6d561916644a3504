"""The base of all configuration models, and the field types they share, with the checks of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel

from nfd.config.patterns import compile_re2

INFINITE = "infinite"
NANOSECONDS = 1_000_000_000
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LONGEST = 100
"""The longest text of a duration; the search for numbers without unit takes quadratic time."""
_LONGEST_SHOWN = 100
"""Characters of a pattern in a message."""


class Section(BaseModel):
    """A frozen part of the configuration; YAML keys are the camelCase of the field names.

    A field's docstring is its help text; `Annotated[…, Flag(…)]` adds the names that users of NFD and GFD know.
    """

    bare: ClassVar[str] = ""
    """Name of the field whose value stands for the whole section in YAML (`sources.custom` is a list)."""
    loose: ClassVar[bool] = False
    """Numbers and booleans may be written as text, as in klog's options."""

    whole: ClassVar[bool] = False
    """Reference page and example file show the section as one key."""
    exact: ClassVar[bool] = False
    """Keys are case-sensitive, and a null is not an entry of a list of such sections."""
    nullable: ClassVar[bool] = False
    """A null stands for the default of a key; elsewhere it changes nothing."""
    removable: ClassVar[bool] = False
    """A null removes the section of earlier layers; elsewhere it changes nothing."""
    former: ClassVar[Mapping[str, str]] = {}
    """Keys that NFD has or once had, and that have no effect here, with the reason."""
    derived: ClassVar[bool] = True
    """Every key is also a flag and a variable, in addition to the established names."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        extra="ignore",
    )

    def remarks(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Path and reason of each warning about the configuration as a whole; asked of the outermost section only."""
        return ()


class Inside(ValueError):
    """What a validator raises about a value inside the field's value; `path` leads there from the field."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        self.path = path
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Flag:
    """Established names of an option, besides the flag and the variable that come from its key.

    `name` is a flag without dashes, `env` are variables of which the first that exists counts. `exact` splits a list
    flag at commas and no more (`-deny-label-ns`); otherwise items are trimmed and blank ones dropped. `hidden` leaves
    it out of the help text. With `outside` no file may set the option, only its flag and variables. With `filled` the
    empty text means nothing, and an empty variable counts as unset.
    """

    name: str = ""
    aliases: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    exact: bool = False
    hidden: bool = False
    outside: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True)
class UnionOfFiles:
    """A list whose entries from files and `--options` are united; a flag or variable replaces them."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A list of texts; `problem` says what is wrong with one of them, which is a warning, or "" if nothing is."""

    problem: Callable[[str], str]

    def problems(self, items: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Index and problem."""
        return ((index, reason) for index, item in enumerate(items) if (reason := self.problem(item)))


@dataclass(frozen=True, slots=True)
class Distinct:
    """A list of texts; a redundant one is a warning. With `prefixes` each stands for all texts that begin with it."""

    prefixes: bool = False

    def problems(self, items: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Index and problem."""
        listed = [item.lower() if self.prefixes else item for item in items]
        for index, item in enumerate(listed):
            wider = (one for one in listed if self.prefixes and item != one and item.startswith(one))
            if item in listed[:index]:
                yield index, f"{item!r} is listed twice"
            elif (one := next(wider, None)) is not None:
                yield index, f"{one!r}, which is also listed, includes {item!r}"


@dataclass(frozen=True, slots=True)
class Replaces:
    """A deprecated key: given in a file, its value replaces that of the named field beside it; elsewhere ignored."""

    field: str


def parse_duration(value: Any) -> float:
    """Seconds from Go's duration text (`1h30m`, `500ms`), or from a bare number of nanoseconds as NFD reads it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("expected a duration such as 60s or 1h30m")
    if isinstance(value, int | float):
        return _in_range(value / NANOSECONDS, value)
    sign, text = (-1.0, value[1:]) if value.startswith("-") else (1.0, value.removeprefix("+"))
    if text == "0":
        return 0.0
    parts = list(_PART.finditer(text)) if len(text) <= _LONGEST else []
    if not parts or "".join(part.group(0) for part in parts) != text:
        raise ValueError(f"{value[:_LONGEST]!r} is not a duration such as 60s or 1h30m")
    return _in_range(sign * sum(float(part.group(1)) * _UNITS[part.group(2)] for part in parts), value)


def _in_range(seconds: float, value: Any) -> float:
    """Go counts nanoseconds in 64 bits."""
    if not abs(seconds) <= 2**63 / NANOSECONDS:
        raise ValueError(f"{value!r} is longer than a duration can be, 292 years")
    return seconds


def parse_interval(value: Any) -> float:
    """As `parse_duration`, not less than 0; `infinite` is infinity."""
    return inf if value == INFINITE else max(0.0, parse_duration(value))


def parse_pattern(value: Any) -> Any:
    """A compiled pattern; the empty one matches everything, and needs no RE2."""
    if not isinstance(value, str):
        return value
    if not value:
        return re.compile(value)
    try:
        return compile_re2(value)
    except ValueError as error:
        raise ValueError(f"{value[:_LONGEST_SHOWN]!r} is not a regular expression (RE2): {error}") from error


def _seconds_to_text(seconds: float) -> str:
    return INFINITE if seconds == inf else f"{seconds:g}s"


Duration = Annotated[float, BeforeValidator(parse_duration), PlainSerializer(_seconds_to_text)]
"""A time span in seconds."""

Interval = Annotated[float, BeforeValidator(parse_interval), PlainSerializer(_seconds_to_text)]
"""The time between two passes in seconds, perhaps infinite."""

Pattern = Annotated[Any, BeforeValidator(parse_pattern), PlainSerializer(lambda pattern: pattern.pattern)]
"""A compiled RE2 pattern, searched unanchored."""
