"""What happens to the fleet, one thing after the other; each adds its rows to the table."""

from __future__ import annotations

import asyncio
import time

from bench.fleet import bare, cluster
from bench.fleet.cluster import NAMESPACE
from bench.fleet.gauges import resident, stored_bytes
from bench.fleet.machines import LABELS, node_name
from bench.fleet.relay import relay
from bench.fleet.run import Cost, Run
from bench.fleet.watcher import Test
from nfd.kube.paths import RULES
from nfd.master.reports.heartbeats import HEARTBEAT_LIMITS, HEARTBEATS_PER_SECOND
from tests.controlplane.audit import WRITES

FEATURES_REPORTED = "nfd.node.kubernetes.io/FeaturesReported"
F = "feature.node.kubernetes.io/"
PATIENCE = 900.0
BARE = 500
"""Nodes of the bare loop, at most; it has nothing to get slower with."""


async def bare_loop(run: Run, fresh: range) -> float:
    """Nodes per second of the loop over nodes that have nothing of ours yet; then it is taken away again."""
    bodies = await bare.plan(run.plane, fresh[:BARE])
    where = f"/registry/minions/{node_name(fresh[0])[:-1]}"
    before = stored_bytes(run.plane, where, 10)
    async with run.cost() as cost:
        await bare.send(run.plane, bodies)
    rate = len(bodies) / cost.seconds
    after = stored_bytes(run.plane, where, 10)
    await bare.undo(run.plane, bodies)
    run.table.add("bare loop of the same PATCHes", f"{rate:.0f} nodes/s", "", per_node(cost, len(bodies)))
    run.table.add(
        "etcd, bytes per node for what we write",
        f"{after - before:.0f}",
        "",
        f"body {len(bodies[fresh[0]])}, Node before {before:.0f}",
    )
    return rate


async def least_master(run: Run, fresh: range, at_once: int) -> float:
    """Nodes per second if the same workers ask for the same PATCHes, each over a connection; then they are undone."""
    bodies = await bare.plan(run.plane, fresh[:BARE])
    run.least.bodies = {node_name(number): body for number, body in bodies.items()}
    async with run.cost() as cost:
        await run.crew.report(bodies, run.least.target, at_once)
    await bare.undo(run.plane, bodies)
    rate = len(bodies) / cost.seconds
    run.table.add("the same, asked for by workers over TLS", f"{rate:.0f} nodes/s", "", per_node(cost, len(bodies)))
    return rate


async def cold_start(run: Run, numbers: range, at_once: int, bare_rate: float, least_rate: float) -> None:
    run.watcher.expect(run.names(numbers), lambda labels: len(labels) > LABELS)
    async with run.cost() as cost:
        came = await run.crew.report(numbers, run.target, at_once)
        await run.watcher.shown(PATIENCE)
    run.cold = cost
    count, rate = len(numbers), len(numbers) / cost.seconds
    what = f"cold start of {count}, {run.nodes} known"
    run.table.add(f"{what}: share of the bare loop", f"{rate / bare_rate:.2f}", "0.8", f"{rate:.0f} nodes/s")
    run.table.add(f"{what}: share of the same over TLS", f"{rate / least_rate:.2f}", "", "")
    run.table.add(
        f"{what}: master CPU per node", f"{cost.spent.master / count * 1e3:.2f} ms", "6 ms", per_node(cost, count)
    )
    asked = ", ".join(f"{number / count:.2f} {verb}" for verb, number in cost.asked.most_common(4))
    run.table.add(f"{what}: requests per node", asked, "1 patch nodes", f"told to come later: {came['again']:.0f}")
    run.table.add(f"{what}: master memory", f"{resident(run.master.pid):.0f} MiB", "", "")


