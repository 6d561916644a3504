"""Output for people: a table of labels grouped by source, and text from elsewhere made safe for a terminal."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

from nfd.features import Problem
from nfd.message_text import visible

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
    """Labels grouped by source, `label  value` aligned, namespaces dimmed."""
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
    """One line for each problem: source, subject, reason; cut to the terminal's width if there is one."""
    width = shutil.get_terminal_size((160, 25)).columns if style.on else 0
    lines = [f"{one.source}: {one.subject}: {one.reason}" for one in found]
    shown = [visible(line) for line in lines]
    return "\n".join(f"  {style.warn(line if not width else line[: max(40, width - 3)])}" for line in shown)


FULL, EMPTY = "█", "░"
GAP = "  "
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
Paint = Callable[[str], str]


def screen_width() -> int:
    """Columns of the terminal; 0 (no limit) if the output is not a terminal."""
    return shutil.get_terminal_size((120, 25)).columns if sys.stdout.isatty() else 0


def columns(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Style,
    paints: Sequence[Paint | None] = (),
    width: int = 0,
) -> str:
    """A heading and one line for each row. Cells are text from elsewhere; `paints` colours them by column."""
    cells = [[visible(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [_line(head, widths, [style.head] * len(head), width)]
    lines += [_line(row, widths, list(paints) or [None] * len(row), width) for row in cells]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int], paints: Sequence[Paint | None], width: int) -> str:
    """The last columns are cut if the line is too long."""
    parts: list[str] = []
    used = 0
    for cell, wanted, paint in zip(cells, widths, paints, strict=True):
        left = width - used if width else len(cell)
        if left <= 0:
            break
        shown = cell if len(cell) <= left else cell[: left - 1] + "…"
        parts.append((paint(shown) if paint else shown) + " " * (wanted - len(shown)))
        used += wanted + len(GAP)
    return GAP.join(parts).rstrip()


def cut(line: str, width: int) -> str:
    """A line without colours, cut to the screen's width."""
    return line if not width or len(_ANSI.sub("", line)) <= width else line[: width - 1] + "…"


def bar(taken: int, total: int, style: Style, size: int = 20) -> str:
    """A bar of the allocated part; more than all counts as full."""
    share = 0.0 if taken <= 0 else 1.0 if total <= 0 else min(taken / total, 1.0)
    full = min(max(round(share * size), int(taken > 0)), size if share >= 1 else size - 1)
    paint = style.bad if taken > total else style.warn if share >= 1 else style.value
    return paint(FULL * full) + style.dim(EMPTY * (size - full))


def numbers(pairs: Iterable[tuple[int, int]]) -> list[str]:
    """`18/24`, aligned."""
    texts = [f"{taken}/{total}" for taken, total in pairs]
    width = max(map(len, texts), default=0)
    return [text.rjust(width) for text in texts]


def size_text(mib: int) -> str:
    """MiB as text: `80 GiB`, `79.6 GiB`."""
    return "" if not mib else f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.4g} GiB"
