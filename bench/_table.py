"""The table that a benchmark ends with: figure, value, target, and the limit that physics sets."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


@dataclass
class Table:
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    def add(self, figure: str, value: str, target: str = "", limit: str = "") -> None:
        self.rows.append((figure, value, target, limit))
        print(f"{figure}: {value} ({limit})", file=sys.stderr, flush=True)

    def show(self) -> None:
        head = ("figure", "measured", "target", "physical limit, or for comparison")
        rows = [head, *self.rows]
        widths = [max(len(row[at]) for row in rows) for at in range(4)]
        for row in rows:
            print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip())
