"""The processes of the fleet's workers, each of which speaks for a share of the nodes."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONGEST = 1800.0
"""Seconds for one order; each worker has less for its report."""
ROOT = Path(__file__).parents[2]


class Crew:
    def __init__(self, processes: int) -> None:
        self._count = processes
        self._processes: list[Process] = []

    async def start(self, ca: Path, tokens: Path | None) -> None:
        command = (sys.executable, "-m", "bench.fleet.speaker", str(ca), str(tokens or ""))
        for _ in range(self._count):
            process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE, limit=2**24)
            self._processes.append(process)
        for process in self._processes:
            await self._answer(process)

    async def report(self, nodes: Iterable[int], target: str, at_once: int = 0, **order: Any) -> dict[str, float]:
        """Let the workers of these nodes report; what came of it, all processes together."""
        numbers, count = list(nodes), len(self._processes)

        async def ask(index: int, process: Process) -> dict[str, float]:
            assert process.stdin is not None
            share = numbers[index::count]
            if not share:
                return {}
            wish = {"nodes": share, "target": target, "at_once": max(at_once // count, 1), **order}
            process.stdin.write(json.dumps(wish).encode() + b"\n")
            answer: dict[str, float] = await self._answer(process)
            return answer

        try:
            async with asyncio.timeout(LONGEST):
                answers = await asyncio.gather(*(ask(index, one) for index, one in enumerate(self._processes)))
        except TimeoutError:
            raise TimeoutError(f"{len(numbers)} workers have not all reported within {LONGEST:.0f} s") from None
        sums = {key: sum(one.get(key, 0) for one in answers) for key in ("taken", "again", "sent", "received")}
        return sums | {key: max(one.get(key, 0) for one in answers) for key in ("beat", "seconds")}

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    async def _answer(self, process: Process) -> Any:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the fleet has ended")
        return json.loads(line)

    async def stop(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            await process.wait()
