"""Texts that stand for something: integers and versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from nfd.config.yamltext import LOADER, Document, Path, documents, join_halves, resolve, scalar_text
from nfd.errors import ConfigError, RuleError

SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace takes off; Python's strip() would take \\x1c to \\x1f as well."""

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_VERSION = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:[-+].*)?", re.ASCII | re.DOTALL)
_MAX_TEXT = 256


def parse_integer(text: str) -> int:
    """A signed 64-bit decimal number, leading zeros allowed. Raises: RuleError."""
    if len(text) > _MAX_TEXT or not _INTEGER.fullmatch(text):
        raise RuleError(f"not a number: {text[:100]!r}")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 63:
        raise RuleError(f"number out of range: {text!r}")
    return value


def parse_version(text: str) -> tuple[int, int, int]:
    """One to three numbers after an optional `v`; what follows the first dash or plus is never compared.

    Upstream wants a legal semantic version there and fails the rule for kernels such as
    `4.18.0-305.el8.x86_64`; that part is ignored. Raises: RuleError.
    """
    match = _VERSION.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if not match:
        raise RuleError(f"not a version: {text[:100]!r}")
    numbers = [int(group or 0) for group in match.groups()]
    if any(number >= 1 << 64 for number in numbers):
        raise RuleError(f"version out of range: {text!r}")
    return numbers[0], numbers[1], numbers[2]


@dataclass(frozen=True, slots=True)
class Plain:
    """A number or truth value without quotes, as written and as YAML reads it."""

    line: int
    text: str
    value: bool | float

    def __str__(self) -> str:
        kind = "truth value" if isinstance(self.value, bool) else "number"
        return f"{self.text} is the {kind} {scalar_text(self.value)} to YAML, but text is required; put it in quotes"


def text_documents(text: str, name: str) -> Iterator[tuple[Document, list[Plain]]]:
    """The documents of a text with all scalars but null as text, and the plain ones that are none to YAML.

    Raises: ConfigError for broken YAML, with `name`, line and reason.
    """
    text = join_halves(sound(text, name).removeprefix("\ufeff"))
    plain = list(_find_plain(text))
    for document in documents(_quote(text, plain), name):
        lines = {line for path, line in document.lines.items() if _is_text(path)}
        yield document, [one for _, one in plain if one.line in lines]


def sound(text: str, name: str) -> str:
    """The text itself if it is one. Raises: ConfigError for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{name}: is not Unicode: {error.reason} at letter {error.start}") from error
    return text


def _find_plain(text: str) -> Iterator[tuple[int, Plain]]:
    """Plain scalars that YAML takes for something else than text, each with its place; broken text ends the search."""
    try:
        for event in yaml.parse(text, Loader=LOADER):
            if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.implicit[0]:
                value, start, end = resolve(event.value), event.start_mark, event.end_mark
                if start is not None and end is not None and isinstance(value, bool | int | float):
                    # an anchor is before the text, and the start is that of the anchor
                    yield end.index - len(event.value), Plain(start.line + 1, event.value, value)
    except (yaml.YAMLError, UnicodeError):
        return


def _quote(text: str, plain: list[tuple[int, Plain]]) -> str:
    parts, end = [], 0
    for start, one in plain:
        parts += [text[end:start], f"'{one.text}'"]
        end = start + len(one.text)
    return "".join((*parts, text[end:]))


def _is_text(path: Path) -> bool:
    """Whether a place is inside a specification, bare or not; metadata and status hold numbers of their own."""
    return "spec" in path[:3] or path[:1] in (("features",), ("labels",))
