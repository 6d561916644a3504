"""What a master knows when it starts: nothing but what the Nodes say, and so it holds what it cannot judge."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import ResourceOptions
from nfd.rules.policy import Policy
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import Exchange, FaultProxy
from tests.faults.test_fleets import SHOWN, WANTED, changes, version
from tests.faults.test_leaders_and_rules import NO_GPU
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import OWN, PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
CUSTOM = ResourceOptions(Joining(Policy(), OWN))


async def test_after_a_restart_rules_hold_until_each_worker_has_spoken(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """A rule that changed meanwhile acts on a node with its worker's next report; one that is gone, at once."""
    spoken, silent = make(), make()
    kinds.rules("stays", rule(labels={"stays": "1"}))
    kinds.rules("goes", rule(labels={"goes": "1"}))
    first = await masters.start(proxy, custom=CUSTOM)
    for name in (spoken, silent):
        await send(first, Worker(name).report({F + "cpu-a": "1"}, features=PCI))
    shown = {F + "cpu-a": "1", F + "stays": "1", F + "goes": "1"}
    await until(lambda: [labels_of(place, name) for name in (spoken, silent)] == [shown] * 2)
    await masters.stack.aclose()
    kinds.edit_rules("stays", rule(labels={"stays": "2"}, vendor="10de"), rule("more", labels={"more": "1"}))
    kinds.delete("nodefeaturerules/goes")
    second = await masters.start(proxy, custom=CUSTOM)
    del shown[F + "goes"]
    await until(lambda: [labels_of(place, name) for name in (spoken, silent)] == [shown] * 2)
    await send(second, Worker(spoken, started=2).report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, spoken) == shown | {F + "stays": "2", F + "more": "1"})
    await send(second, Worker(spoken, started=3).report({F + "cpu-a": "1"}, failed=("pci",)))
    assert labels_of(place, spoken) == shown | {F + "stays": "2", F + "more": "1"}, "the rules see less than there is"
    await send(second, Worker(spoken, started=4).report({F + "cpu-a": "1"}, features=NO_GPU))
    await until(lambda: labels_of(place, spoken) == {F + "cpu-a": "1"})
    await second.queue.idle()
    assert labels_of(place, silent) == shown


async def test_half_of_the_workers_are_back_after_90_seconds(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """Meanwhile nothing vanishes; whoever is back with the same causes no write, and with news one."""
    now = [0.0]
    names = [make() for _ in range(20)]
    first = await masters.start(proxy)
    await asyncio.gather(*(send(first, Worker(name).report(WANTED)) for name in names))
    await masters.stack.aclose()
    since, mark = version(place.plane), place.plane.mark()
    second = await masters.start(proxy, now=lambda: now[0], tick=0.05, resync=30.0)
    await asyncio.gather(*(send(second, Worker(name, started=2).report(WANTED)) for name in names[::2]))
    for _ in range(90):
        now[0] += 1
        await asyncio.sleep(0.02)
    await second.queue.idle()
    assert second._gauges()["reporting_nodes"] == 10
    await asyncio.gather(*(send(second, Worker(name, started=2).report(WANTED)) for name in names[3::2]))
    assert changes(place.plane, since) == []
    assert place.plane.writes(mark) == []
    await send(second, Worker(names[1], started=2).report(WANTED | {F + "cpu-a": "2"}))
    (change,) = changes(place.plane, since)
    assert change["object"]["metadata"]["name"] == names[1]
    assert change["object"]["metadata"]["labels"] == SHOWN | {F + "cpu-a": "2"}


async def test_every_patch_names_the_very_node_and_version(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """A Node of the same name is another one by its uid, whatever its version is."""
    bodies: list[Any] = []

    async def look(exchange: Exchange) -> web.StreamResponse:
        bodies.append(await exchange.request.json())
        return await exchange.forward()

    name = make()
    master = await masters.start(proxy)
    before = place.get(name)["metadata"]
    with proxy.inject(look, method="PATCH"):
        await send(master, Worker(name).report(WANTED))
    guards = [{key: body["metadata"].get(key) for key in ("uid", "resourceVersion")} for body in bodies]
    assert guards == [{"uid": before["uid"], "resourceVersion": before["resourceVersion"]}]


async def test_a_recreated_node_is_labelled_at_once(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made
) -> None:
    """New uid, same boot id: the full set; another boot id: nothing of the old one, until its worker speaks."""
    same, other = make(), make()
    master = await masters.start(proxy)
    for name in (same, other):
        await send(master, Worker(name).report(WANTED))
    uids = [place.get(name)["metadata"]["uid"] for name in (same, other)]
    for name, boot in ((same, BOOT), (other, "boot-2")):
        place.delete(name)
        place.create(name, {}, {}, boot)
    since = version(place.plane)
    await until(lambda: labels_of(place, same) == SHOWN)
    await asyncio.sleep(1)
    await master.queue.idle()
    assert labels_of(place, other) == {}
    assert other not in {change["object"]["metadata"]["name"] for change in changes(place.plane, since)}
    await send(master, Worker(other, boot_id="boot-2").report(WANTED | {"new": "1"}))
    assert labels_of(place, other) == SHOWN | {F + "new": "1"}
    assert not set(uids) & {place.get(name)["metadata"]["uid"] for name in (same, other)}
