"""Tables and bars for a terminal: columns as wide as they need, lines no longer than the screen."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence

from nfd.cli.screen import Style
from nfd.visible import visible

FULL, EMPTY = "█", "░"
GAP = "  "
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
Paint = Callable[[str], str]


def screen_width() -> int:
    """Columns of the terminal; 0, no limit, where the output is none."""
    return shutil.get_terminal_size((120, 25)).columns if sys.stdout.isatty() else 0


def columns(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    style: Style,
    paints: Sequence[Paint | None] = (),
    width: int = 0,
) -> str:
    """A line for the head and one for each row. Cells are foreign text; `paints` colours them by column."""
    cells = [[visible(cell) or "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    lines = [_line(head, widths, [style.head] * len(head), width)]
    lines += [_line(row, widths, list(paints) or [None] * len(row), width) for row in cells]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str], widths: Sequence[int], paints: Sequence[Paint | None], width: int) -> str:
    """The last columns give way where the line is too long."""
    parts: list[str] = []
    used = 0
    for cell, wanted, paint in zip(cells, widths, paints, strict=True):
        room = width - used if width else len(cell)
        if room <= 0:
            break
        shown = cell if len(cell) <= room else cell[: room - 1] + "…"
        parts.append((paint(shown) if paint else shown) + " " * (wanted - len(shown)))
        used += wanted + len(GAP)
    return GAP.join(parts).rstrip()


def cut(line: str, width: int) -> str:
    """A line without colours, cut to the screen."""
    return line if not width or len(_ANSI.sub("", line)) <= width else line[: width - 1] + "…"


def bar(taken: int, total: int, style: Style, size: int = 20) -> str:
    """How much of something is taken; what is taken and not there counts as full."""
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
    """MiB as people say it: `80 GiB`, `79.6 GiB`."""
    return "" if not mib else f"{mib} MiB" if mib < 1024 else f"{mib / 1024:.4g} GiB"
