"""Several masters that watch rules, groups and objects of third parties: followers do nothing, old leaders no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from nfd.errors import Unavailable
from nfd.features import Features
from nfd.kube.client import connect
from nfd.kube.leader_election import Timing
from nfd.master.leadership import Phase
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import ResourceOptions
from nfd.master.service import Service
from nfd.rules.policy import Policy
from nfd.store.base import Patch
from nfd.store.kube import KubeStore
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import QUICK, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_fleets import deliver
from tests.faults.test_leaders import LEASES, Gate
from tests.faults.trouble import answer, hang
from tests.master.conftest import Worker, send
from tests.master.custom_resources import OWN, PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
CUSTOM = ResourceOptions(Joining(Policy(enable_taints=True), OWN), groups=True)
SLOW = Timing(duration=30.0, renew=20.0, retry=0.3)
"""A slow machine is no reason to change places."""
NO_GPU = Features(instances={"pci.device": ({"vendor": "8086", "class": "0200"},)})
_numbers = count(1)


@pytest.fixture
def lease(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a Lease of this test's own."""
    name = f"lease-and-rules-{next(_numbers)}"
    yield name
    with suppress(ApiError):
        control_plane.request("DELETE", f"{LEASES}/{name}")


async def pair(masters: FaultMasters, proxy: FaultProxy, other: FaultProxy, lease: str) -> tuple[Service, Service]:
    """The leader, behind the first proxy, and a follower; both watch custom resources."""
    leader = await masters.start(proxy, lease, custom=CUSTOM)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    follower = await masters.start(other, lease, custom=CUSTOM)
    assert follower.leadership.phase is Phase.FOLLOWER
    return leader, follower


