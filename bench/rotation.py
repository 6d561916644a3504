"""Authorities, certificates and tokens change under workers that report all the time: no report may fail.

    python -m bench.rotation [--seconds S] [--workers N]

Two masters elect a leader; their authority lives for seconds (`bench._quick_master`). Every worker has mounts of its
own: the bundle follows the ConfigMap seconds later, as kubelets do it, and the token is another one every 20 s. Workers
report through nfd-worker's own Reporter, to either master, by chance, as a Service would have it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.fleet.cluster import AUDIENCE, NAMESPACE, Link
from bench.fleet.gauges import resident
from bench.fleet.machines import boot_id, node_name
from bench.fleet.run import Run, setting
from nfd.errors import ReportError
from nfd.report import Report
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from tests.controlplane import objects
from tests.controlplane.process import free_ports

LAG = 5.0
"""Seconds until a mount follows its ConfigMap, at most."""
TOKEN_SECONDS = 20.0
PAUSE = 1.5
THREADS = 12
BUNDLE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/nfd-master-ca"


@dataclass
class Seen:
    """What happened so far."""

    taken: int = 0
    tokens: int = 0
    failed: list[str] = field(default_factory=list)
    authorities: set[str] = field(default_factory=set)


@dataclass
class Rotation:
    run: Run
    link: Link
    servers: list[str]
    seen: Seen = field(default_factory=Seen)
    bundle: str = ""

    def mount(self, number: int, name: str) -> Path:
        return self.run.folder / f"{number}-{name}"

    async def follow_bundle(self, workers: int, group: asyncio.TaskGroup) -> None:
        """Kubelets, each in its own time."""
        known = ""
        while True:
            text = json.loads(await self.link.send("GET", BUNDLE)).get("data", {}).get("ca.crt", "")
            if text != known:
                self.seen.authorities |= {part for part in text.split("-----BEGIN CERTIFICATE-----") if part.strip()}
                self.bundle = text
                for number in range(workers):
                    group.create_task(self._follow(number, at_once=not known))
                known = text
            await asyncio.sleep(0.5)

    async def _follow(self, number: int, *, at_once: bool) -> None:
        """What is there then, not what was there when the wait began: mounts never go back."""
        await asyncio.sleep(0 if at_once else random.uniform(0.0, LAG))
        replace(self.mount(number, "ca.crt"), self.bundle)

    async def renew_tokens(self, number: int) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/nfd-worker/token"
        wish = json.dumps(objects.token_request(AUDIENCE, f"nfd-worker-{number}", 600)).encode()
        while True:
            answer = json.loads(await self.link.send("POST", path, wish))
            replace(self.mount(number, "token"), answer["status"]["token"])
            self.seen.tokens += 1
            await asyncio.sleep(TOKEN_SECONDS * random.uniform(0.8, 1.2))

    async def work(self, number: int, until: float) -> None:
        """One worker; each report has something new, so that it is also written."""
        tls = TlsFiles(str(self.mount(number, "ca.crt")))
        token, sequence = str(self.mount(number, "token")), 0
        while time.monotonic() < until:
            sequence += 1
            labels = {"feature.node.kubernetes.io/cpu-changed": str(sequence)}
            report = Report(node_name(number), order=Order(boot_id(number), 1, sequence), labels=labels)
            reporter = Reporter(random.choice(self.servers), tls=tls, token_file=token)
            try:
                await asyncio.to_thread(reporter.send, report)
                self.seen.taken += 1
            except ReportError as error:
                self.seen.failed.append(f"{time.monotonic() - until:.1f} s: {error}")
            await asyncio.sleep(PAUSE * random.uniform(0.5, 1.5))


def replace(path: Path, text: str) -> None:
    """In one step, as a kubelet switches a link."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(path)


async def measure(workers: int, seconds: float) -> int:
    """How many reports failed."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(THREADS))
    async with setting(0) as run:
        await run.grow(workers)
        ports = free_ports(4)
        masters = [start(run, port, http_port) for port, http_port in (ports[:2], ports[2:])]
        link = Link(run.plane, 8)
        rotation = Rotation(run, link, [f"localhost:{port}" for port in (ports[0], ports[2])])
        try:
            return await rotate(rotation, masters, workers, seconds)
        finally:
            await link.close()
            for master in masters:
                master.kill()
                master.wait()


async def rotate(rotation: Rotation, masters: list[subprocess.Popen[bytes]], workers: int, seconds: float) -> int:
    async with asyncio.TaskGroup() as group:
        background = [group.create_task(rotation.follow_bundle(workers, group))]
        background += [group.create_task(rotation.renew_tokens(number)) for number in range(workers)]
        async with asyncio.timeout(60):
            while not all(rotation.mount(number, "ca.crt").exists() for number in range(workers)):
                await asyncio.sleep(0.1)
            for server in rotation.servers:
                while not await takes(rotation, server):
                    await asyncio.sleep(0.5)
        until = time.monotonic() + seconds
        await asyncio.gather(*(rotation.work(number, until) for number in range(workers)))
        for task in background:
            task.cancel()
    seen, table = rotation.seen, rotation.run.table
    table.add(f"reports of {workers} workers in {seconds:.0f} s", f"{seen.taken:,}")
    table.add("reports that failed", f"{len(seen.failed)}", "0", "; ".join(seen.failed[:3]))
    table.add("authorities that came and went", f"{len(seen.authorities)}")
    table.add("tokens issued", f"{seen.tokens:,}")
    table.add("memory of the masters", f"{max(resident(one.pid) for one in masters):.0f} MiB")
    table.show()
    return len(seen.failed) or int(len(seen.authorities) < 2)


async def takes(rotation: Rotation, server: str) -> bool:
    """Whether a report is taken there."""
    token, ca = str(rotation.mount(0, "token")), TlsFiles(str(rotation.mount(0, "ca.crt")))
    report = Report(node_name(0), order=Order(boot_id(0), 0, 1))
    try:
        await asyncio.to_thread(Reporter(server, tls=ca, token_file=token).send, report)
    except ReportError:
        return False
    return True


def start(run: Run, port: int, http_port: int) -> subprocess.Popen[bytes]:
    words = (str(run.kubeconfig), str(port), str(http_port), NAMESPACE)
    with (run.folder / f"master-{port}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "bench._quick_master", *words], stdout=log, stderr=log)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench rotation", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--workers", type=int, default=50)
    given = parser.parse_args()
    return min(asyncio.run(measure(given.workers, given.seconds)), 1)


if __name__ == "__main__":
    raise SystemExit(main())
