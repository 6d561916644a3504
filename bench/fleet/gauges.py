"""What is measured: CPU and memory of processes by /proc, requests by the audit log, sizes by etcd itself."""

from __future__ import annotations

import base64
import http.client
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.audit import Event, Mark
from tests.controlplane.cluster import ControlPlane

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of processes, threads that have ended included (proc_pid_stat(5))."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


def resident(pid: int) -> float:
    """MiB that it has in memory (proc_pid_status(5), VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no VmRSS")


@dataclass
class Spent:
    """CPU seconds of each party between two looks."""

    master: float = 0.0
    api: float = 0.0
    etcd: float = 0.0
    fleet: float = 0.0

    def __sub__(self, other: Spent) -> Spent:
        return Spent(*(getattr(self, key) - getattr(other, key) for key in ("master", "api", "etcd", "fleet")))


def look(plane: ControlPlane, masters: Iterable[int], fleet: Iterable[int]) -> Spent:
    api, etcd = ([pid] if (pid := process.pid) else [] for process in (plane.apiserver, plane.etcd))
    return Spent(*map(cpu_seconds, (masters, api, etcd, fleet)))


def requests(plane: ControlPlane, mark: Mark) -> Counter[str]:
    """What masters asked since, such as `patch nodes`; open watches are begun once and not counted again."""
    return Counter(
        _what(event)
        for event in plane.audit(mark)
        if event.agent.startswith("nfd-master") or "nfd-master" in event.user
    )


def _what(event: Event) -> str:
    return f"{event.verb} {event.resource}" + (f"/{event.subresource}" if event.subresource else "")


def stored_bytes(plane: ControlPlane, prefix: str, limit: int = 200) -> float:
    """Bytes of an object below a key of etcd, as a mean of so many (etcd API v3, JSON gateway)."""

    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    body = json.dumps({"key": encoded(prefix), "range_end": encoded(f"{prefix}\xff"), "limit": limit})
    link = http.client.HTTPConnection("127.0.0.1", plane.ports.etcd, timeout=120)
    link.request("POST", "/v3/kv/range", body)
    values = [one["value"] for one in json.loads(link.getresponse().read()).get("kvs", ())]
    link.close()
    return sum(len(base64.b64decode(value)) for value in values) / max(len(values), 1)
