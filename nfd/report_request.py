"""The epoch: a new leader that knows too few reports changes it, and workers report then (docs/availability.md).

It is an entry of the ConfigMap that workers mount. Its text is `ID SECONDS`: 16 hexadecimal digits, and the number of
seconds over which all workers spread their reports.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

ENTRY = "epoch"
"""Entry in the ConfigMap, and name of the file in its mount."""
LONGEST = 64
"""Bytes of a file of which no more is read; a well-formed one has at most 21."""
LONGEST_SPREAD = 60
"""Seconds; a mount is updated within about 90 s, and after 180 s all nodes' features are to be known."""
REPORTS_PER_SECOND = 100
"""One costs about 2.5 ms of CPU, so a quarter of a core; a mount's own delay halves that."""

_TEXT = re.compile(r"([0-9a-f]{16}) ([1-9][0-9]{0,2})\n?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Epoch:
    """Two epochs differ if their `identity` does. `spread` is in seconds."""

    identity: str
    spread: int

    def __str__(self) -> str:
        return f"{self.identity} {self.spread}"


def parse(text: str) -> Epoch | None:
    """The epoch; None if the text is malformed. A spread above the longest counts as that."""
    found = _TEXT.fullmatch(text)
    return None if found is None else Epoch(found[1], min(int(found[2]), LONGEST_SPREAD))


def spread_for(nodes: int) -> int:
    """Seconds over which the workers of that many nodes report."""
    return min(max(math.ceil(nodes / REPORTS_PER_SECOND), 1), LONGEST_SPREAD)
