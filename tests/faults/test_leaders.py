"""Several masters: one writes, the others say where it is; what an old leader knows or has begun does no harm."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count
from typing import Any

import grpc
import pytest

from nfd.errors import ReportError, Unavailable
from nfd.kube.client import connect
from nfd.kube.leader_election import Timing
from nfd.master.leadership import Phase
from nfd.master.service import Service
from nfd.store.base import Patch
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.e2e.nodes import Node
from tests.faults.conftest import NAMESPACE, QUICK, STEADY, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import answer, cut_after, hang, lose
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, until
from tests.rpc import nfd016

F = "feature.node.kubernetes.io/"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_numbers = count(1)


@pytest.fixture
def lease(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a Lease of this test's own."""
    name = f"lease-{next(_numbers)}"
    yield name
    with suppress(ApiError):
        control_plane.request("DELETE", f"{LEASES}/{name}")


def spec(plane: ControlPlane, lease: str) -> dict[str, Any]:
    found: dict[str, Any] = plane.request("GET", f"{LEASES}/{lease}")["spec"]
    return found


async def pair(masters: FaultMasters, proxy: FaultProxy, other: FaultProxy, lease: str) -> tuple[Service, Service]:
    """The leader, behind the first proxy, and a follower that knows it."""
    leader = await masters.start(proxy, lease)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    follower = await masters.start(other, lease)
    assert follower.leadership.phase is Phase.FOLLOWER
    return leader, follower


async def test_all_are_ready_and_workers_find_the_leader(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str
) -> None:
    leader, follower = await pair(masters, proxy, masters.proxy(), lease)
    assert (leader.leadership.reason_not_ready, follower.leadership.reason_not_ready) == ("", "")
    name = make()
    await send(follower, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}
    assert (leader.metrics["reports"], follower.metrics["reports"]) == (1, 0)
    holder = spec(place.plane, lease)["holderIdentity"].split("/")
    assert (holder[1], len(holder)) == (f"127.0.0.1:{leader.port}", 3)


async def test_an_old_peer_is_served_by_any_of_them(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str
) -> None:
    leader, follower = await pair(masters, proxy, masters.proxy(), lease)
    name = make()
    request = nfd016.v016()(node_name=name, labels={"cpu-a": "1"}).SerializeToString()
    await asyncio.to_thread(nfd016.set_labels, follower.port, request)
    assert labels_of(place, name) == {F + "cpu-a": "1"}
    assert leader.metrics["reports"] == 1


async def test_without_a_leader_workers_wait(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, lease: str
) -> None:
    """NFD's own master holds the lease, under a name that tells no address."""
    body = {"holderIdentity": "some-node_0b8b", "leaseDurationSeconds": 60, "renewTime": "2000-01-01T00:00:00.000000Z"}
    control_plane.request("POST", LEASES, {"metadata": {"name": lease}, "spec": body})
    master = await masters.start(proxy, lease)
    assert (master.leadership.phase, master.leadership.reason_not_ready) == (Phase.FOLLOWER, "")
    with pytest.raises(ReportError, match="no master leads") as caught:
        await send(master, Worker("some-node").report({}))
    assert (caught.value.code, caught.value.retry) == ("UNAVAILABLE", True)
    assert 1 <= (caught.value.retry_after or 0) <= 3
    assert spec(control_plane, lease)["holderIdentity"] == "some-node_0b8b"


async def test_sigterm_hands_over_at_once(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str
) -> None:
    """Long before the lease would be over."""
    masters.timing = STEADY
    leader, follower = await pair(masters, proxy, masters.proxy(), lease)
    name = make()
    await send(leader, Worker(name).report({F + "cpu-a": "1"}))
    await leader.stop()
    assert leader.leadership.phase is Phase.DRAINING
    assert spec(place.plane, lease)["holderIdentity"] == ""
    await until(lambda: follower.leadership.phase is Phase.LEADING, STEADY.duration - 5)
    await send(follower, Worker(name, started=2).report({F + "cpu-a": "2"}))
    assert labels_of(place, name) == {F + "cpu-a": "2"}


async def test_release_after_a_renewal_whose_answer_was_lost(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, lease: str
) -> None:
    leader = await masters.start(proxy, lease)
    with proxy.inject(cut_after, method="PUT", path=LEASES, times=1) as rule:
        await until(lambda: rule.hits == 1)
        await leader.stop()
    assert spec(control_plane, lease)["holderIdentity"] == ""


async def test_what_a_deposed_leader_knows_is_forgotten(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str
) -> None:
    """The old leader loses its network, another one takes newer reports; when it is back, nothing of the old comes."""
    old, new = await pair(masters, proxy, masters.proxy(), lease)
    name = make()
    node, worker = Node(place.plane, name), Worker(name)
    await send(old, worker.report({F + "cpu-a": "old"}))
    version = node.version
    proxy.freeze()
    await until(lambda: old.leadership.phase is Phase.FOLLOWER, QUICK.renew + 1)
    assert new.leadership.phase is Phase.FOLLOWER, "the old one stops before anybody else begins"
    await until(lambda: new.leadership.phase is Phase.LEADING, 2 * QUICK.duration)
    assert old._handler.reports.names() == []
    await send(new, worker.report({F + "cpu-a": "new", F + "cpu-b": "new"}))
    proxy.thaw()
    await until(lambda: old._store.get(name).labels.get(F + "cpu-b") == "new")  # type: ignore[union-attr]
    await new.stop()
    await until(lambda: old.leadership.phase is Phase.LEADING)
    await old.queue.idle()
    assert node.states(version) == [{F + "cpu-a": "new", F + "cpu-b": "new"}]
    place.edit(name, {"metadata": {"labels": {"foo": "bar"}}})
    await until(lambda: old._store.get(name).labels.get("foo") == "bar")  # type: ignore[union-attr]
    await old.queue.idle()
    assert labels_of(place, name) == {F + "cpu-a": "new", F + "cpu-b": "new", "foo": "bar"}


