"""Memory of a master by its parts alone, without servers: what 100 to 15,000 labelled and reported nodes keep.

    python -m bench.memory [NODES…]

The very objects of a master take in Nodes as the watch tells of them, and reports as they come over the wire, and every
node has a pass. What connections under way need comes on top: `python -m bench fleet` measures the whole process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import tempfile
from pathlib import Path

from bench._table import Table
from bench.fleet import cluster, machines
from bench.fleet.gauges import resident
from nfd.kube.client import connect
from nfd.master.node.desired import derive_desired
from nfd.master.node.patch import patches
from nfd.master.node.plan import Goal, plan_node
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.service import Options, Service
from nfd.report import Report
from nfd.rpc import convert
from nfd.rules.policy import Policy
from nfd.store.base import trim
from nfd.store.file import merge
from nfd.store.kube import KubeStore
from tests.controlplane import objects

STEPS = (100, 1000, 5000, 15000)


class Parts:
    """A master that is never started."""

    def __init__(self, service: Service, store: KubeStore) -> None:
        self.service, self.store = service, store

    async def add(self, number: int) -> None:
        report = self.report(machines.Worker(number).speak())
        self.store._nodes.put(json.loads(json.dumps(labelled(number, report))))
        self.service._handler._take(report)
        await self.service._reconciler.reconcile(report.node)

    def report(self, outgoing: convert.Outgoing) -> Report:
        blobs = self.service._labeler.features
        with blobs.use(convert.decode(outgoing.request)) as missing:
            incoming = convert.decode(outgoing.with_blobs(missing))
        with blobs.use(incoming):
            blobs.hold(incoming.report.node, incoming)
            return convert.complete(incoming.report, blobs.contents(incoming))


def labelled(number: int, report: Report) -> cluster.Json:
    """The Node as it is once it has its labels."""
    item = cluster.node(number)
    item["metadata"] |= {"uid": machines.boot_id(number), "resourceVersion": str(number)}
    (patch,) = patches(plan_node(Goal(derive_desired(report, Policy())), trim(item)))
    return dict(merge(item, patch.body))


async def main(steps: list[int]) -> None:
    table, before, number = Table(), (0, 0.0), 0
    with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
        config = objects.kubeconfig("http://127.0.0.1:1", Path("/none"), "none")
        config["clusters"][0]["cluster"] = {"server": "http://127.0.0.1:1"}
        json.dump(config, file)
        file.flush()
        client = await connect(file.name)
    store = KubeStore(client)
    options = Options(settings=ReconcileOptions())
    service = Service(store, options, lambda metrics: CustomResources(client, ResourceOptions(Joining()), metrics))
    parts = Parts(service, store)
    table.add("a master without nodes", f"{resident(os.getpid()):.0f} MiB")
    for step in steps:
        while number < step:
            await parts.add(number)
            number += 1
        gc.collect()
        size = resident(os.getpid())
        growth = f"{(size - before[1]) * 1024 / (step - before[0]):.1f} KiB a node since the last" if before[0] else ""
        table.add(f"{step} nodes", f"{size:.0f} MiB", "200 MiB" if step == 5000 else "24 KiB a node", growth)
        before = step, size
    await client.close()
    table.show()


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]] or list(STEPS)))
