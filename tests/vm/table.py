"""What the machines of a run showed, as a table that is printed when the tests are over."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from tests.vm.machine import Machine

COLUMNS = ("boot", "labels", "flags", "events", "replay", "what it is")
MASKED = re.compile(r"TCG doesn't support requested feature: \S+?[.:]([a-z0-9_-]+) \[bit")


@dataclass
class Row:
    """One machine. A cell that nothing was put in says that the test did not come so far."""

    name: str = ""
    note: str = ""
    cells: dict[str, str] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)

    def booted(self, machine: Machine) -> None:
        self.cells["boot"] = f"{time.monotonic() - self.begun:.0f} s"
        if masked := sorted(set(MASKED.findall((machine.folder / "qemu.log").read_text()))):
            self.note += f"{'; ' if self.note else ''}masked: {', '.join(masked)}"

    def cell(self, column: str, right: bool, text: str) -> None:
        self.cells[column] = text if right else f"WRONG ({text})"

    def line(self) -> str:
        cells = self.cells | {"what it is": self.note or "as QEMU makes it"}
        return f"| {self.name} | {' | '.join(cells.get(name, 'not reached') for name in COLUMNS)} |"


def table(rows: list[Row]) -> list[str]:
    return [
        f"| machine | {' | '.join(COLUMNS)} |",
        f"|{' --- |' * (len(COLUMNS) + 1)}",
        *(row.line() for row in rows),
    ]
