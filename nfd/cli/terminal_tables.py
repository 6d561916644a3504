"""Output for people: tables whose columns fit the terminal, colours, and text from elsewhere made safe for it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
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
LEAST = 24
"""Columns of the terminal that a cell which is broken into lines has at least, if others can be left out for that."""
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
    return Table(head, style, paints, width).text(rows)


class Table:
    """Columns that keep their widths from one text to the next.

    With a `width`, columns that do not fit are left out from the right, which a last line says. The column of index
    `kept` is never left out: it is broken into several lines.
    """

    def __init__(
        self, head: Sequence[str], style: Style, paints: Sequence[Paint | None] = (), width: int = 0, kept: int = 0
    ) -> None:
        self._head, self._style, self._width, self._kept = head, style, width, kept
        self._paints = list(paints) or [None] * len(head)
        self._widths = [0] * len(head)

    def text(self, rows: Sequence[Sequence[str]], *, heading: bool = True) -> str:
        """The rows, below the heading."""
        cells = [[visible(cell) or "-" for cell in row] for row in rows]
        shown = [self._head, *cells] if heading else cells
        for column, found in enumerate(zip(*shown, strict=True)):
            self._widths[column] = max(self._widths[column], *map(len, found))
        fitting = self._fit()
        lines = list(self._lines(self._head, fitting, [self._style.head] * len(self._head))) if heading else []
        lines += [line for row in cells for line in self._lines(row, fitting, self._paints)]
        if heading and (missing := [name for at, name in enumerate(self._head) if at not in fitting]):
            lines.append(self._style.dim(cut(f"(too narrow for {', '.join(missing)})", self._width)))
        return "".join(f"{line}\n" for line in lines)

    def _fit(self) -> dict[int, int]:
        """Index → width of the columns that fit, in order."""
        if not self._width:
            return dict(enumerate(self._widths))
        before = list(range(self._kept))
        while len(before) > 1 and self._sum(before) + min(LEAST, self._widths[self._kept]) > self._width:
            before.pop()
        found = {at: self._widths[at] for at in before}
        found[self._kept] = max(1, min(self._widths[self._kept], self._width - self._sum(before)))
        used = self._sum(before) + found[self._kept] + len(GAP)
        for at in range(self._kept + 1, len(self._head)):
            if used + self._widths[at] > self._width:
                break
            found[at] = self._widths[at]
            used += self._widths[at] + len(GAP)
        return found

    def _sum(self, before: Iterable[int]) -> int:
        return sum(self._widths[at] + len(GAP) for at in before)

    def _lines(self, cells: Sequence[str], fitting: Mapping[int, int], paints: Sequence[Paint | None]) -> Iterator[str]:
        """The row, and further lines of the cell that is broken."""
        broken = wrap(cells[self._kept], fitting[self._kept]) or [""]
        for number, part in enumerate(broken):
            texts = {at: part if at == self._kept else "" if number else cells[at] for at in fitting}
            painted = ((paints[at], texts[at], fitting[at]) for at in fitting)
            joined = GAP.join(
                (paint(text) if paint and text else text) + " " * (size - len(text)) for paint, text, size in painted
            )
            yield cut(joined.rstrip(), self._width)


def cut(line: str, width: int) -> str:
    """A line that is longer than the screen's width is cut to it, and loses its colours."""
    plain = _ANSI.sub("", line)
    return line if not width or len(plain) <= width else plain[: width - 1] + "…"


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
