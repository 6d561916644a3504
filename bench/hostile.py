"""One worker means harm: how long the labels of the others take, and what the master's memory does.

    python -m bench.hostile [--nodes N] [--seconds S]

A real API server and a real nfd-master with the security of a cluster. Workers of N nodes change a label now and then,
over connections of their own; a watch tells when each is there. They do so in quiet, and while `bench._attacker` sends
10,000 reports a minute; both in turn, twice, so that the machine's own moods fall on both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import Any

from bench.fleet.__main__ import ca_of
from bench.fleet.gauges import cpu_seconds, resident
from bench.fleet.machines import node_name
from bench.fleet.run import Run, setting
from bench.fleet.speaker import Speaker, Tally
from bench.fleet.watcher import Watcher
from tests.controlplane.cluster import ControlPlane

F = "feature.node.kubernetes.io/"
CHANGED = f"{F}cpu-changed"
PER_SECOND = 8.0
PATIENCE = 60.0
TARGET = 1.5


class Changes(Watcher):
    """Times from the moment that a worker has something new to the moment that a watch shows it."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self._awaited: dict[str, tuple[str, asyncio.Future[float]]] = {}

    async def shown_as(self, node: str, value: str) -> float:
        """When that node has the value."""
        future = asyncio.get_running_loop().create_future()
        self._awaited[node] = value, future
        return await asyncio.wait_for(future, PATIENCE)

    def _take(self, metadata: Mapping[str, Any]) -> None:
        super()._take(metadata)
        value, future = self._awaited.get(metadata["name"], ("", None))
        if future is not None and not future.done() and metadata.get("labels", {}).get(CHANGED) == value:
            future.set_result(time.monotonic())


async def change_labels(run: Run, changes: Changes, speaker: Speaker, nodes: int, seconds: float) -> list[float]:
    """Seconds from change to label, of changes on nodes by chance, PER_SECOND of them; one at a time on each."""
    taken: list[float] = []
    idle = set(range(nodes))

    async def change(number: int) -> None:
        worker, value, began = speaker.worker(number), f"v{time.time_ns()}", time.monotonic()
        worker.changes = {CHANGED: value}
        seen = asyncio.create_task(changes.shown_as(worker.node, value))
        await speaker._deliver(worker, run.target, Tally())
        taken.append(await seen - began)
        idle.add(number)

    until = time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            number = random.choice(sorted(idle))
            idle.discard(number)
            group.create_task(change(number))
            await asyncio.sleep(random.expovariate(PER_SECOND))
    return taken


@asynccontextmanager
async def attack(run: Run, node: str, codes: Counter[str]) -> AsyncIterator[None]:
    """The attacker at work; `codes` takes what came of its calls."""
    words = (str(run.folder / "ca.crt"), str(run.folder / "hostile-token"), run.target, node)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench._attacker", *words, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        await asyncio.sleep(2)
        yield
        process.stdin.write(b"\n")
        codes.update(json.loads(await process.stdout.readline()))
    finally:
        process.kill()
        await process.wait()


async def measure(nodes: int, seconds: float) -> float:
    """The ratio of the two p99."""
    async with setting(1) as run:
        await run.grow(nodes + 1)
        await run.start_master()
        ca = await asyncio.to_thread(ca_of, run)
        assert run.tokens is not None
        speaker = Speaker(ca, run.tokens)
        speaker.read_tokens()
        (run.folder / "hostile-token").write_text(speaker.worker(nodes).token)
        changes, codes = Changes(run.plane), Counter[str]()
        await changes.start()
        await change_labels(run, changes, speaker, nodes, 20)  # warm: connections, caches, first reports
        before, quiet, hostile, most = resident(run.master.pid), list[float](), list[float](), 0.0
        spent = [0.0, 0.0]
        for _ in range(2):
            spent[0] -= cpu_seconds([run.master.pid])
            quiet += await change_labels(run, changes, speaker, nodes, seconds / 2)
            spent[0] += cpu_seconds([run.master.pid])
            async with attack(run, node_name(nodes), codes):
                spent[1] -= cpu_seconds([run.master.pid])
                hostile += await change_labels(run, changes, speaker, nodes, seconds / 2)
                spent[1] += cpu_seconds([run.master.pid])
                most = max(most, resident(run.master.pid))
        await changes.stop()
        run.table.add("master, of a core: quiet, under attack", ", ".join(f"{one / seconds:.1%}" for one in spent))
        return show(run, quiet, hostile, codes, (before, most), seconds)


def show(
    run: Run,
    quiet: list[float],
    hostile: list[float],
    codes: Counter[str],
    memory: tuple[float, float],
    seconds: float,
) -> float:
    ratio = percentile(hostile, 99) / percentile(quiet, 99)
    for name, times in (("quiet", quiet), ("under attack", hostile)):
        shown = ", ".join(f"{percentile(times, part) * 1e3:.0f}" for part in (50, 99))
        run.table.add(f"change to label, {name}: p50, p99", f"{shown} ms", "", f"{len(times)} changes")
    run.table.add("p99 under attack, of the quiet one", f"{ratio:.2f}", f"{TARGET}")
    sent = codes.pop("sent")
    run.table.add("reports of the attacker", f"{sent * 60 / seconds:,.0f} a minute", "10,000", str(dict(codes)))
    run.table.add("master memory before, under attack", f"{memory[0]:.0f}, {memory[1]:.0f} MiB", "bounded")
    run.table.show()
    assert "Traceback" not in run.master.text(), run.master.text()[-3000:]
    return ratio


def percentile(times: list[float], part: int) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[part - 1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench hostile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=80.0, help="of quiet, and of attack")
    given = parser.parse_args()
    return int(asyncio.run(measure(given.nodes, given.seconds)) > TARGET)


if __name__ == "__main__":
    raise SystemExit(main())
