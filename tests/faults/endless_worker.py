"""A worker in a process of its own, as in a program: in one stage a computation does not end while a file is there.

python -m tests.faults.endless_worker ROOT PORT NODE STAGE FILE
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nfd.runtime import log
from nfd.runtime.cpu_limit import CpuLimit
from nfd.runtime.signals import Signals
from nfd.worker.agent import Agent
from tests.faults.injected import ENDLESS, LIMIT, Broken
from tests.faults.test_injected_worker import STAGES, agent_of, hasten


@dataclass
class Endless(Broken):
    """On while `switch` is there."""

    switch: Path = field(default_factory=Path)

    def trip(self) -> None:
        while self.switch.exists():
            while True:
                pass


def main(root: str, port: str, node: str, stage: str, switch: str) -> None:
    log.setup("info")
    patch, broken, at = pytest.MonkeyPatch(), Endless(ENDLESS, switch=Path(switch)), STAGES[stage]
    hasten(patch)
    if at.owner is not None:
        broken.wrap(patch, at.owner, at.name)
    agent = agent_of(node, int(port), Path(root), Signals(), broken, stage)
    turn: Any = Agent.turn
    with CpuLimit(turn, LIMIT):
        agent.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
