"""What a worker costs: memory, CPU of its start, of a scan, a beat and an hour, on a small and on a large machine.

A real `nfd-worker` with every source, GPUs of a driver library of ours included, reports over TLS to a real gRPC server
in here. Run as `python -m bench worker`. Byte code is compiled first, since images ship it.
"""

from __future__ import annotations

import asyncio
import compileall
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench import _bighost
from bench._table import Table
from nfd.report import Reply, Report
from nfd.rpc.caller_types import Peer
from nfd.rpc.server import LabelerServer
from nfd.rpc.tls import TlsFiles
from tests.controlplane import pki
from tests.nvml.library import build

ROOT = Path(__file__).parent.parent
SECONDS = 15.0
GPU = {"name": "NVIDIA H100 80GB HBM3", "memory_mib": 81559, "compute": "9.0", "mig": {"current": 0}}
SCANS, BEATS = 60, 12
"""In an hour, at the default sleepInterval and in a fleet of 5,000."""


class Master:
    """A server that takes every report; workers beat as fast as `beat` says."""

    def __init__(self, beat: float) -> None:
        self.beat = beat
        self.count = 0

    async def accept(self, report: Report, peer: Peer) -> Reply:
        self.count += 1
        return Reply(self.beat)


@dataclass(frozen=True)
class Machine:
    """A root to scan, what the worker's environment says of its GPUs, and the certificates of the connection."""

    root: Path
    environment: Mapping[str, str]
    keys: pki.Pki


@dataclass(frozen=True)
class Cost:
    """Of a worker: CPU seconds to its first report, then of SECONDS; MiB at the end."""

    start: float
    memory: float
    cpu: float
    reports: int


def main() -> None:
    for package in ("nfd", "gfd"):
        compileall.compile_dir(ROOT / package, quiet=1)
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        small, large = machines(Path(folder))
        idle, beating = (asyncio.run(cost_of(small, "10m", beat)) for beat in (3600.0, 1.0))
        scanning = asyncio.run(cost_of(small, "1s", 3600.0))
        big = asyncio.run(cost_of(large, "10m", 1.0))
        big_scanning = asyncio.run(cost_of(large, "1s", 3600.0))
    per_beat = (beating.cpu - idle.cpu) / max(beating.reports, 1)
    table.add("memory after the first report", f"{idle.memory:.1f} MiB")
    table.add(
        "memory after 15 beats over TLS", f"{beating.memory:.1f} MiB", "≤ 52 MiB", "bare Python 10.7; NFD + GFD 39 + 50"
    )
    growth = f"{100 * (big.memory / beating.memory - 1):+.0f} %"
    table.add("the same with 192 CPUs, 912 PCI functions", f"{big.memory:.1f} MiB", "≤ +10 %", growth)
    table.add("CPU from start to first report", f"{1000 * beating.start:.0f} ms", "≤ 400 ms", "NFD 25 ms")
    table.add("CPU of a beat over TLS", f"{1000 * per_beat:.1f} ms", "", "connect and close alone: 6 ms")
    for name, scans, most in (("", scanning, "≤ 1.8 s"), (", large machine", big_scanning, "")):
        per_scan = (scans.cpu - idle.cpu) / SECONDS
        hour = SCANS * per_scan + BEATS * per_beat + idle.cpu / SECONDS * 3600
        table.add(f"CPU of a scan{name}", f"{1000 * per_scan:.1f} ms")
        table.add(
            f"CPU of an hour: 60 scans, 12 beats, waiting{name}", f"{hour:.2f} s", most, "NFD 1.75 s, GFD besides"
        )
    table.show()


def machines(folder: Path) -> tuple[Machine, Machine]:
    libraries = build({"devices": [{**GPU, "pci": {"bus_id": f"00000000:{at:02X}:00.0"}} for at in range(8)]}, folder)
    keys = pki.create(folder)
    for name in ("small", "large"):
        _bighost.lay_out(folder / name, large=name == "large")
    environment = {**libraries.env, "NFD_NVML_LIBRARY": str(libraries.nvml)}
    small, large = (Machine(folder / name, environment, keys) for name in ("small", "large"))
    return small, large


async def cost_of(machine: Machine, interval: str, beat: float) -> Cost:
    master = Master(beat)
    keys = machine.keys
    server = LabelerServer(master.accept, tls=TlsFiles(cert=str(keys.certificate), key=str(keys.key)))
    port = await server.start("localhost:0")
    with worker(machine, port, interval) as process:
        deadline = time.monotonic() + 60
        while not master.count:
            assert time.monotonic() < deadline, "the worker did not report within a minute"
            await asyncio.sleep(0.01)
        start = cpu_seconds(process.pid)
        await asyncio.sleep(1)
        before, reports = cpu_seconds(process.pid), master.count
        await asyncio.sleep(SECONDS)
        cost = Cost(start, resident(process.pid), cpu_seconds(process.pid) - before, master.count - reports)
    await server.stop(0)
    return cost


@contextmanager
def worker(machine: Machine, port: int, interval: str) -> Iterator[subprocess.Popen[bytes]]:
    options = f"{{core: {{sleepInterval: {interval}, featureSources: [all, fake]}}}}"
    words = [f"-server=localhost:{port}", f"-server-ca-file={machine.keys.ca}", f"-host-root={machine.root}"]
    words += ["-http-port=0", "-config=", f"-options={options}"]
    environment = {**os.environ, **machine.environment, "NODE_NAME": "bench"}
    process = subprocess.Popen([sys.executable, "-m", "nfd.worker", *words], cwd=ROOT, env=environment)
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
    nanoseconds = 0
    for one in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has just ended
            nanoseconds += int(one.read_text().split()[0])
    return nanoseconds / 1e9


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
