"""What a run showed: tables as docs/vm.md has them, printed when the tests are over, and put there on demand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.vm.machine import Machine

PAGE = Path(__file__).parents[2] / "docs/vm.md"
MASKED = re.compile(r"TCG doesn't support requested feature: \S+?[.:]([a-z0-9_-]+) \[bit")


@dataclass
class Table:
    """Rows by what their first column says. A cell that nothing was put in says that the test did not come so far."""

    columns: tuple[str, ...]
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def put(self, name: str, **cells: str) -> None:
        self.rows[name] = self.rows.get(name, {}) | cells

    def lines(self) -> list[str]:
        """As Markdown; none without a row."""
        return [self._head, f"|{' --- |' * len(self.columns)}", *map(self._line, self.rows)] if self.rows else []

    def entered(self, page: str) -> str:
        """A page that has such a table, with our rows in it in the place of those with the same first column."""
        before, head, rest = page.partition(self._head + "\n")
        lines = rest.splitlines(keepends=True)
        length = next((index for index, line in enumerate(lines) if not line.startswith("|")), len(lines))
        old = {line.split("|")[1].strip(): line for line in lines[:length]}
        new = old | {name: self._line(name) + "\n" for name in self.rows}
        return before + head + "".join([*new.values(), *lines[length:]])

    @property
    def _head(self) -> str:
        return f"| {' | '.join(self.columns)} |"

    def _line(self, name: str) -> str:
        return f"| {' | '.join([name, *(self.rows[name].get(one, 'not reached') for one in self.columns[1:])])} |"


def machines() -> Table:
    return Table(("machine", "boot", "labels", "flags", "events", "replay", "what it is"))


def steps() -> Table:
    return Table(("what happens", "bound", "measured", "labels"))


def masked(machine: Machine) -> str:
    """What this processor model has and QEMU cannot give it; "" if nothing."""
    found = sorted(set(MASKED.findall((machine.folder / "qemu.log").read_text())))
    return f"masked: {', '.join(found)}" if found else ""


def judged(right: bool, text: str, wrong: str = "WRONG") -> str:
    return text if right else f"{wrong} ({text})"