async def test_a_follower_does_nothing(
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    lease: str,
    kinds: Kinds,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It plans for no node and tries to write no status, whatever the watches tell it."""
    masters.timing = SLOW
    other = masters.proxy()
    leader, follower = await pair(masters, proxy, other, lease)
    name = make()
    kinds.features("others", "theirs", name, labels={"theirs": "1"})
    kinds.rules("rule", rule(labels={"ruled": "yes"}))
    kinds.group(OWN, "group", rule())
    await send(leader, Worker(name).report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1", F + "theirs": "1", F + "ruled": "yes"})
    await until(lambda: kinds.status("rule") != {})
    members = f"namespaces/{OWN}/nodefeaturegroups/group"
    await until(lambda: name in [one["name"] for one in kinds.get(members).get("status", {}).get("nodes", [])])
    await until(lambda: follower._store.get(name).labels.get(F + "ruled") == "yes")  # type: ignore[union-attr]
    place.edit(name, {"metadata": {"labels": {"foo": "bar"}}})
    await until(lambda: follower._store.get(name).labels.get("foo") == "bar")  # type: ignore[union-attr]
    await follower.queue.idle()
    assert follower.metrics["node_update_requests"] == 0
    assert other.count("PATCH") == 0
    with proxy.inject(hang, method="PATCH", path="nodefeaturerules") as slow:
        kinds.rules("late", rule(labels={"late": "yes"}))
        await until(lambda: slow.hits == 1)
        await asyncio.sleep(1.5)  # a rule without status is the one thing that a follower would write at once
        assert "cannot write status; trying again" not in caplog.messages
    assert leader.metrics["node_update_requests"] > 0


async def test_statuses_are_fenced(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, lease: str, kinds: Kinds
) -> None:
    """The server drops a status that it cannot write while the lease surely holds, like any other write."""
    masters.timing = SLOW
    leader = await masters.start(proxy, lease, custom=CUSTOM)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    kinds.rules("rule", rule(labels={"ruled": "yes"}))
    await deliver([leader], Worker(make()).report({}, features=PCI))
    await until(lambda: kinds.status("rule") != {})
    paths = [one.path for one in proxy.seen if one.method == "PATCH" and "nodefeaturerules" in one.path]
    assert paths
    assert all(f"timeout={round(SLOW.write * 1000)}ms" in path for path in paths)


async def test_a_deposed_leader_judges_no_node_by_what_it_knew(
    masters: FaultMasters, proxy: FaultProxy, make: Made, lease: str, kinds: Kinds
) -> None:
    """The node has left the group under another leader, and is not put back by the old one when that leads again."""
    masters.timing = Timing(duration=8.0, renew=6.0, retry=0.3)
    old, new = await pair(masters, proxy, masters.proxy(), lease)
    kinds.group(OWN, "group", rule())
    name = make()
    worker = Worker(name)

    def members() -> list[str]:
        status = kinds.get(f"namespaces/{OWN}/nodefeaturegroups/group").get("status", {})
        return [one["name"] for one in status.get("nodes", [])]

    await deliver([old], worker.report({}, features=PCI))
    await until(lambda: members() == [name])
    proxy.freeze()
    await until(lambda: new.leadership.phase is Phase.LEADING, 30)
    await deliver([new], worker.report({}, features=NO_GPU))
    await until(lambda: members() == [])
    proxy.thaw()
    await until(lambda: old._store.connected and old.leadership.phase is Phase.FOLLOWER)
    await new.stop()
    await until(lambda: old.leadership.phase is Phase.LEADING)
    kinds.rules("wakes-it", rule("wakes", labels={"wakes": "yes"}))
    await until(lambda: kinds.status("wakes-it") != {})
    assert (kinds.status("wakes-it")["nodes"], members()) == (0, [])


async def test_the_lease_is_not_released_while_a_pass_is_under_way(
    masters: FaultMasters, proxy: FaultProxy, control_plane: ControlPlane, make: Made, lease: str
) -> None:
    """Then it runs out by itself: whoever leads next must not meet a write of ours."""
    leader = await masters.start(proxy, lease, drain=0.5)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    name = make()
    await until(lambda: name in leader._store.names())
    with proxy.inject(answer(409), method="PATCH"), proxy.inject(hang, method="GET", path=f"/nodes/{name}") as asking:
        call = asyncio.create_task(send(leader, Worker(name).report({F + "cpu-a": "1"})))
        await until(lambda: asking.hits == 1)
        await leader.stop()
        await asyncio.gather(call, return_exceptions=True)
    held: str = control_plane.request("GET", f"{LEASES}/{lease}")["spec"]["holderIdentity"]
    assert held.split("/")[1] == f"127.0.0.1:{leader.port}"


async def test_who_does_not_lead_does_not_even_connect(proxy: FaultProxy) -> None:
    """Nobody listens at that port, and that is not what stops the write."""
    client = await connect(str(proxy.kubeconfig()))
    client._configuration.host = "https://127.0.0.1:9"
    client.fence = gate = Gate()
    store, patch = KubeStore(client), Patch({"metadata": {"labels": {"late": "1"}}})
    with pytest.raises(Unavailable, match="cannot connect"):
        await store.patch("some", patch)
    gate.open = False
    with pytest.raises(Unavailable, match="closed"):
        await store.patch("some", patch)
    await store.close()


async def test_a_lease_that_we_may_not_look_at(
    masters: FaultMasters, proxy: FaultProxy, lease: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Rights that come late, or go for a while: a few tries, one line, nobody ends, and nobody leads meanwhile."""
    with proxy.inject(answer(403, "no right to leases"), path=LEASES) as refused:
        master = await masters.make(proxy, lease)
        start = asyncio.create_task(master.start())
        await asyncio.sleep(2)
        assert not start.done()
        assert refused.hits < 2 / QUICK.retry + 2
    await start
    await until(lambda: master.leadership.phase is Phase.LEADING)
    with proxy.inject(answer(403, "no right to leases"), path=LEASES):
        await until(lambda: master.leadership.phase is Phase.FOLLOWER)
    await until(lambda: master.leadership.phase is Phase.LEADING)
    assert caplog.messages.count("cannot renew lease; trying again") == 2
