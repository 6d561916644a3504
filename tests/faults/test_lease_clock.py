"""The Lease itself, by a clock of the test's own: when leadership ends, and who is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count

import pytest
from aiohttp import web

from nfd.errors import Unavailable
from nfd.kube.client import connect
from nfd.kube.leader_election import Lease, Timing
from tests.controlplane.api import ApiError
from tests.faults.conftest import NAMESPACE, QUICK
from tests.faults.proxy import Exchange, FaultProxy, passed_on
from tests.faults.trouble import answer, hang
from tests.master.places import until

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_numbers = count(1)


@dataclass
class FilesInUse:
    """A lease that we hold, the time, and what its owner was told: whether we lead."""

    name: str
    lease: Lease = field(init=False)
    now: float = 1000.0
    told: list[bool] = field(default_factory=list)


@pytest.fixture
async def held(proxy: FaultProxy) -> AsyncIterator[FilesInUse]:
    found = FilesInUse(f"clock-{next(_numbers)}")
    client = await connect(str(proxy.kubeconfig()))
    found.lease = Lease(client, NAMESPACE, found.name, QUICK, lambda: found.now)
    await found.lease.start("a/b:1/c", lambda: found.told.append(found.lease.leading))
    await until(lambda: found.told == [True])
    yield found
    proxy.calm()
    await found.lease.stop(release=False)
    with suppress(ApiError):
        proxy.plane.request("DELETE", f"{LEASES}/{found.name}")


@pytest.mark.parametrize(
    ("duration", "renew", "deadline", "write"),
    [(15, 10, 10, 4), (3, 2, 2, 0.8), (15, 14.9, 13.5, 1.2), (2, 9, 1.8, 0.16)],
)
def test_writes_end_before_the_lease_does(duration: float, renew: float, deadline: float, write: float) -> None:
    timing = Timing(duration, renew, 0.1)
    assert (timing.deadline, timing.write) == (pytest.approx(deadline), pytest.approx(write))
    assert timing.deadline + timing.write < duration


async def test_a_leader_without_api_server_stops_in_time(held: FilesInUse, proxy: FaultProxy) -> None:
    """At the renew deadline it leads no more, one tick before it still does."""
    proxy.inject(hang, path=LEASES)
    held.now += QUICK.deadline - 0.01
    assert held.lease.leading
    held.lease.check()
    held.now += 0.02
    assert not held.lease.leading
    with pytest.raises(Unavailable):
        held.lease.check()


async def test_the_deadline_counts_from_before_the_renewal(held: FilesInUse, proxy: FaultProxy) -> None:
    """What others see of it they may have seen as soon as it was sent."""
    proxy.inject(hang, path=LEASES)
    with proxy.inject(hang, method="PUT", path=LEASES, times=1) as slow:
        held.now += 1
        await until(lambda: slow.hits == 1)
        held.now += 0.9
    held.now += QUICK.renew - 1
    await until(lambda: held.lease.leading)
    held.now += 0.2
    assert not held.lease.leading


async def test_whoever_was_away_for_long_is_told(held: FilesInUse) -> None:
    """Stopped and continued: the lease is ours again before anybody noticed, but others may have had it meanwhile."""
    held.now += 100
    await until(lambda: len(held.told) == 3)
    assert held.told == [True, False, True]


async def test_a_lease_that_is_deleted_is_ours_no_more(held: FilesInUse, proxy: FaultProxy) -> None:
    """Anybody can make a new one."""
    with proxy.inject(answer(500), method="POST", path=LEASES):
        proxy.plane.request("DELETE", f"{LEASES}/{held.name}")
        held.now += 0.5
        await until(lambda: held.told == [True, False])
    held.now += 0.5
    await until(lambda: held.told == [True, False, True])


async def test_a_lease_that_is_said_to_be_missing_is_ours_no_more(held: FilesInUse, proxy: FaultProxy) -> None:
    with proxy.inject(answer(404), method="PUT", path=LEASES, times=1):
        held.now += 0.5
        await until(lambda: held.told == [True, False])
    held.now += 0.5
    await until(lambda: held.told == [True, False, True])


@pytest.mark.parametrize("held_before", [False, True])
async def test_a_lease_that_is_just_being_made_is_given_up(held_before: bool, proxy: FaultProxy) -> None:
    """The end comes while the request by which we take it is under way: its answer tells that it is ours."""
    name = f"clock-{next(_numbers)}"
    path = f"{LEASES}/{name}"
    if held_before:
        proxy.plane.request("POST", LEASES, {"metadata": {"name": name}, "spec": {"holderIdentity": ""}})
    lease = Lease(await connect(str(proxy.kubeconfig())), NAMESPACE, name, QUICK)
    method, landed = "PUT" if held_before else "POST", threading.Event()

    async def slow(exchange: Exchange) -> web.StreamResponse:
        """The server hears of it late, and whether or not anybody waits for the answer."""
        await asyncio.sleep(0.5)
        found = await exchange.fetch()
        landed.set()
        return web.Response(body=await found.read(), status=found.status, headers=passed_on(found))

    with proxy.inject(slow, method=method, path=LEASES, times=1) as taking:
        starting = asyncio.create_task(lease.start("a/b:1/c", lambda: None))
        await until(lambda: taking.hits == 1)
        starting.cancel()
        await lease.stop(release=True)
        assert await asyncio.to_thread(landed.wait, 10)
    assert proxy.plane.request("GET", path)["spec"]["holderIdentity"] == ""
    proxy.plane.request("DELETE", path)
