"""nfd-worker as a real process, on a small machine in a directory."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfd.report import Report
from tests.rpc.loopback import Running

CARD = {
    "class": "030000",
    "vendor": "10de",
    "device": "2330",
    "subsystem_vendor": "10de",
    "subsystem_device": "16c1",
}
SLOT = "sys/bus/pci/devices/0000:01:00.0"
FEATURES_D = "etc/kubernetes/node-feature-discovery/features.d"


def make_machine(root: Path) -> Path:
    """One graphics card, which gets a label, and a feature file."""
    (root / SLOT).mkdir(parents=True)
    for name, value in CARD.items():
        (root / SLOT / name).write_text(f"0x{value}\n")
    (root / FEATURES_D).mkdir(parents=True)
    (root / FEATURES_D / "mine").write_text("example.com/mine=1\n")
    return root


@dataclass
class Worker:
    """`lines` are the log lines so far, as JSON objects."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, Any]] = field(default_factory=list)

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]

    async def says(self, event: str, times: int = 1) -> None:
        """Wait until it has logged that often enough."""
        await until(lambda: self.events().count(event) >= times)

    async def end(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Exit status after a signal, and the seconds it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        status = await asyncio.wait_for(self.process.wait(), 10)
        return status, time.monotonic() - started

    async def read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(json.loads(line) if line.startswith(b"{") else {"event": line.decode().rstrip()})


@asynccontextmanager
async def worker(*flags: str, node: str = "n1", **variables: str) -> AsyncIterator[Worker]:
    async with program("nfd.worker", *flags, **{"NODE_NAME": node, **variables}) as running:
        yield running


@asynccontextmanager
async def program(*words: str, **variables: str) -> AsyncIterator[Worker]:
    """A module with its arguments, which logs as the worker does."""
    environment = {**os.environ, **variables}
    none, pipe = asyncio.subprocess.DEVNULL, asyncio.subprocess.PIPE
    words = (sys.executable, "-W", "error", "-m", *words)
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdin=none, stdout=none, stderr=pipe)
    running = Worker(process)
    reader = asyncio.create_task(running.read())
    try:
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await reader


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition; after that many seconds it is a failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.02)


async def next_report(master: Running, seconds: float = 30.0) -> Report:
    """The report after those taken so far."""
    count = len(master.taken.reports)
    await until(lambda: len(master.taken.reports) > count, seconds)
    return master.taken.reports[-1]
