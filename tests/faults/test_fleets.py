"""Restarts, upgrades and Nodes that come and go, with a leader and a follower on the real API server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from nfd.errors import ReportError
from nfd.features import Features
from nfd.master.leadership import Phase
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.service import Options, Service
from nfd.report import Report, SourceState, State
from nfd.rules.policy import Policy
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import STEADY, FaultMasters, Made, remembered
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import late
from tests.master.conftest import BOOT, Worker, send
from tests.master.places import Cluster, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
WANTED = {F + "cpu-a": "1", F + "pci-b": "1", "mine": "1"}
SHOWN = {F + "cpu-a": "1", F + "pci-b": "1", F + "mine": "1"}
LEASE = "fleet"


def changes(plane: ControlPlane, version: str, seconds: int = 1) -> list[dict[str, Any]]:
    """Every change of any Node since that resourceVersion."""
    query = f"watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
    return [json.loads(line) for line in plane.text("GET", f"/api/v1/nodes?{query}").splitlines()]


def version(plane: ControlPlane) -> str:
    return str(plane.request("GET", "/api/v1/nodes?limit=1")["metadata"]["resourceVersion"])


async def leading(masters: FaultMasters, proxy: FaultProxy) -> Service:
    masters.timing = STEADY
    master = await masters.start(proxy, LEASE)
    await until(lambda: master.leadership.phase is Phase.LEADING)
    return master


async def deliver(masters: list[Service], report: Report) -> None:
    """As a worker does: again, when the leader has just gone that it was sent to."""
    async with asyncio.timeout(10):
        while True:
            try:
                await send(masters[-1], report)
                return
            except ReportError as error:
                if not error.retry:
                    raise
            await asyncio.sleep(0.1)


async def test_rolling_upgrade_of_fifty_nodes_writes_nothing(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """Masters one by one, then workers two at a time; then the other way round."""
    names = [make() for _ in range(50)]
    features = Features(attributes={"kernel.version": {"full": "6.1"}})
    workers = {name: Worker(name) for name in names}
    running = [await leading(masters, proxy), await masters.start(proxy, LEASE)]

    async def report(name: str) -> None:
        await deliver(running, workers[name].report(WANTED, features=features))

    async def roll_workers() -> None:
        for first, second in zip(names[::2], names[1::2], strict=True):
            for name in (first, second):
                workers[name] = Worker(name, started=workers[name].started + 1)
            await asyncio.gather(report(first), report(second))

    async def roll_masters() -> None:
        for _ in range(2):
            running.append(await masters.start(proxy, LEASE))
            await running.pop(0).stop()
            await until(lambda: any(one.leadership.phase is Phase.LEADING for one in running))

    await roll_workers()
    assert [labels_of(place, name) for name in names] == [SHOWN] * 50
    since, mark = version(place.plane), place.plane.mark()
    await roll_masters()
    await roll_workers()
    await roll_workers()
    await roll_masters()
    for master in running:
        await master.queue.idle()
    assert changes(place.plane, since) == []
    assert place.plane.writes(mark) == []


async def test_recreated_node_has_its_labels_within_seconds(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """Also if the master was deaf meanwhile; the other boot id gets nothing of the old."""
    same, other = make(), make()
    master = await leading(masters, proxy)
    for name in (same, other):
        await send(master, Worker(name).report(WANTED))
    proxy.freeze()
    for name, boot in ((same, BOOT), (other, "boot-2")):
        place.delete(name)
        place.create(name, {}, {}, boot)
    proxy.cut_all()
    proxy.thaw()
    await until(lambda: labels_of(place, same) == SHOWN)  # alone well inside 5 s
    await until(lambda: master._store.get(other).boot_id == "boot-2")  # type: ignore[union-attr]
    await master.queue.idle()
    assert labels_of(place, other) == {}
    with pytest.raises(ReportError, match="Node has boot id boot-2"):
        await send(master, Worker(other, started=9).report(WANTED))
    assert labels_of(place, other) == {}
    await send(master, Worker(other, boot_id="boot-2").report(WANTED))
    assert labels_of(place, other) == SHOWN


async def test_deleted_nodes_leave_nothing_behind(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    names = [make() for _ in range(5)]
    master = await leading(masters, proxy)
    for name in names:
        await send(master, Worker(name).report(WANTED, features=Features(flags={"cpu.cpuid": frozenset({name})})))
        place.delete(name)
    await until(lambda: not set(names) & set(master._store.names()))
    await master.queue.idle()
    reports = master._handler.reports
    assert (reports.waiting, reports.sweep(), reports.waiting) == (5, [], 5)
    master._handler.drop(reports.sweep())
    assert (len(reports), reports.waiting, len(master._heartbeats), len(master._labeler.features)) == (0, 0, 0, 0)
    assert not remembered(master)


async def test_two_workers_claim_a_node(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """The later one wins, whoever speaks last; a machine that only has the same name has another boot id."""
    caplog.set_level("INFO")
    name = make()
    master = await leading(masters, proxy)
    early, late, stranger = Worker(name, started=1), Worker(name, started=2), Worker(name, boot_id="boot-9", started=3)
    await send(master, early.report({F + "cpu-a": "early"}))
    await send(master, late.report({F + "cpu-a": "late"}))
    for worker, reason in ((early, "newer report"), (stranger, "Node has boot id boot-1"), (early, "newer report")):
        with pytest.raises(ReportError, match=reason):
            await send(master, worker.report({F + "cpu-a": "no"}))
    assert labels_of(place, name) == {F + "cpu-a": "late"}
    assert caplog.messages.count("report rejected") == 3
    await master.stop()
    again = await leading(masters, proxy)
    with pytest.raises(ReportError, match="Node has boot id boot-1"):
        await send(again, stranger.report({F + "cpu-a": "no"}))


async def test_attribution_lasts_from_one_master_to_the_next(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """A source that failed, and one that the report does not name at all, hold exactly their own keys."""
    name = make()
    worker = Worker(name)
    known = {F + "cpu-a": "cpu", F + "pci-b": "pci", "mine": "local", "vendor.io/x": "plugin"}
    await send(await leading(masters, proxy), worker.report(dict.fromkeys(known, "1"), origins=known))
    await masters.stack.aclose()
    master = await leading(masters, proxy)
    await send(master, worker.report({}, failed=("pci",)))
    assert labels_of(place, name) == {F + "pci-b": "1", "vendor.io/x": "1"}
    report = worker.report({})
    assert "plugin" not in report.sources
    await send(master, report)
    assert labels_of(place, name) == {"vendor.io/x": "1"}
    final = worker.report({})
    await send(master, replace(final, sources={**final.sources, "plugin": SourceState(State.FRESH)}))
    assert (labels_of(place, name), notes_of(place, name)) == ({}, {})


async def test_an_nfd_worker_after_ours_and_back(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """No label is absent for a moment, and none is stale at the end."""
    name = make()
    master, worker = await leading(masters, proxy), Worker(name)
    await send(master, worker.report({**WANTED, F + "usb-c": "1"}))
    since = version(place.plane)
    await send(master, Report(name, version="v0.16.6", labels={**WANTED, "old": "1"}))
    assert labels_of(place, name) == {**SHOWN, F + "old": "1"}
    await send(master, worker.report(WANTED, failed=("usb",)))
    assert labels_of(place, name) == {**SHOWN, F + "old": "1"}, "nobody knows whose it is, and a source failed"
    await send(master, worker.report(WANTED))
    assert labels_of(place, name) == SHOWN
    seen = [event["object"]["metadata"]["labels"] for event in changes(place.plane, since)]
    assert all(labels.items() >= SHOWN.items() for labels in seen)


async def test_stale_after_is_counted_from_when_we_could_hear(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """Off, silence means nothing; on, only keys of our workers go, and a worker that speaks again has them back."""
    now = [0.0]
    ours, silent, theirs = make(), make(), make({F + "cpu-a": "1"}, {"nfd.node.kubernetes.io/feature-labels": "cpu-a"})
    for stale_after in (0.0, 1000.0):
        first = await masters.start(proxy, stale_after=stale_after, tick=0.05, now=lambda: now[0])
        worker = Worker(ours)
        await send(first, worker.report(WANTED))
        await send(first, Worker(silent).report(WANTED))
        now[0] += 999
        await send(first, worker.report(WANTED))
        await asyncio.sleep(0.2)
        assert labels_of(place, silent) == SHOWN
        now[0] += 2
        if stale_after:
            await until(lambda: labels_of(place, silent) == {})
        await asyncio.sleep(0.2)
        assert labels_of(place, ours) == SHOWN
        assert labels_of(place, silent) == ({} if stale_after else SHOWN)
        assert labels_of(place, theirs) == {F + "cpu-a": "1"}
        if stale_after:
            await send(first, Worker(silent, started=2).report(WANTED))
            assert labels_of(place, silent) == SHOWN
        await first.stop()
    second = await masters.start(proxy, stale_after=1000.0, tick=0.05, now=lambda: now[0])
    await asyncio.sleep(0.2)
    assert labels_of(place, silent) == SHOWN
    await second.stop()


async def test_another_configuration_is_nobodys_drift(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """All nodes follow at once from the reports that are there."""
    name = make()
    master = await masters.start(proxy)
    await send(master, Worker(name).report({**WANTED, "denied.io/y": "1"}))
    assert labels_of(place, name) == SHOWN | {"denied.io/y": "1"}
    proxy.inject(late(0.2), method="PATCH")  # so that each change comes while the last one is still under way
    for denied, shown in (({"denied.io"}, SHOWN), (set(), {**SHOWN, "denied.io/y": "1"})) * 3:
        policy = Policy(deny_label_ns=frozenset(denied))
        await master.reconfigure(Options(settings=ReconcileOptions(policy)))
        await until(lambda shown=shown: labels_of(place, name) == shown)  # type: ignore[misc]
    assert (master.metrics["drift_restored"], master._gauges()["contested_keys"]) == (0, 0)
