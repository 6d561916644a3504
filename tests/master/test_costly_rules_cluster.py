"""Rules that mean harm on a real API server, while probes and reports go on; `bench.hostile_rules` has the figures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import pytest

from nfd.features import Features
from nfd.master.service import Service
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import PCI, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, until
from tests.master.test_costly_rules import COSTLY, OPTIONS, SLOW, steady

F = "feature.node.kubernetes.io/"
NODES = 12
PATIENCE = 5.0
"""Seconds for a probe or a report: a hundred times what they take, and a tenth of what the rules would take at once."""
HERE = Features(
    {"a.b": frozenset("x")},
    {**PCI.attributes, "kernel.config": OPTIONS, "a.b": {"text": "01234567" * 90}},
    PCI.instances,
)


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
async def masters(control_plane: ControlPlane) -> AsyncIterator[RuleMasters]:
    found = RuleMasters(control_plane)
    async with found.stack:
        yield found


async def probe(master: Service, times: list[float]) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            began = time.monotonic()
            async with session.get(f"http://127.0.0.1:{master.http_port}/healthz") as answer:
                assert answer.status == 200
            times.append(time.monotonic() - began)
            await asyncio.sleep(0.1)


async def report(master: Service, workers: list[Worker], times: list[float]) -> None:
    while True:
        for worker in workers:
            began = time.monotonic()
            await send(master, worker.report({F + "cpu-a": str(worker.sequence)}, features=HERE))
            times.append(time.monotonic() - began)
            await asyncio.sleep(0.05)


async def test_probes_and_reports_have_their_turn(
    place: Cluster, masters: RuleMasters, kinds: Kinds, node_name: str
) -> None:
    """All good labels are there in the end, what takes too long is suspended, and nobody has waited for it."""
    workers = [Worker(f"{node_name}-{number}") for number in range(NODES)]
    for worker in workers:
        place.create(worker.node, {}, {}, BOOT)
    kinds.rules("given", rule(labels={"given": "1"}))
    master = await masters.start()
    for worker in workers:
        await send(master, worker.report({F + "cpu-a": "0"}, features=HERE))
    await until(lambda: all(F + "given" in labels_of(place, worker.node) for worker in workers))
    probes, reports = list[float](), list[float]()
    going = [asyncio.create_task(probe(master, probes)), asyncio.create_task(report(master, workers, reports))]
    kinds.edit_rules("given", rule(labels={"other": "1"}, varsTemplate=SLOW))
    for number, one in enumerate(COSTLY.values()):
        kinds.rules(f"costly-{number}", one)
    kinds.rules("heavy", *steady(300))
    kinds.rules("zz-good", rule(labels={"good": "1"}))
    await until(lambda: all(F + "good" in labels_of(place, worker.node) for worker in workers), 120)

    def suspended(name: str) -> bool:
        found = kinds.status(name).get("rules", [])
        return any("suspended" in problem["message"] for one in found for problem in one.get("problems", ()))

    await until(lambda: all(map(suspended, ("heavy", "given"))), 120)
    for task in going:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
    assert max(probes) < PATIENCE
    assert max(reports) < PATIENCE
    for worker in workers:
        found = labels_of(place, worker.node)
        assert found.keys() >= {F + "given", F + "good", F + "cpu-a"}
        assert F + "other" not in found
        place.delete(worker.node)
