"""What a worker costs: memory after its first reports, CPU per scan, report and hour.

A real `nfd-worker` scans this machine with every source and reports over loopback to a real gRPC server in here.
Run as `python -m bench.worker`. Byte code is compiled first, since images ship it.
"""

from __future__ import annotations

import asyncio
import compileall
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from nfd.report import Reply, Report
from nfd.rpc.server import LabelerServer, Peer

ROOT = Path(__file__).parent.parent
SECONDS = 15.0
MEMORY_TARGET, SCAN_TARGET, HOUR_TARGET = 60.0, 60.0, 1.8


class Master:
    """A server that takes every report; workers beat as fast as `beat` says."""

    def __init__(self, beat: float) -> None:
        self.beat = beat
        self.count = 0

    async def accept(self, report: Report, peer: Peer) -> Reply:
        self.count += 1
        return Reply(self.beat)


def main() -> None:
    for package in ("nfd", "gfd"):
        compileall.compile_dir(ROOT / package, quiet=1)
    full, settled = scan_cost()
    idle = asyncio.run(worker_cost(interval="10m", beat=3600.0))
    timed = asyncio.run(worker_cost(interval="1s", beat=3600.0))
    beating = asyncio.run(worker_cost(interval="10m", beat=1.0))
    per_scan = (timed.cpu - idle.cpu) / max(timed.scans, 1)
    per_beat = (beating.cpu - idle.cpu) / max(beating.reports, 1)
    hour = 60 * per_scan + 12 * per_beat + idle.cpu / SECONDS * 3600
    rows = [
        ("memory after the first report", f"{idle.memory:.1f} MiB", f"{MEMORY_TARGET:.0f} MiB"),
        ("memory after 15 beats", f"{beating.memory:.1f} MiB", f"{MEMORY_TARGET:.0f} MiB"),
        ("CPU of a scan of every source", f"{full * 1000:.1f} ms", f"{SCAN_TARGET:.0f} ms"),
        ("CPU of a scan by the timer", f"{settled * 1000:.1f} ms", ""),
        ("CPU of a beat", f"{per_beat * 1000:.1f} ms", ""),
        ("CPU of an hour: 60 scans, 12 beats, waiting", f"{hour:.2f} s", f"{HOUR_TARGET} s"),
    ]
    width = max(len(name) for name, _, _ in rows)
    for name, value, target in rows:
        print(f"{name:{width}}  {value:>10}  {f'target {target}' if target else ''}".rstrip())


class Cost:
    """What a worker process used within SECONDS after its first report."""

    def __init__(self, memory: float, cpu: float, reports: int) -> None:
        self.memory, self.cpu, self.reports = memory, cpu, reports
        self.scans = int(SECONDS)


async def worker_cost(interval: str, beat: float) -> Cost:
    master = Master(beat)
    server = LabelerServer(master.accept)
    port = await server.start("localhost:0")
    with worker(port, interval) as process:
        deadline = time.monotonic() + 60
        while not master.count:
            assert time.monotonic() < deadline, "the worker did not report within a minute"
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        before, reports = cpu_seconds(process.pid), master.count
        await asyncio.sleep(SECONDS)
        cost = Cost(resident(process.pid), cpu_seconds(process.pid) - before, master.count - reports)
    await server.stop(0)
    return cost


@contextmanager
def worker(port: int, interval: str) -> Iterator[subprocess.Popen[bytes]]:
    options = f"{{core: {{sleepInterval: {interval}, featureSources: [all, fake]}}}}"
    words = ("-m", "nfd.worker", f"-server=localhost:{port}", "-http-port=0", "-config=", f"-options={options}")
    environment = {**os.environ, "NODE_NAME": "bench"}
    process = subprocess.Popen((sys.executable, *words), cwd=ROOT, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


def resident(pid: int) -> float:
    """MiB of VmRSS (proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")


def cpu_seconds(pid: int) -> float:
    """Time on a CPU of all living threads, to the nanosecond (kernel scheduler/sched-stats)."""
    return sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def scan_cost(repeat: int = 20) -> tuple[float, float]:
    """CPU seconds of a scan of every source, and of one by the timer while nothing changes."""
    from nfd.discovery import discover, make_plan
    from nfd.host import Host
    from nfd.worker.config import model

    host, plan = Host("/"), make_plan(["all", "fake"], ["all"], model()().sources)
    found = discover(host, plan)
    timed = [source.name for source in plan.feature_sources if not source.settled]
    costs = []
    for only in (None, timed):
        started = time.process_time()
        for _ in range(repeat):
            discover(host, plan, found, only)
        costs.append((time.process_time() - started) / repeat)
    return costs[0], costs[1]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
