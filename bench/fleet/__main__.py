"""`python -m bench fleet [--nodes N] [--only SCENARIO,…]`: a fleet of simulated workers against one real master."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.fleet import scenarios
from bench.fleet.cluster import NAMESPACE
from bench.fleet.gauges import resident
from bench.fleet.lost import lost
from bench.fleet.new_leader import crashed, killed, rolled
from bench.fleet.peer import compare
from bench.fleet.replicas import idle_replicas
from bench.fleet.run import Run, setting

STAGES = (100, 1000, 5000, 15000)
OTHER_MASTERS = {
    "restart": scenarios.restart,
    "leaders": scenarios.hand_over,
    "lost": lost,
    "killed": killed,
    "rolled": rolled,
    "crashed": crashed,
    "replicas": idle_replicas,
}
ALL = ("idle", "change", "tenth", "rules", *OTHER_MASTERS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench fleet", description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--only", default=",".join(ALL), help=f"of {', '.join(ALL)}; the cold start is always there")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of the time in which nothing changes")
    parser.add_argument(
        "--node-conditions", action="store_true", help="measure that time once more, by a master with node conditions"
    )
    parser.add_argument("--at-once", type=int, default=100, help="workers that speak at the same time")
    parser.add_argument("--processes", type=int, default=2, help="processes that speak for them")
    parser.add_argument(
        "--apart",
        action="store_true",
        help="API server and etcd have one half of the cores, everything else the other: a master's machine is another",
    )
    parser.add_argument(
        "--peer", type=Path, help="NFD's nfd-master: measure it after ours on the same fleet, and nothing else"
    )
    given = parser.parse_args()
    if given.peer:
        asyncio.run(compare(given.peer, given.nodes, given.at_once, given.processes, ca_of, apart=given.apart))
    else:
        asyncio.run(fleet(given))


async def fleet(given: argparse.Namespace) -> None:
    async with setting(given.processes, apart=given.apart) as run:
        try:
            await measure(run, given)
        finally:
            run.table.show()


async def measure(run: Run, given: argparse.Namespace) -> None:
    rate = least = 0.0
    for stage in [stage for stage in STAGES if stage < given.nodes] + [given.nodes]:
        fresh = await run.grow(stage)
        if not run.masters:
            await run.start_master()
            run.table.add(f"master memory, {run.nodes} nodes known", f"{resident(run.master.pid):.0f} MiB")
            await run.crew.start(ca_of(run), run.tokens)
        rate = await scenarios.bare_loop(run, fresh)
        least = await scenarios.least_master(run, fresh, given.at_once)
        await scenarios.cold_start(run, fresh, given.at_once, rate, least)
    only = given.only.split(",")
    if "idle" in only:
        await scenarios.nothing_changes(run, given.seconds)
        await scenarios.beat_bytes(run)
    if given.node_conditions:
        await scenarios.node_conditions(run, given.at_once, given.seconds)
    if "change" in only:
        taken = sorted([await scenarios.some_change_on_one(run) for _ in range(50)])
        run.table.add(
            "one change, report to label: p50, p99", f"{taken[25] * 1e3:.0f}, {taken[-1] * 1e3:.0f} ms", "150 ms, 1 s"
        )
    if "tenth" in only:
        await scenarios.some_change(run, range(max(run.nodes // 10, 1)), given.at_once, rate)
    if "rules" in only:
        await scenarios.rule_change(run, rate)
    for name, scenario in OTHER_MASTERS.items():
        if name in only:
            await scenario(run, given.at_once)


def ca_of(run: Run) -> Path:
    """The CA of the master's making, as workers mount it, and that of the least master."""
    path = run.folder / "ca.crt"
    found = run.plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/nfd-master-ca")
    path.write_text(found["data"]["ca.crt"] + run.least.ca)
    return path


if __name__ == "__main__":
    main()