async def nothing_changes(run: Run, seconds: float, how: str = "") -> None:
    """Every worker beats, as often as the master has told them; `how` says what is different about the master."""
    async with run.cost() as cost:
        share = await beat(run, seconds)
    per_minute = 60 / cost.seconds
    beats = f"{share / cost.seconds:.1f} beats/s, API server {cost.spent.api / cost.seconds:.1%}"
    run.table.add(f"nothing changes{how}: master, of a core", f"{cost.spent.master / cost.seconds:.1%}", "6 %", beats)
    run.table.add(
        f"nothing changes{how}: requests of the master", str(dict(cost.asked)), "0 writes", f"in {cost.seconds:.0f} s"
    )
    run.table.add(
        f"nothing changes{how}: master CPU per node and minute",
        f"{cost.spent.master / run.nodes * per_minute * 1e3:.2f} ms",
        "",
        "",
    )
    writes = sum(number for what, number in cost.asked.items() if is_write(what))
    run.table.add(f"nothing changes{how}: Node writes", str(writes), "0", f"{share} of {run.nodes} nodes have reported")


async def beat(run: Run, seconds: float) -> int:
    """For so long workers send heartbeats at the fleet's pace. Returns how many nodes have sent one."""
    share = min(max(round(run.nodes * seconds / pace_of(run.nodes)), 1), run.nodes)
    await run.crew.report(range(share), run.target, seconds=seconds)
    return share


async def node_conditions(run: Run, at_once: int, seconds: float) -> None:
    """The same once more with node conditions, which a new master writes with the first reports."""
    run.stop_masters()
    master = await run.start_master("--node-conditions")
    await run.crew.report(range(run.nodes), run.target, at_once)
    await run.until(lambda: "" if not master.metric("nfd_master_queued_nodes") else "nodes are queued", PATIENCE)
    carrying = await asyncio.to_thread(cluster.count_conditions, run.plane, FEATURES_REPORTED)
    run.table.add("node conditions: Nodes that have one", str(carrying), str(run.nodes), "")
    await nothing_changes(run, seconds, " with node conditions")


def is_write(what: str) -> bool:
    """Whether a request, such as `patch nodes/status`, writes a Node."""
    verb, _, resource = what.partition(" ")
    return verb in WRITES and resource.partition("/")[0] == "nodes"


async def beat_bytes(run: Run, beats: int = 20) -> None:
    """What a beat sends through the network, and what that is in a minute at the fleet's pace."""
    numbers = range(min(beats, run.nodes))
    async with relay(run.target) as counted:
        await run.crew.report(numbers, f"127.0.0.1:{counted.port}", 1)
    up, down = counted.up / len(numbers), counted.down / len(numbers)
    pace = pace_of(run.nodes)
    run.table.add(
        f"nothing changes: TCP payload per node and minute, {run.nodes} nodes",
        f"{(up + down) * 60 / pace:.0f} B",
        "1 kB",
        f"a beat: {up:.0f} B up, {down:.0f} B down, every {pace:.0f} s",
    )


async def some_change(run: Run, numbers: range, at_once: int, bare_rate: float) -> None:
    mark = f"v{time.time_ns()}"
    run.watcher.expect(run.names(numbers), has("cpu-changed", mark))
    async with run.cost() as cost:
        await run.crew.report(numbers, run.target, at_once, labels={F + "cpu-changed": mark})
        await run.watcher.shown(PATIENCE)
    rate = len(numbers) / cost.seconds
    run.table.add(
        f"{len(numbers)} nodes change at once: share of the bare loop",
        f"{rate / bare_rate:.2f}",
        "",
        per_node(cost, len(numbers)),
    )


