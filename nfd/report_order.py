"""Which of two reports of a node is newer, by the worker's start and its count of reports, and which are invalid."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST_UPTIME = 20 * 366 * 86_400 * 1_000_000_000
"""Nanoseconds that no machine has been up."""
MOST_REPORTS = 10_000_000_000
"""Ten reports a second for longer than that."""


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """Orders the reports of one node without a wall clock.

    `started` is CLOCK_BOOTTIME in nanoseconds when the worker started, `sequence` counts its reports from 1. Only
    reports of the same boot compare; another boot id is newer if the Node's own boot id says so.

    `pod` is the uid of the pod whose token came with the report, and `issued` the second when that token was made, as
    the API server's clock has it; "" and 0 without a token. They are no part of what the worker says.
    """

    boot_id: str
    started: int
    sequence: int
    pod: str = field(default="", compare=False)
    issued: float = field(default=0.0, compare=False)

    def older(self, before: Order) -> bool:
        """Whether this came before the other one, of the same boot.

        Another pod whose token is the later one begins anew, whatever the pod before it has counted: what a pod says
        can keep out nobody but that pod.
        """
        if self.pod and before.pod and self.pod != before.pod and self.issued > before.issued:
            return False
        return (self.started, self.sequence) < (before.started, before.sequence)

    def problem(self) -> str:
        """Why no worker counts like that; "" if one may. A value beyond every clock would keep out all later ones."""
        if self.started > LONGEST_UPTIME:
            return f"order: the worker started after {self.started} ns of uptime, which no machine has"
        return f"order: {self.sequence} reports are more than any worker makes" if self.sequence > MOST_REPORTS else ""
