"""What a person sees: a table of labels grouped by source, and foreign text made harmless for a terminal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO

from nfd.features import Problem
from nfd.visible import visible

_MAX_KEY = 80


@dataclass(frozen=True, slots=True)
class Style:
    """ANSI colours, or none."""

    on: bool

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text

    def head(self, text: str) -> str:
        return self._paint("1;36", text)

    def value(self, text: str) -> str:
        return self._paint("32", text)

    def dim(self, text: str) -> str:
        return self._paint("2", text)

    def warn(self, text: str) -> str:
        return self._paint("33", text)

    def bad(self, text: str) -> str:
        return self._paint("31", text)


def style_of(stream: TextIO) -> Style:
    """Colours on a terminal only, and not with NO_COLOR set (no-color.org)."""
    return Style(stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb")


def table(labels: Mapping[str, str], origins: Mapping[str, str], style: Style) -> str:
    """Labels under the source that made them, `label  value` aligned, namespaces dimmed."""
    groups: dict[str, list[str]] = {}
    for key in sorted(labels):
        groups.setdefault(origins.get(key) or "", []).append(key)
    width = min(max(map(len, labels), default=0), _MAX_KEY)
    blocks = [
        "\n".join([style.head(source or "other"), *_rows(groups[source], labels, width, style)])
        for source in sorted(groups)
    ]
    return "\n\n".join(blocks)


def _rows(keys: Iterable[str], labels: Mapping[str, str], width: int, style: Style) -> Iterator[str]:
    for key in keys:
        prefix, slash, name = key.rpartition("/")
        shown = f"{style.dim(prefix + slash)}{name}{' ' * (width - len(key))}"
        yield f"  {shown}  {style.value(labels[key])}".rstrip()


def problems(found: Iterable[Problem], style: Style) -> str:
    """One line for each problem: source, what it concerns, why; cut to the terminal's width where there is one."""
    width = shutil.get_terminal_size((160, 25)).columns if style.on else 0
    lines = [f"{one.source}: {one.subject}: {one.reason}" for one in found]
    shown = [visible(line) for line in lines]
    return "\n".join(f"  {style.warn(line if not width else line[: max(40, width - 3)])}" for line in shown)
