"""A new leader that has the reports of the last one: how fast it applies a rule that is made as soon as it leads."""

from __future__ import annotations

import asyncio
import json
import time
from http import HTTPStatus

from bench.fleet import bare
from bench.fleet.cluster import Link, each, rule_object
from bench.fleet.gauges import cpu_seconds, resident
from bench.fleet.machines import node_name
from bench.fleet.replicas import REPLICATED, start_replica, start_replicas, unreplicated
from bench.fleet.run import Cost, Run
from bench.fleet.scenarios import PATIENCE, F, has, per_node
from nfd.kube.paths import NODES, RULES, object_path
from tests.controlplane.audit import Mark
from tests.e2e.programs import Program

LOOPS, LOOPED = 3, 1000
"""Number of bare loops, and of their nodes at most."""
WRITTEN = 60.0
"""Seconds until a snapshot is written."""
REST = 15.0
"""Seconds between the last report and a roll-out. The other scenarios wait as long anyway, for the end of the Lease or
for the snapshot."""


async def killed(run: Run, at_once: int) -> None:
    """Two replicas with all reports; the leader is killed."""
    leader, other = await start_replicas(run, at_once)
    await copy_all(run, other)
    sizes = f"{resident(leader.pid):.0f}, {resident(other.pid):.0f} MiB"
    run.table.add(f"memory with {run.nodes}: leader, follower", sizes, "", "")
    since = await look(run)
    leader.kill()
    await apply_rule(run, other, "killed", since)


async def rolled(run: Run, at_once: int) -> None:
    """One replica is rolled out: the new one copies all reports, then the old one is stopped."""
    run.stop_masters()
    old = await start_replica(run, 0)
    await run.until_leads(old)
    await run.crew.report(range(run.nodes), run.target, at_once)
    new = await start_replica(run, 1)
    await run.until(lambda: unreplicated(old, run.nodes), REPLICATED)
    await asyncio.sleep(REST)
    since = await look(run)
    await asyncio.to_thread(old.stop)
    await apply_rule(run, new, "rolled", since)


async def crashed(run: Run, at_once: int) -> None:
    """The process of a single master is killed and starts again with the snapshot."""
    run.stop_masters()
    master = await run.start_master("--enable-leader-election", f"--snapshot-file={run.folder / 'snapshot'}")
    await run.until_leads(master)
    await run.crew.report(range(run.nodes), run.target, at_once)
    reported = time.time()
    await run.until(lambda: unwritten(master, reported), WRITTEN)
    since = await look(run)
    master.kill()
    master.start()
    await run.until_ready(master)
    await apply_rule(run, master, "crashed", since)
    master.start()
    await run.until_ready(master)
    ready = cpu_seconds([master.pid])
    await run.until(lambda: unknown(master, run.nodes), PATIENCE, every=1.0)
    spent = cpu_seconds([master.pid])
    master.stop()
    run.table.add(
        f"restart with a snapshot of {run.nodes}: CPU until all passes are made",
        f"{spent:.1f} s",
        "",
        f"{ready:.1f} s until it is ready, then {(spent - ready) / run.nodes * 1e3:.2f} ms a node",
    )


def unwritten(master: Program, since: float) -> str:
    age = master.metric("nfd_master_snapshot_age_seconds")
    return "" if 0 < age < time.time() - since else f"the snapshot is {age:.0f} s old"


def unknown(master: Program, nodes: int) -> str:
    names = ("nfd_master_leading", "nfd_master_reports_known", "nfd_master_queued_nodes")
    leading, known, queued = map(master.metric, names)
    return "" if leading and known >= nodes and not queued else f"{known:.0f} of {nodes} known, {queued:.0f} queued"


async def look(run: Run) -> tuple[int, Mark]:
    """The number of removed labels, and the place in the audit log, at this moment."""
    return run.watcher.removed, await asyncio.to_thread(run.plane.mark)


async def apply_rule(run: Run, leader: Program, what: str, since: tuple[int, Mark]) -> None:
    """A rule is made as soon as this master leads; compared with a loop that sends the same bodies."""
    nodes, table, (removed, mark) = run.nodes, run.table, since
    await run.until_leads(leader)
    run.masters = [leader]
    rule = {"name": "r", "labels": {what: "yes"}, "matchFeatures": [{"feature": "kernel.version"}]}
    run.watcher.expect(run.names(range(nodes)), has(what, "yes"))
    began = time.monotonic()
    async with run.cost() as cost:
        await asyncio.to_thread(run.plane.request, "POST", RULES, rule_object(what, rule))
        times = (await run.watcher.shown(PATIENCE)).values()
    rate, lost = (nodes - 1) / (max(times) - min(times)), run.watcher.removed - removed
    asked = [event for event in run.plane.writes(mark) if "nfd-master" in event.user]
    writes = [event for event in asked if event.code != HTTPStatus.CONFLICT]
    leader.stop()
    loop = await same_bodies(run, what)
    looped = min(nodes, LOOPED)
    limit = looped / loop.seconds
    table.add(f"leader {what} with {nodes}: first write of a rule", f"{min(times) - began:.2f} s", "2 s", "")
    table.add(
        f"leader {what}: rate from the first write on, share of a bare loop",
        f"{rate / limit:.2f}",
        "0.8",
        f"{rate:.0f} of {limit:.0f} nodes/s",
    )
    table.add(f"leader {what}: the rule", "", "", per_node(cost, nodes))
    table.add(f"leader {what}: the bare loop", "", "", per_node(loop, looped))
    table.add(
        f"leader {what}: labels removed, writes beside the rule's",
        f"{lost}, {len(writes) - nodes}",
        "0, 0",
        f"{len(asked) - len(writes)} conflicts with kubelets' updates",
    )


async def copy_all(run: Run, follower: Program) -> None:
    """A follower that starts anew copies everything."""
    follower.kill()
    follower.start()
    await run.until_ready(follower)
    copied = follower.said("the leader's reports are copied")[-1]
    run.table.add(
        f"hand-over of {copied['reports']} reports: bytes per node",
        f"{copied['bytes'] / copied['reports']:.0f} B",
        "",
        f"{copied['seconds']:.2f} s",
    )


async def same_bodies(run: Run, label: str) -> Cost:
    """What it costs if a loop sends what the master sent, after it was taken away again: the median of several loops
    over the same nodes."""
    link, bodies = Link(run.plane, bare.PARALLEL), dict[int, bytes]()

    async def one(number: int) -> None:
        node = json.loads(await link.send("GET", object_path(NODES, node_name(number))))["metadata"]
        notes = {key: text for key, text in node["annotations"].items() if key.startswith("nfd.node.kubernetes.io/")}
        labels = {f"{F}{label}": "yes"}
        bodies[number] = json.dumps({"metadata": {"labels": labels, "annotations": notes}}).encode()

    await each(range(min(run.nodes, LOOPED)), bare.PARALLEL, one)
    await link.close()
    loops = []
    for _ in range(LOOPS):
        await bare.undo(run.plane, bodies)
        async with run.cost() as cost:
            await bare.send(run.plane, bodies)
        loops.append(cost)
    return sorted(loops, key=lambda one: one.seconds)[LOOPS // 2]
