"""A leader without reports asks all workers for one, through the ConfigMap that they mount."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nfd.kube.client import connect
from nfd.master.reports.request_reports import EpochWriter
from nfd.master.security.authority import Lifetimes
from nfd.master.security.certificates import BUNDLE, Certificates
from nfd.master.service import Service
from nfd.report_request import ENTRY, Epoch, parse
from tests.controlplane.api import ApiError
from tests.faults.conftest import NAMESPACE, STEADY, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_forwarding import MAPS
from tests.faults.test_forwarding import unique as unique
from tests.faults.trouble import answer, cut_after
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, until
from tests.worker.process import make_machine, worker

F = "feature.node.kubernetes.io/"
SOON = 0.5
"""Seconds until a leader looks a second time."""


@dataclass
class Leaders:
    """Masters, one after the other, with one ConfigMap."""

    masters: FaultMasters
    proxy: FaultProxy
    place: Cluster
    make: Made
    name: str

    async def start(self, lease: str = "", second_look: float = SOON, **options: Any) -> Service:
        client = await connect(str(self.proxy.kubeconfig()))
        self.masters.stack.push_async_callback(client.close)
        epoch = EpochWriter(client, NAMESPACE, self.name, second_look)
        service = await self.masters.start(self.proxy, lease, epoch=epoch, **options)
        await until(service._leads.is_set)
        return service

    async def fleet(self, count: int) -> list[Worker]:
        """Workers that have reported to a master, which is gone."""
        first, workers = await self.start(), [Worker(self.make()) for _ in range(count)]
        for one in workers:
            await send(first, one.report({F + "cpu-a": "1"}))
        await first.stop()
        return workers

    def data(self) -> dict[str, str]:
        return dict(self.place.plane.request("GET", f"{MAPS}/{self.name}").get("data") or {})

    def epoch(self) -> Epoch | None:
        return parse(self.data().get(ENTRY, ""))

    def writes(self, mark: Any) -> int:
        return sum(
            one.verb == "update" and one.resource == "configmaps" and one.code == 200
            for one in self.place.plane.audit(mark)
        )


@pytest.fixture
def leaders(masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, unique: str) -> Leaders:
    return Leaders(masters, proxy, place, make, unique)


async def looked_twice(service: Service) -> None:
    await until(lambda: all(task.done() for task in service._tasks if task.get_name() == "epoch"))


async def test_a_leader_without_reports_asks_once(leaders: Leaders) -> None:
    """For nodes whose worker has reported before; the next leader without reports asks again. No Node is written."""
    await leaders.fleet(3)
    assert leaders.epoch() is None, "nobody had reported before the first one"
    leaders.place.plane.request("PATCH", f"{MAPS}/{leaders.name}", {"data": {"other": "stays"}})
    mark, seen = leaders.place.plane.mark(), set()
    for _ in range(2):
        service = await leaders.start()
        await looked_twice(service)
        assert service.metrics["report_requests"] == 1
        await service.stop()
        seen.add(leaders.epoch())
    assert len(seen - {None}) == 2
    assert leaders.writes(mark) == 2
    assert leaders.data()["other"] == "stays"
    assert not [one for one in leaders.place.plane.writes(mark) if one.resource == "nodes"]


@pytest.mark.parametrize("share", [10, 8])
async def test_who_knows_enough_does_not_ask(leaders: Leaders, share: int) -> None:
    """Of ten nodes one may be unknown, and two may not; those without a worker do not count."""
    workers = await leaders.fleet(10)
    for _ in range(5):
        leaders.make()
    service = await leaders.start(second_look=3)
    await until(lambda: leaders.epoch() is not None)  # at its start it knows nothing
    before = leaders.epoch()
    for one in workers[:share]:
        await send(service, one.report({F + "cpu-a": "1"}))
    nodes, unknown = await service._count_unknown()
    assert (nodes, unknown) == (10, 10 - share)
    again = EpochWriter(service._options.epoch._client, NAMESPACE, leaders.name, 0)  # type: ignore[union-attr]
    assert await again.ask_if_needed(service._count_unknown, lambda: True) is (share == 8)
    assert (leaders.epoch() == before) is (share == 10)


async def test_copied_reports_that_are_outdated_count_as_unknown(leaders: Leaders, tmp_path: Path) -> None:
    """They are found to be so in the first passes, so a leader looks twice."""
    snapshot = tmp_path / "reports"
    first = await leaders.start(snapshot=snapshot)
    workers = [Worker(leaders.make()) for _ in range(2)]
    for one in workers:
        await send(first, one.report({F + "cpu-a": "1"}))
    await until(lambda: snapshot.exists() and all(one.node.encode() in snapshot.read_bytes() for one in workers))
    await first.stop()
    old = snapshot.read_bytes()
    second = await leaders.start(snapshot=snapshot)
    await looked_twice(second)
    assert leaders.epoch() is None, "everything was known"
    for one in workers:
        await send(second, one.report({F + "cpu-b": "2"}))
    await second.stop()
    snapshot.write_bytes(old)
    third = await leaders.start(snapshot=snapshot)
    await until(lambda: leaders.epoch() is not None)
    assert third._gauges()["reports_known"] == 0
    assert {**labels_of(leaders.place, workers[0].node)} == {F + "cpu-b": "2"}


async def test_a_follower_does_not_ask(leaders: Leaders) -> None:
    """The leader does, once, however often a follower starts."""
    leaders.masters.timing = STEADY
    await leaders.fleet(2)
    leader = await leaders.start(lease=leaders.name)
    await until(lambda: leaders.epoch() is not None)
    await looked_twice(leader)
    before, mark = leaders.epoch(), leaders.place.plane.mark()
    client = await connect(str(leaders.proxy.kubeconfig()))
    leaders.masters.stack.push_async_callback(client.close)
    epoch = EpochWriter(client, NAMESPACE, leaders.name, SOON)
    follower = await leaders.masters.start(leaders.proxy, leaders.name, epoch=epoch)
    await asyncio.sleep(2 * SOON)
    assert (leaders.epoch(), leaders.writes(mark)) == (before, 0)
    await leader.stop()
    await until(lambda: leaders.epoch() != before)
    await until(lambda: follower.metrics["report_requests"] == 1)


@pytest.mark.parametrize("status", [403, 404, 503])
async def test_a_map_that_cannot_be_written_stops_nothing(
    leaders: Leaders, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged once. Reports are taken meanwhile, and the epoch is written when it can be, if it is still needed."""
    workers, path = await leaders.fleet(2), f"{MAPS}/{leaders.name}"
    with leaders.proxy.inject(answer(status), method="PUT", path=path) as rule:
        service = await leaders.start()
        await until(lambda: rule.hits >= 2)
        assert service.metrics["report_requests"] == 0
        await send(service, workers[0].report({F + "cpu-a": "2"}))
        assert labels_of(leaders.place, workers[0].node) == {F + "cpu-a": "2"}
    await until(lambda: service.metrics["report_requests"] == 1)
    assert leaders.epoch() is not None
    assert caplog.messages.count("cannot ask workers to report; they do so at their next heartbeat") == 1


