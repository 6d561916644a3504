"""The limit: a bare loop that sends the very PATCHes of a master, planned beforehand, and does nothing else."""

from __future__ import annotations

import json
from typing import Any

from bench.fleet.cluster import MERGE, Link, each
from bench.fleet.machines import Worker, node_name
from nfd.kube.client import METADATA_ONLY
from nfd.kube.paths import NODES, object_path
from nfd.master.node.desired import derive_desired
from nfd.master.node.patch import patches
from nfd.master.node.plan import Goal, plan_node
from nfd.rpc import convert
from nfd.rules.policy import Policy
from nfd.store.base import FIELD_MANAGER, trim
from tests.controlplane.cluster import ControlPlane

PARALLEL = 10
"""As the master's default (nfdApiParallelism)."""


async def plan(plane: ControlPlane, numbers: range) -> dict[int, bytes]:
    """The body of the PATCH of each node."""
    link, bodies = Link(plane, PARALLEL), dict[int, bytes]()

    async def one(number: int) -> None:
        node = trim(json.loads(await link.send("GET", object_path(NODES, node_name(number)))))
        report = convert.decode(Worker(number).speak().request).report
        (patch,) = patches(plan_node(Goal(derive_desired(report, Policy())), node))
        bodies[number] = json.dumps(patch.body, separators=(",", ":")).encode()

    await each(numbers, PARALLEL, one)
    await link.close()
    return bodies


async def send(plane: ControlPlane, bodies: dict[int, bytes]) -> None:
    link = Link(plane, PARALLEL)

    await each(bodies, PARALLEL, lambda number: write(link, node_name(number), bodies[number]))
    await link.close()


async def write(link: Link, node: str, body: bytes) -> None:
    path = f"{object_path(NODES, node)}?fieldManager={FIELD_MANAGER}&timeout=10000ms"
    await link.send("PATCH", path, body, MERGE, Accept=METADATA_ONLY)


async def undo(plane: ControlPlane, bodies: dict[int, bytes]) -> None:
    """Take it all away again."""
    empty: dict[int, bytes] = {}
    for number, body in bodies.items():
        written: dict[str, Any] = json.loads(body)["metadata"]
        gone = {part: dict.fromkeys(written[part]) for part in ("labels", "annotations")}
        empty[number] = json.dumps({"metadata": gone}).encode()
    await send(plane, empty)
