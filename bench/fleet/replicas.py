"""Two masters that share their reports, and what that adds to the cost while nothing changes."""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path

from bench.fleet.cluster import NAMESPACE
from bench.fleet.gauges import cpu_seconds
from bench.fleet.machines import node_name
from bench.fleet.run import Run
from bench.fleet.scenarios import beat
from nfd.master.security.authentication import MASTERS_AUDIENCE
from tests.e2e.programs import Program

REPLICATED = 60.0
ROUNDS = 5
MEASURED = 20.0
"""Seconds of each round."""


async def start_replicas(run: Run, at_once: int) -> tuple[Program, Program]:
    """The leader, which has all reports of the workers, and the follower, which has copied them."""
    run.stop_masters()
    first, second = [await start_replica(run, number) for number in range(2)]
    leader = await run.until_leads(first, second)
    follower = first if leader is second else second
    run.masters = [leader, follower]
    await run.crew.report(range(run.nodes), run.target, at_once)
    await run.until(lambda: unreplicated(leader, run.nodes), REPLICATED)
    return leader, follower


def unreplicated(leader: Program, nodes: int) -> str:
    replicated = leader.metric("nfd_master_reports_replicated")
    return "" if replicated >= nodes else f"the follower has {replicated:.0f} of {nodes} reports"


async def start_replica(run: Run, number: int) -> Program:
    path = Path(run.folder, f"replication-{number}")
    token = await asyncio.to_thread(
        lambda: run.plane.service_account_token(
            "nfd-master", NAMESPACE, audience=MASTERS_AUDIENCE, node=node_name(number)
        )
    )
    path.write_text(token)
    flags = ("--enable-leader-election", f"--replication-token-file={path}")
    return await run.start_master(*flags)


async def idle_replicas(run: Run, at_once: int) -> None:
    """Heartbeats only, by turns without a follower and with one: CPU of the leader, and of the follower."""
    leader, follower = await start_replicas(run, at_once)
    rounds: list[tuple[float, float, float]] = []
    for _ in range(ROUNDS):
        await asyncio.to_thread(follower.stop)
        (alone,) = await idle_shares(run, leader)
        follower.start()
        await run.until_ready(follower)
        await run.until(lambda: unreplicated(leader, run.nodes), REPLICATED)
        leading, following = await idle_shares(run, leader, follower)
        rounds.append((alone, leading, following))
    alone, leading, following = map(statistics.median, zip(*rounds, strict=True))
    run.table.add(
        f"nothing changes, {run.nodes} nodes: leader without and with a follower, of a core",
        f"{alone:.1%}, {leading:.1%}",
        "",
        f"the follower {following:.1%}; medians of {ROUNDS} times {MEASURED:.0f} s",
    )


async def idle_shares(run: Run, *masters: Program) -> list[float]:
    """The share of a core that each of them uses while workers send heartbeats at the fleet's pace."""
    began, before = time.monotonic(), [cpu_seconds([one.pid]) for one in masters]
    await beat(run, MEASURED)
    seconds = time.monotonic() - began
    return [(cpu_seconds([one.pid]) - spent) / seconds for one, spent in zip(masters, before, strict=True)]