@pytest.mark.parametrize("fault", [cut_after, answer(409)])
async def test_one_epoch_whatever_happens_to_the_request(leaders: Leaders, fault: Any) -> None:
    """A write that seemed to fail is not repeated; one that lost a race is."""
    await leaders.fleet(2)
    mark = leaders.place.plane.mark()
    with leaders.proxy.inject(fault, method="PUT", path=f"{MAPS}/{leaders.name}", times=1) as rule:
        service = await leaders.start()
        await until(lambda: service.metrics["report_requests"] == 1)
        assert rule.hits == 1
    assert leaders.writes(mark) == 1


async def test_without_the_map_heartbeats_bring_the_reports(leaders: Leaders) -> None:
    workers = await leaders.fleet(2)
    leaders.place.plane.request("DELETE", f"{MAPS}/{leaders.name}")
    service = await leaders.start()
    for one in workers:
        await send(service, one.report({F + "cpu-a": "1"}))
    await looked_twice(service)
    assert service.metrics["report_requests"] == 0
    with pytest.raises(ApiError):
        leaders.data()


async def test_certificates_and_epoch_share_the_map(leaders: Leaders) -> None:
    """A rotation keeps the epoch, and the epoch the certificates."""
    await leaders.fleet(1)
    client = await connect(str(leaders.proxy.kubeconfig()))
    leaders.masters.stack.push_async_callback(client.close)
    first = Certificates(client, NAMESPACE, leaders.name, ("localhost",))
    await first.advance()
    bundle = leaders.data()[BUNDLE]
    await leaders.start()
    await until(lambda: leaders.epoch() is not None)
    before = leaders.epoch()
    assert leaders.data()[BUNDLE] == bundle
    later = Certificates(
        client, NAMESPACE, leaders.name, ("localhost",), now=lambda: time.time() + Lifetimes().rotate + 1
    )
    await later.advance()
    assert leaders.data()[BUNDLE] != bundle
    assert leaders.epoch() == before


async def test_a_worker_that_sees_the_epoch_brings_its_features(leaders: Leaders, tmp_path: Path) -> None:
    """A real worker whose next heartbeat is a minute away: its features are known soon, and no label changes."""
    node, mount = leaders.make(), tmp_path / "mount"
    mount.mkdir()
    machine = make_machine(tmp_path / "machine")
    boot = machine / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("boot-1\n")
    first = await leaders.start()
    flags = (f"--host-root={machine}", "-port=0", "--config=", f"--epoch-file={mount / ENTRY}")
    async with worker(*flags, f"--server=localhost:{first.port}", node=node):
        await until(lambda: labels_of(leaders.place, node) != {})
        labels = labels_of(leaders.place, node)
        version = leaders.place.get(node)["metadata"]["resourceVersion"]
        await first.stop()
        second = await leaders.start(port=first.port)
        await until(lambda: leaders.epoch() is not None)
        assert second._gauges()["reports_known"] == 0
        (mount / ENTRY).write_text(leaders.data()[ENTRY])  # as the kubelet does
        await until(lambda: second._gauges()["reports_known"] == 1)
        found = second.latest_report(node)
        assert found is not None
        assert found.report.order is not None
        assert found.report.order.sequence == 2
    assert labels_of(leaders.place, node) == labels
    assert leaders.place.get(node)["metadata"]["resourceVersion"] == version
