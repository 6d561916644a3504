"""A table of faults: whatever the API server does, requests stay few, nothing is removed, one line tells of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from nfd.kube.client import TIMEOUT
from nfd.master.rules.resources import ResourceOptions
from nfd.master.service import Service
from tests.e2e.nodes import Node
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import Fault, FaultProxy
from tests.faults.test_fleets import changes, deliver, version
from tests.faults.trouble import answer, cut, cut_after, cut_half, garbage, hang, silence, too_old
from tests.master.conftest import Worker, send
from tests.master.custom_resources import PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
BEFORE = {F + "cpu-a": "1", F + "cpu-b": "1"}
AFTER = {F + "cpu-a": "2", F + "cpu-b": "1"}
HANGS = float(os.environ.get("NFD_TEST_HANG_SECONDS", "3"))
"""How long lists hang; a minute shows it as in the field."""
NODES = r"^/api/v1/nodes\?"

PATCHES = {
    "409": answer(409),
    "429": answer(429, retry_after=1),
    "401": answer(401),
    "500": answer(500),
    "503": answer(503),
    "504": answer(504),
    "cut": cut,
    "cut after it was done": cut_after,
    "half an answer": cut_half,
    "no JSON": garbage,
}
LISTS = {
    "404": answer(404),
    "410 between pages": answer(410),
    "429": answer(429, retry_after=1),
    "403": answer(403),
    "500": answer(500),
    "503": answer(503),
    "cut": cut,
    "half a page": cut_half,
    "no JSON": garbage,
}
WATCHES = {
    "404": answer(404),
    "410 at once": too_old,
    "429": answer(429, retry_after=1),
    "500": answer(500),
    "cut": cut,
    "half a line": cut_half,
    "no JSON": garbage,
}


@pytest.fixture(autouse=True)
def _hear_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")


async def labelled(masters: FaultMasters, proxy: FaultProxy, name: str, **options: float) -> tuple[Service, Worker]:
    """A master with a Node that carries BEFORE."""
    master, worker = await masters.start(proxy, **options), Worker(name)
    await send(master, worker.report(BEFORE))
    return master, worker


async def all_cases(masters: FaultMasters, table: dict[str, Fault], case: Callable[..., Awaitable[None]]) -> None:
    """Run all rows at the same time, each through a proxy of its own; what fails names its row."""

    async def run(row: str, fault: Fault) -> None:
        try:
            await case(fault, masters.proxy())
        except Exception as error:
            error.add_note(f"in case {row!r}")
            raise

    await asyncio.gather(*(run(row, fault) for row, fault in table.items()))


async def test_patches(masters: FaultMasters, place: Cluster, make: Made, caplog: pytest.LogCaptureFixture) -> None:
    """What is lost is written again; what was done already is not done twice."""

    async def case(fault: Fault, proxy: FaultProxy) -> None:
        name = make()
        master, worker = await labelled(masters, proxy, name)
        node, began = Node(place.plane, name), time.monotonic()
        version = node.version
        with proxy.inject(fault, method="PATCH", times=2) as rule:
            await send(master, worker.report(AFTER))
            await until(lambda: labels_of(place, name) == AFTER)
            await until(lambda: len(master.queue) == 0)
            await master.queue.idle()
        assert rule.hits >= 1
        assert await asyncio.to_thread(node.states, version) == [AFTER]
        assert proxy.count("PATCH", since=began) <= 3

    await all_cases(masters, PATCHES, case)
    assert caplog.messages.count("cannot update node; trying again") <= len(PATCHES)


async def test_patches_of_the_status(masters: FaultMasters, place: Cluster, make: Made, kinds: Kinds) -> None:
    """Whatever is wrong with one of them, labels and extended resources of a rule come together."""
    kinds.rules("amounts", rule(labels={"ruled": "1"}, extendedResources={"example.com/ruled": "3"}))

    async def case(fault: Fault, proxy: FaultProxy) -> None:
        name = make()
        master, worker = await masters.start(proxy, custom=ResourceOptions()), Worker(name)
        await send(master, worker.report(BEFORE))
        since = version(place.plane)
        with proxy.inject(fault, method="PATCH", path="/status", times=2) as met:
            await deliver([master], worker.report(BEFORE, features=PCI))
            await until(lambda: labels_of(place, name) == BEFORE | {F + "ruled": "1"})
            await master.queue.idle()
        assert met.hits >= 1
        events = await asyncio.to_thread(changes, place.plane, since)
        states = [one["object"] for one in events if one["object"]["metadata"]["name"] == name]
        assert states
        for state in states:
            amounts = (state.get("status") or {}).get("capacity") or {}
            assert (F + "ruled" in state["metadata"]["labels"]) == ("example.com/ruled" in amounts)

    await all_cases(masters, PATCHES, case)


async def test_retry_after_is_obeyed(masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made) -> None:
    name = make()
    master, worker = await labelled(masters, proxy, name)
    with proxy.inject(answer(429, retry_after=2), method="PATCH", times=1):
        await send(master, worker.report(AFTER))
        await until(lambda: labels_of(place, name) == AFTER)
    first, second = [one.at for one in proxy.seen if one.method == "PATCH"][-2:]
    assert second - first >= 2


async def test_outage_of_writes_is_told_once_and_asked_seldom(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """Twenty nodes, three seconds: no hot loop, one line when it begins and one when it is over."""
    names = [make() for _ in range(20)]
    master = await masters.start(proxy)
    for number in range(9000):
        master._heartbeats.note(f"of-a-large-fleet-{number}")
    assert master._heartbeats.next_heartbeat("another") > 500
    with proxy.inject(answer(503), method="PATCH") as rule:
        calls = [asyncio.create_task(send(master, Worker(name).report(AFTER))) for name in names]
        await asyncio.sleep(3)
    assert rule.hits <= 20 * 7
    replies = await asyncio.gather(*calls)
    assert all(reply.heartbeat < 70 for reply in replies), "workers whose node is not written come again soon"
    await until(lambda: all(labels_of(place, name) == AFTER for name in names))
    assert caplog.messages.count("cannot update node; trying again") == 1
    await until(lambda: "nodes can be written again" in caplog.messages)


async def test_content_that_is_refused_is_not_sent_again(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """Once, and once with nothing in it; then when something else is wanted, or after some seconds."""
    name = make()
    master, worker = await labelled(masters, proxy, name)
    with proxy.inject(answer(422), method="PATCH") as rule:
        await send(master, worker.report(AFTER))
        for _ in range(3):
            await send(master, worker.report(AFTER))
        assert rule.hits == 2
    await send(master, worker.report({**AFTER, F + "cpu-c": "1"}))
    assert labels_of(place, name) == {**AFTER, F + "cpu-c": "1"}


async def test_lists(masters: FaultMasters, place: Cluster, make: Made, caplog: pytest.LogCaptureFixture) -> None:
    """A master that starts into it waits, and takes nothing for gone."""
    labels = {f"{F}cpu-{number}": "1" for number in range(3)}

    async def case(fault: Fault, proxy: FaultProxy) -> None:
        node = Node(place.plane, make(labels, {"nfd.node.kubernetes.io/feature-labels": "cpu-0,cpu-1,cpu-2"}))
        version = node.version
        with proxy.inject(fault, path=NODES, watch=False, times=2) as rule:
            master = await masters.make(proxy)
            start = asyncio.create_task(master.start())
            await until(lambda: rule.hits >= 2)
            assert master.leadership.reason_not_ready == "the nodes are not known yet"
            assert not start.done()
            await start
        assert master.leadership.reason_not_ready == ""
        assert rule.hits == 2
        assert node.name in master._store.names()
        assert await asyncio.to_thread(node.states, version) == []

    await all_cases(masters, LISTS, case)
    assert caplog.messages.count("watch interrupted") <= len(LISTS)


async def test_watches(masters: FaultMasters, place: Cluster, make: Made, caplog: pytest.LogCaptureFixture) -> None:
    """It stands again after a while; no Node was taken for gone, and what happened meanwhile is seen."""

    async def case(fault: Fault, proxy: FaultProxy) -> None:
        name = make()
        master, _ = await labelled(masters, proxy, name)
        began = time.monotonic()
        with proxy.inject(fault, path=NODES, watch=True, times=2) as rule:
            proxy.cut_all()
            await until(lambda: rule.hits >= 1)
            assert name in master._store.names()
            place.edit(name, {"metadata": {"labels": {F + "cpu-a": None}}})
            await until(lambda: labels_of(place, name) == BEFORE)
            assert rule.hits == 2
        assert proxy.count("GET", NODES, since=began) <= 10

    await all_cases(masters, WATCHES, case)
    await until(lambda: caplog.messages.count("watch continues") == len(WATCHES))
    assert caplog.messages.count("watch interrupted") == len(WATCHES)


async def test_a_watch_that_says_nothing_is_given_up(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    name = make()
    await labelled(masters, proxy, name, silence=1.0)
    with proxy.inject(silence, path=NODES, watch=True, times=1):
        proxy.cut_all()
        await until(lambda: proxy.count("GET", NODES + ".*watch") >= 2)
        place.edit(name, {"metadata": {"labels": {F + "cpu-a": None}}})
        await until(lambda: labels_of(place, name) == BEFORE)


async def test_a_watch_that_is_always_too_old_is_no_hot_loop(
    masters: FaultMasters, proxy: FaultProxy, make: Made
) -> None:
    make()
    await masters.start(proxy)
    began = time.monotonic()
    with proxy.inject(too_old, path=NODES, watch=True):
        proxy.cut_all()
        await asyncio.sleep(4)
    assert proxy.count("GET", NODES, since=began) <= 12


async def readyz(master: Service) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(f"http://127.0.0.1:{master.http_port}/readyz") as answer:
        return answer.status, await answer.text()


async def test_lists_that_hang(masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made) -> None:
    """Fifty labelled nodes: not ready, nothing written, then ready, and still nothing written without news."""
    wanted = {f"{F}cpu-{number}": "1" for number in range(3)}
    names = [make(wanted, {"nfd.node.kubernetes.io/feature-labels": "cpu-0,cpu-1,cpu-2"}) for _ in range(50)]
    nodes = [Node(place.plane, name) for name in names]
    versions = {node.name: node.version for node in nodes}
    with proxy.inject(hang, path=NODES, watch=False):
        master = await masters.make(proxy)
        start = asyncio.create_task(master.start())
        await until(lambda: proxy.count("GET", NODES) >= 1)
        over = time.monotonic() + HANGS
        while time.monotonic() < over:
            assert await readyz(master) == (503, "the nodes are not known yet\n")
            assert not start.done()
            await asyncio.sleep(0.5)
        assert proxy.count("GET", NODES) <= 2 + HANGS / TIMEOUT
    await start
    assert (await readyz(master))[1].startswith("ok\nfeatures of 0 of ")
    await master.queue.idle()
    assert proxy.count("PATCH") == 0
    assert {node.name: node.version for node in nodes} == versions
    await send(master, Worker(names[0]).report({f"{F}cpu-0": "1"}))
    assert labels_of(place, names[0]) == {f"{F}cpu-0": "1"}
    assert {node.name: node.version for node in nodes[1:]} == {name: versions[name] for name in names[1:]}
