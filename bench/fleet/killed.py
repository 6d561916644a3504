"""SIGKILL of the leader: how fast the next one, which copied its reports, applies a rule that is made right then."""

from __future__ import annotations

import asyncio
import json
import time

from bench.fleet import bare
from bench.fleet.cluster import Link, each
from bench.fleet.gauges import resident
from bench.fleet.machines import node_name
from bench.fleet.replicas import start_replicas
from bench.fleet.run import Cost, Run
from bench.fleet.scenarios import PATIENCE, F, per_node
from nfd.kube.paths import NODES, object_path
from tests.e2e.programs import Program

CONFLICT = 409
LABEL = "killed"
RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
RULE = {
    "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
    "kind": "NodeFeatureRule",
    "metadata": {"name": LABEL},
    "spec": {
        "rules": [{"name": "r", "labels": {LABEL: "yes"}, "matchFeatures": [{"feature": "kernel.version"}]}],
    },
}


async def killed(run: Run, at_once: int) -> None:
    """Two replicas with all reports; the leader is killed, and a rule is made as soon as the other one leads."""
    leader, other = await start_replicas(run, at_once)
    await copy_all(run, other)
    table, nodes = run.table, run.nodes
    table.add(
        f"memory with {nodes}: leader, follower", f"{resident(leader.pid):.0f}, {resident(other.pid):.0f} MiB", "", ""
    )
    removed, mark = run.watcher.removed, await asyncio.to_thread(run.plane.mark)
    leader.kill()
    await run.until_leads(other)
    run.masters = [other]
    run.watcher.expect(run.names(range(nodes)), lambda labels: labels.get(f"{F}{LABEL}") == "yes")
    began = time.monotonic()
    async with run.cost() as cost:
        await asyncio.to_thread(run.plane.request, "POST", RULES, RULE)
        times = (await run.watcher.shown(PATIENCE)).values()
    rate, lost = (nodes - 1) / (max(times) - min(times)), run.watcher.removed - removed
    asked = [event for event in run.plane.writes(mark) if "nfd-master" in event.user]
    writes = [event for event in asked if event.code != CONFLICT]
    other.stop()
    loop = await same_bodies(run)
    limit = nodes / loop.seconds
    table.add(f"leader killed with {nodes}: first write of a rule", f"{min(times) - began:.2f} s", "2 s", "")
    table.add(
        "leader killed: rate from the first write on, share of a bare loop",
        f"{rate / limit:.2f}",
        "0.8",
        f"{rate:.0f} of {limit:.0f} nodes/s",
    )
    table.add("leader killed: the rule", "", "", per_node(cost, nodes))
    table.add("leader killed: the bare loop", "", "", per_node(loop, nodes))
    table.add(
        "leader killed: labels removed, writes beside the rule's",
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


async def same_bodies(run: Run) -> Cost:
    """What it costs if a loop sends what the master sent, after it was taken away again."""
    link, bodies = Link(run.plane, bare.PARALLEL), dict[int, bytes]()

    async def one(number: int) -> None:
        node = json.loads(await link.send("GET", object_path(NODES, node_name(number))))["metadata"]
        notes = {key: text for key, text in node["annotations"].items() if key.startswith("nfd.node.kubernetes.io/")}
        labels = {f"{F}{LABEL}": "yes"}
        bodies[number] = json.dumps({"metadata": {"labels": labels, "annotations": notes}}).encode()

    await each(range(run.nodes), bare.PARALLEL, one)
    await link.close()
    await bare.undo(run.plane, bodies)
    async with run.cost() as cost:
        await bare.send(run.plane, bodies)
    return cost
