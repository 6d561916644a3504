"""Numbers and truth values in rule files, taken as the text that was written.

All values in rules and features are text, so a plain `0300` can only be meant as text; YAML would make 192 of it and
Kubernetes refuse the object. We take what stands there, and tell the author.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from nfd.config.yamltext import Document, Path, documents, join_halves, resolve, scalar_text
from nfd.errors import ConfigError

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Plain:
    """A number or truth value without quotes, as written and as YAML reads it."""

    line: int
    text: str
    value: bool | float

    def __str__(self) -> str:
        kind = "truth value" if isinstance(self.value, bool) else "number"
        return f"{self.text} is the {kind} {scalar_text(self.value)} to YAML, text belongs here; put it in quotes"


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
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.ScalarEvent) and event.tag is None and event.implicit[0]:
                value, mark = resolve(event.value), event.start_mark
                if mark is not None and isinstance(value, bool | int | float):
                    yield mark.index, Plain(mark.line + 1, event.value, value)
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