async def test_a_report_that_a_deposed_leader_could_not_write_is_not_answered(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str
) -> None:
    masters.timing = Timing(duration=12.0, renew=2.5, retry=0.3)  # a write may take longer than it is led
    leader = await masters.start(proxy, lease)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    name = make()
    await until(lambda: name in leader._store.names())
    with proxy.inject(lose, method="PATCH") as writes:
        report = asyncio.create_task(send(leader, Worker(name).report({F + "cpu-a": "1"})))
        await until(lambda: writes.hits > 0)
        with proxy.inject(hang, method="PUT"), pytest.raises(ReportError, match="no master leads"):
            await report
        assert writes.hits == 1
    assert labels_of(place, name) == {}


async def test_leases_go_by_our_own_clock(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, lease: str
) -> None:
    """A renewal that was long ago, by the holder's clock, is no reason to take the lease at once, only later."""
    body = {"holderIdentity": "a/1.2.3.4:1/b", "leaseDurationSeconds": 2, "renewTime": "2000-01-01T00:00:00.000000Z"}
    control_plane.request("POST", LEASES, {"metadata": {"name": lease}, "spec": body})
    master = await masters.start(proxy, lease)
    await until(lambda: master.leadership.phase is Phase.LEADING)
    first_read, taken = (
        min(one.at for one in proxy.seen if one.method == method and lease in one.path) for method in ("GET", "PUT")
    )
    assert taken - first_read >= 2
    assert spec(control_plane, lease)["leaseTransitions"] == 1


@pytest.mark.parametrize(
    "fault", [answer(409), answer(500), answer(429, retry_after=1), cut_after], ids=["409", "500", "429", "cut"]
)
async def test_a_leader_gets_over_some_failures(
    fault: Any, masters: FaultMasters, proxy: FaultProxy, lease: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    leader = await masters.start(proxy, lease)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    with proxy.inject(fault, method="PUT", path=LEASES, times=2) as rule:
        await until(lambda: rule.hits == 2)
    seen = proxy.count("PUT", LEASES)
    await until(lambda: proxy.count("PUT", LEASES) >= seen + 2)
    assert leader.leadership.phase is Phase.LEADING
    assert "no longer leading" not in caplog.messages
    assert caplog.messages.count("cannot renew lease; trying again") <= 1


async def test_a_lease_that_somebody_took_or_deleted(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, lease: str
) -> None:
    leader = await masters.start(proxy, lease)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    patch = {"spec": {"holderIdentity": "x/1.2.3.4:5/y", "leaseDurationSeconds": 60}}
    control_plane.request("PATCH", f"{LEASES}/{lease}", patch)
    await until(lambda: leader.leadership.phase is Phase.FOLLOWER)
    with pytest.raises(ReportError) as caught:
        leader.leadership.require()
    assert (caught.value.code, caught.value.leader) == ("FAILED_PRECONDITION", "1.2.3.4:5")
    control_plane.request("DELETE", f"{LEASES}/{lease}")
    await until(lambda: leader.leadership.phase is Phase.LEADING)


class Gate:
    """A Fence that the test opens and closes."""

    seconds = 4.0
    open = True

    def check(self) -> None:
        if not self.open:
            raise Unavailable("closed")


async def test_what_waits_for_its_connection_is_not_sent_once_we_lead_no_more(
    proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """The check before a write is no use if the write then waits; so there is another right before its first byte."""
    name, may_go = make(), asyncio.Event()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await may_go.wait()
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", place.plane.ports.api)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with closing(sink), suppress(ConnectionError, ssl.SSLError):
                while data := await source.read(65536):
                    sink.write(data)

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        client = await connect(str(proxy.kubeconfig()))
        client._configuration.host = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        client.fence = gate = Gate()
        store, mark = KubeStore(client), place.plane.mark()
        write = asyncio.create_task(store.patch(name, Patch({"metadata": {"labels": {"late": "1"}}})))
        await asyncio.sleep(0.2)
        gate.open = False
        may_go.set()
        with pytest.raises(Unavailable):
            await write
        assert place.plane.writes(mark) == []
        gate.open = True
        await store.patch(name, Patch({"metadata": {"labels": {"late": "1"}}}))
        assert ["timeout=4000ms" in event.path for event in place.plane.writes(mark)] == [True]
        await store.close()


async def test_hints_that_lead_in_a_circle_end(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, lease: str
) -> None:
    """Our worker tries again later, and an old peer's call is not passed on twice."""
    master = await masters.start(proxy, lease)
    patch = {"spec": {"holderIdentity": f"x/127.0.0.1:{master.port}/y", "leaseDurationSeconds": 60}}
    control_plane.request("PATCH", f"{LEASES}/{lease}", patch)
    await until(lambda: master.leadership.phase is Phase.FOLLOWER)
    with pytest.raises(ReportError) as caught:
        await send(master, Worker("some-node").report({}))
    assert (caught.value.code, caught.value.retry) == ("FAILED_PRECONDITION", True)
    asked = master.metrics["reports_refused"]
    request = nfd016.v016()(node_name="some-node").SerializeToString()
    with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        await asyncio.to_thread(nfd016.set_labels, master.port, request)
    assert master.metrics["reports_refused"] == asked + 2
