"""Answers that come after the watch has told something newer: a Node that went meanwhile, or came back as another."""

from __future__ import annotations

import asyncio

from tests.faults.conftest import FaultMasters, Made, remembered
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import late
from tests.master.conftest import BOOT, Worker, send
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"


async def test_a_node_that_goes_while_it_is_written_leaves_nothing_behind(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """The answer to the write is no news of a Node that is gone."""
    name = make()
    master = await masters.start(proxy)
    with proxy.inject(late(1.0), method="PATCH", times=1) as rule:
        call = asyncio.create_task(send(master, Worker(name).report({F + "cpu-a": "1"})))
        await until(lambda: rule.hits == 1 and labels_of(place, name) == {F + "cpu-a": "1"})
        place.delete(name)
        await until(lambda: name not in master._store.names())
        await call
    await master.queue.idle()
    assert name not in master._store.names()
    assert name not in remembered(master)


async def test_a_node_that_is_recreated_while_it_is_written_is_known_as_what_it_is(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """It has the labels of its predecessor at once, for it is the same boot."""
    name = make()
    master = await masters.start(proxy)
    with proxy.inject(late(1.0), method="PATCH", times=1) as rule:
        call = asyncio.create_task(send(master, Worker(name).report({F + "cpu-a": "1"})))
        await until(lambda: rule.hits == 1 and labels_of(place, name) == {F + "cpu-a": "1"})
        place.delete(name)
        uid = place.create(name, {}, {}, BOOT)["metadata"]["uid"]
        await until(lambda: getattr(master._store.get(name), "uid", "") == uid)
        await call
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})
    assert getattr(master._store.get(name), "uid", "") == uid
