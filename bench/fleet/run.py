"""One run: what is set up once, and what every scenario needs of it."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench._table import Table
from bench.fleet import cluster
from bench.fleet.crew import Crew
from bench.fleet.gauges import Spent, look, requests
from bench.fleet.least import Least
from bench.fleet.machines import node_name
from bench.fleet.watcher import Watcher
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program

READY = 120.0
LEADS = 60.0
"""Seconds; a Lease that nobody released runs out in 15."""


@dataclass
class Cost:
    """What one block of a scenario took."""

    seconds: float = 0.0
    spent: Spent = field(default_factory=Spent)
    asked: Counter[str] = field(default_factory=Counter)


@dataclass
class Run:
    plane: ControlPlane
    kubeconfig: Path
    folder: Path
    tokens: Path | None
    watcher: Watcher
    crew: Crew
    least: Least
    table: Table = field(default_factory=Table)
    masters: list[Program] = field(default_factory=list)
    nodes: int = 0
    cold: Cost | None = None
    """Of the last cold start."""

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.master.flags[0].removeprefix('-port=')}"

    @property
    def master(self) -> Program:
        return self.masters[0]

    def names(self, numbers: Iterable[int]) -> list[str]:
        return [node_name(number) for number in numbers]

    async def grow(self, nodes: int) -> range:
        """Have so many nodes; the new ones."""
        fresh = range(self.nodes, nodes)
        await cluster.populate(self.plane, fresh, self.tokens)
        self.nodes = nodes
        return fresh

    async def start_master(self, *flags: str) -> Program:
        port, http_port = free_ports(2)
        words = (f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={self.kubeconfig}")
        secure = ("--auth=token", f"--namespace={cluster.NAMESPACE}", "--service-name=localhost")
        log = self.folder / f"master-{port}.log"
        where = {"POD_NAME": f"master-{port}", "POD_IP": "127.0.0.1"}
        master = Program("nfd-master", (*words, *secure, *flags), log, http_port, where)
        master.start()
        self.masters.append(master)
        await self.until_ready(master)
        return master

    def stop_masters(self) -> None:
        """By SIGTERM, the leader first; others are started anew."""
        for master in self.masters:
            master.stop()
        self.masters.clear()

    async def until_ready(self, master: Program) -> None:
        await self.until(lambda: "" if master.ready() else f"the master is not ready:\n{master.text()[-2000:]}", READY)

    async def until_leads(self, *masters: Program) -> Program:
        """The one that leads."""
        leading: list[Program] = []

        def missing() -> str:
            leading[:] = [one for one in masters if one.metric("nfd_master_leading")]
            return "" if leading else "no master leads:\n" + "\n".join(one.text()[-2000:] for one in masters)

        await self.until(missing, LEADS, every=0.02)
        return leading[0]

    async def until(self, missing: Callable[[], str], seconds: float, every: float = 0.1) -> None:
        """Until nothing is missing. Raises: TimeoutError, with what is missing."""
        deadline = time.monotonic() + seconds
        while text := await asyncio.to_thread(missing):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:.0f} s: {text}")
            await asyncio.sleep(every)

    def look(self) -> Spent:
        pids = [master.pid for master in self.masters if master.alive()]
        return look(self.plane, pids, self.crew.pids)

    @asynccontextmanager
    async def cost(self) -> AsyncIterator[Cost]:
        """Measures the block."""
        cost, mark = Cost(), await asyncio.to_thread(self.plane.mark)
        before, began = self.look(), time.monotonic()
        yield cost
        cost.seconds, cost.spent = time.monotonic() - began, self.look() - before
        cost.asked = await asyncio.to_thread(requests, self.plane, mark)


@contextmanager
def control_plane(*, apart: bool) -> Iterator[ControlPlane]:
    """The control plane; with `apart`, it has one half of the cores, and everything that is started then the other."""
    cores = sorted(os.sched_getaffinity(0))
    half = len(cores) // 2
    its, others = (cores[:half], cores[half:]) if apart else (cores, cores)
    if not its:
        raise SystemExit("--apart needs two cores")
    try:
        os.sched_setaffinity(0, its)
        with ControlPlane() as plane:
            os.sched_setaffinity(0, others)
            yield plane
    finally:
        os.sched_setaffinity(0, cores)


@asynccontextmanager
async def setting(processes: int, *, apart: bool = False) -> AsyncIterator[Run]:
    """The control plane, kubelets and a watcher; no master yet. `apart` as in `control_plane`."""
    with control_plane(apart=apart) as plane, tempfile.TemporaryDirectory(prefix="nfd-fleet-") as name:
        folder = Path(name)
        kubeconfig = await asyncio.to_thread(cluster.prepare, plane)
        run = Run(plane, kubeconfig, folder, folder / "tokens", Watcher(plane), Crew(processes), Least(plane))
        await run.watcher.start()
        await run.least.start()
        beating = asyncio.create_task(cluster.heartbeats(plane, lambda: run.nodes))
        try:
            yield run
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            await run.crew.stop()
            await run.least.stop()
            await run.watcher.stop()
            for master in run.masters:
                master.kill()
