"""A follower may have heard nothing for a while: what it knew of rules is no reason to change a node when it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import pytest

from nfd.kube.leader_election import Timing
from nfd.master.leadership import Phase
from nfd.master.rules.resources import ResourceOptions
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.e2e.nodes import Node
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_fleets import changes, deliver, version
from tests.faults.test_leaders import LEASES
from tests.faults.trouble import silence
from tests.master.conftest import Worker
from tests.master.custom_resources import PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
LEASE = "taking-over-rules"
WATCHES = "nodefeature(rule)?s"


@pytest.fixture(autouse=True)
def lease(control_plane: ControlPlane) -> Iterator[None]:
    """Gone after the test."""
    yield
    with suppress(ApiError):
        control_plane.request("DELETE", f"{LEASES}/{LEASE}")


async def test_a_new_leader_lists_rules_and_objects_anew(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """Nothing comes back that another leader took away, and nothing goes that it has put there."""
    masters.timing = Timing(duration=30.0, renew=20.0, retry=0.3)
    name, other = make(), masters.proxy()
    worker = Worker(name)
    kinds.rules("before", rule(labels={"gone": "rule"}))
    kinds.features("others", "before", name, labels={"gone-too": "object"})
    old = await masters.start(proxy, LEASE, custom=ResourceOptions())
    await until(lambda: old.leadership.phase is Phase.LEADING)
    new = await masters.start(other, LEASE, custom=ResourceOptions())
    deaf = other.inject(silence, path=WATCHES, watch=True)
    other.cut_all()
    await until(lambda: deaf.hits >= 2)
    kinds.delete("nodefeaturerules/before")
    kinds.delete("namespaces/others/nodefeatures/before")
    kinds.rules("after", rule(labels={"came": "rule"}))
    kinds.features("others", "after", name, labels={"came-too": "object"})
    shown = {F + "came": "rule", F + "came-too": "object", F + "cpu-a": "1"}
    await deliver([old], worker.report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == shown)
    since = version(place.plane)
    await old.stop()
    await until(lambda: new.leadership.phase is Phase.LEADING)
    await deliver([new], worker.report({F + "cpu-a": "2"}, features=PCI))
    await until(lambda: labels_of(place, name) == {**shown, F + "cpu-a": "2"})
    await new.queue.idle()
    told = [one["object"]["metadata"] for one in changes(place.plane, since)]
    assert [one["labels"] for one in told if one["name"] == name] == [{**shown, F + "cpu-a": "2"}]


async def test_rules_take_nothing_from_a_node_without_a_proof_before_they_are_evaluated(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """As from one whose lists are NFD's, or were written by somebody: nobody knows which keys come from rules."""
    name, shown = make(), {F + "cpu-a": "1", F + "kept": "rule"}
    node = Node(place.plane, name)
    kinds.rules("kept", rule(labels={"kept": "rule"}))
    for first_id in range(0x2000, 0x5000, 0x400):  # so that one pass is too short for all
        ids = range(first_id, first_id + 0x400)
        kinds.rules(f"others-{first_id:x}", *(rule(f"r{one}", f"{one:04x}", labels={f"n{one}": "1"}) for one in ids))
    first = await masters.start(proxy, custom=ResourceOptions())
    await deliver([first], Worker(name).report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == shown)
    await first.stop()
    place.edit(name, {"metadata": {"annotations": {"nfd.node.kubernetes.io/origins": None}}})
    since = node.version
    second = await masters.start(proxy, custom=ResourceOptions())
    await deliver([second], Worker(name, started=2).report({F + "cpu-b": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == {F + "cpu-b": "1", F + "kept": "rule"})
    await second.queue.idle()
    states = await asyncio.to_thread(node.states, since)
    assert states
    assert [state for state in states if state.get(F + "kept") != "rule"] == []