async def rule_change(run: Run, bare_rate: float, rules: int = 50) -> None:
    """The first of 50 rules sets another label on every node."""

    def body(value: str) -> dict[str, object]:
        every = {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}
        one = {"name": "all", "labels": {"rule-all": value}, "matchFeatures": [every]}
        others = [
            {"name": f"rule {number}", "labels": {f"rule-{number}": "true"}, "matchFeatures": [
                {"feature": "kernel.loadedmodule", "matchExpressions": {f"module_{number}_1": {"op": "Exists"}}},
                {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": ["ffff"]}}}]}
            for number in range(1, rules)
        ]  # fmt: skip
        return cluster.rule_object("fleet", one, *others)

    for value, method, where, first in (("one", "POST", RULES, True), ("two", "PATCH", f"{RULES}/fleet", False)):
        run.watcher.expect(run.names(range(run.nodes)), has("rule-all", value))
        seconds = float(run.master.metric("nfd_master_nodefeaturerule_processing_duration_seconds_sum"))
        async with run.cost() as cost:
            await asyncio.to_thread(run.plane.request, method, where, body(value))
            await run.watcher.shown(PATIENCE)
        evaluated = run.master.metric("nfd_master_nodefeaturerule_processing_duration_seconds_sum") - seconds
        rate = run.nodes / cost.seconds
        what = "first rules" if first else "a rule change"
        run.table.add(
            f"{what} touching {run.nodes}: evaluated in",
            f"{evaluated:.2f} s",
            "2 s at 5,000",
            per_node(cost, run.nodes),
        )
        run.table.add(f"{what} touching {run.nodes}: share of the bare loop", f"{rate / bare_rate:.2f}", "", "")


async def restart(run: Run, at_once: int) -> None:
    """SIGTERM, start again, and every worker speaks within a beat."""
    before, removed = run.nodes, run.watcher.removed
    run.master.stop()
    began, mark = time.monotonic(), await asyncio.to_thread(run.plane.mark)
    run.master.start()
    await run.until_ready(run.master)
    ready = time.monotonic() - began
    cpu_ready = run.look().master
    await run.crew.report(range(before), run.target, at_once)
    cpu = run.look().master
    writes = [event for event in run.plane.writes(mark) if "nfd-master" in event.user]
    run.table.add(
        f"restart with {before}: CPU until all features are back",
        f"{cpu:.1f} s",
        "15 s at 5,000",
        f"ready after {ready:.1f} s and {cpu_ready:.1f} s CPU",
    )
    run.table.add("restart: labels removed, Node writes", f"{run.watcher.removed - removed}, {len(writes)}", "0, 0", "")


async def hand_over(run: Run, at_once: int) -> None:
    """Two replicas; the leader goes, the other one writes."""
    run.stop_masters()
    removed = run.watcher.removed
    flags = ("--enable-leader-election", f"--namespace={NAMESPACE}")
    first, second = [await run.start_master(*flags) for _ in range(2)]
    leader = await run.until_leads(first, second)
    other = first if leader is second else second
    run.masters = [leader, other]
    await run.crew.report(range(min(run.nodes, 100)), run.target, at_once)
    began = time.monotonic()
    await asyncio.to_thread(leader.stop)
    gone = time.monotonic()
    await run.until_leads(other)
    led = time.monotonic()
    run.masters = [other]
    await some_change_on_one(run)
    run.table.add(
        "hand-over: old leader's SIGTERM until the other leads",
        f"{led - began:.2f} s",
        "",
        f"of it stopping {gone - began:.2f} s; next label after {time.monotonic() - led:.2f} s",
    )
    run.table.add("hand-over: labels removed", str(run.watcher.removed - removed), "0", "")


async def some_change_on_one(run: Run) -> float:
    mark = f"v{time.time_ns()}"
    run.watcher.expect(run.names([0]), has("cpu-changed", mark))
    began = time.monotonic()
    await run.crew.report([0], run.target, 1, labels={F + "cpu-changed": mark})
    await run.watcher.shown(60)
    return time.monotonic() - began


def pace_of(nodes: int) -> float:
    """Seconds between two beats of a node in a fleet of that size."""
    return min(max(nodes / HEARTBEATS_PER_SECOND, HEARTBEAT_LIMITS[0]), HEARTBEAT_LIMITS[1])


def has(name: str, value: str) -> Test:
    """Whether labels have that feature label."""
    return lambda labels: labels.get(F + name) == value


def per_node(cost: Cost, count: int) -> str:
    spent = cost.spent
    parts = {"master": spent.master, "API server": spent.api, "etcd": spent.etcd, "fleet": spent.fleet}
    return "ms CPU each: " + ", ".join(f"{name} {value / count * 1e3:.2f}" for name, value in parts.items() if value)
