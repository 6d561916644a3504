"""Total loss: the only master is gone with all that it knew. The next one asks the fleet, through the mounted epoch.

Workers read the file as the real one does. What is simulated is the kubelet: each worker sees the change at a random
time. Heartbeats are left out: with them, features would be known sooner, at ten more reports a second.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.fleet.cluster import NAMESPACE
from bench.fleet.gauges import Spent
from bench.fleet.run import Cost, Run
from nfd.report_request import ENTRY, Epoch, parse

MOUNTED = 90.0
"""Seconds until the kubelet has updated a mount: its sync period of a minute, and the delay of its cache (Kubernetes
documentation, "Mounted ConfigMaps are updated automatically")."""
KNOWN = 600.0
ASKED = 60.0
SAMPLED = 2.0
"""Seconds between two samples, each of which costs the master some milliseconds."""
WINDOW = 10.0
"""Seconds over which the highest load is averaged."""


@dataclass
class Sample:
    """At a monotonic time: for how many nodes the features are known, and the CPU seconds spent so far."""

    at: float
    known: float
    spent: Spent


async def lost(run: Run, _at_once: int) -> None:
    for master in run.masters:
        master.kill()
    run.masters.clear()
    file = run.folder / ENTRY
    before = read(run)
    file.write_text(str(before or ""))
    await run.crew.report(range(run.nodes), "", watch=str(file))
    removed, mark = run.watcher.removed, await asyncio.to_thread(run.plane.mark)
    await run.start_master()
    began = time.monotonic()
    await run.until(lambda: "" if read(run) != before else "the epoch is the same", ASKED)
    epoch, asked = read(run), time.monotonic() - began
    assert epoch is not None
    file.write_text(str(epoch))
    samples: list[Sample] = []
    async with run.cost() as cost:
        reporting = asyncio.create_task(run.crew.report(range(run.nodes), run.target, mounted_within=MOUNTED))
        await run.until(lambda: unknown(run, samples), KNOWN, every=SAMPLED)
        seconds = time.monotonic() - began
    came = await reporting
    writes = [event for event in run.plane.writes(mark) if "nfd-master" in event.user]
    what, table = f"total loss with {run.nodes}", run.table
    table.add(
        f"{what}: from leadership until all features are known",
        f"{seconds:.0f} s",
        "180 s",
        f"asked after {asked:.1f} s, spread {epoch.spread} s, told to come later: {came['again']:.0f}",
    )
    for party in ("api", "master"):
        add_load(run, f"{what}: {'API server' if party == 'api' else party}", party, cost, samples)
    table.add(f"{what}: labels removed, Node writes", f"{run.watcher.removed - removed}, {len(writes)}", "0, 0", "")


def read(run: Run) -> Epoch | None:
    found = run.plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/nfd-master-ca")
    return parse(found.get("data", {}).get(ENTRY, ""))


def unknown(run: Run, samples: list[Sample]) -> str:
    samples.append(Sample(time.monotonic(), run.master.metric("nfd_master_reports_known"), run.look()))
    known = samples[-1].known
    return "" if known >= run.nodes else f"features of {known:.0f} of {run.nodes} nodes known"


def add_load(run: Run, what: str, party: str, cost: Cost, samples: list[Sample]) -> None:
    """The shares of a core, the highest and on average, beside that of the last cold start."""
    assert run.cold is not None
    cold = getattr(run.cold.spent, party) / run.cold.seconds
    highest = max(
        (getattr(later.spent, party) - getattr(first.spent, party)) / (later.at - first.at)
        for first in samples
        if (later := next((one for one in samples if one.at >= first.at + WINDOW), None)) is not None
    )
    run.table.add(
        f"{what}, of a core: highest in {WINDOW:.0f} s",
        f"{highest:.1%}",
        f"cold start {cold:.1%}",
        f"on average {getattr(cost.spent, party) / cost.seconds:.1%}, "
        f"{getattr(cost.spent, party) / run.nodes * 1e3:.2f} ms a node",
    )
