"""A server that does not know our custom resources (any more, or yet): what rules gave stays, and readiness with it."""

from __future__ import annotations

import json
from typing import Any

from nfd.kube.client import connect
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.service import Options, Service
from nfd.rules.policy import Policy
from nfd.store.kube import KubeStore
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import answer
from tests.master.conftest import Worker, send
from tests.master.custom_resources import OWN, PCI, Kinds, rule
from tests.master.places import PROOF, Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
RULES = "nodefeaturerules"
STATE, PRODUCT = "nvidia.com/gpu.state", "nvidia.com/gpu.product"
USABLE = "nfd.node.kubernetes.io/AcceleratorsUsable"


async def start(masters: FaultMasters, proxy: FaultProxy, **settings: Any) -> Service:
    """A master that watches custom resources, through the proxy."""
    client = await connect(str(proxy.kubeconfig()))
    custom = ResourceOptions(Joining(Policy(), OWN))
    given = ReconcileOptions(**{"proof": PROOF, **settings})
    options = Options(host="127.0.0.1", port=0, http_port=0, resync=0, settings=given)
    service = Service(KubeStore(client), options, lambda metrics: CustomResources(client, custom, metrics))
    masters.stack.push_async_callback(service.stop)
    await service.start()
    return service


async def test_404_is_no_news_of_rules(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """After a restart, and while it lasts; once the list is there, what is gone goes."""
    name = make()
    for number in ("1", "2"):
        kinds.rules(f"rule-{number}", rule(labels={number: "yes"}))
    kinds.features("others", "theirs", name, labels={"theirs": "1"})
    shown = {F + "cpu-a": "1", F + "1": "yes", F + "2": "yes", F + "theirs": "1"}
    first, worker = await start(masters, proxy), Worker(name)
    await send(first, worker.report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == shown)
    await masters.stack.aclose()
    with proxy.inject(answer(404), path=f"/({RULES}|nodefeatures)") as missing:
        second = await start(masters, proxy)
        assert (second.leadership.reason_not_ready, missing.hits >= 4) == ("", True)
        kinds.delete(f"{RULES}/rule-1")
        await send(second, worker.report({F + "cpu-b": "1"}, features=PCI))
        held = {F + "1": "yes", F + "2": "yes", F + "theirs": "1"}
        assert labels_of(place, name) == {F + "cpu-b": "1", **held}
        hits = missing.hits
        await until(lambda: missing.hits >= hits + 4)
        await second.queue.idle()
        assert labels_of(place, name) == {F + "cpu-b": "1", **held}
    await until(lambda: F + "1" not in labels_of(place, name))
    assert labels_of(place, name) == {F + "cpu-b": "1", F + "2": "yes", F + "theirs": "1"}


async def test_404_in_the_middle_changes_nothing(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    name = make()
    kinds.rules("rule", rule(labels={"1": "yes"}))
    master, worker = await start(masters, proxy), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))
    shown = {F + "cpu-a": "1", F + "1": "yes"}
    await until(lambda: labels_of(place, name) == shown)
    with proxy.inject(answer(404), path=f"/{RULES}") as missing:
        proxy.cut_all()
        await until(lambda: missing.hits >= 4)
        await send(master, worker.report({F + "cpu-a": "2"}, features=PCI))
        await master.queue.idle()
        assert labels_of(place, name) == {F + "cpu-a": "2", F + "1": "yes"}


def usable(place: Cluster, name: str) -> tuple[str, str] | None:
    found = {one["type"]: (one["status"], one["reason"]) for one in place.get(name)["status"]["conditions"]}
    return found.get(USABLE)


def states(plane: ControlPlane, name: str, version: str) -> list[tuple[str | None, list[str]]]:
    """The state and the conditions about accelerators after each change of the Node since that resourceVersion."""
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}"
    nodes = [json.loads(line)["object"] for line in plane.text("GET", f"/api/v1/nodes?{query}").splitlines()]
    return [
        (
            node["metadata"]["labels"].get(STATE),
            [one["status"] for one in node["status"]["conditions"] if one["type"] == USABLE],
        )
        for node in nodes
    ]


async def test_a_state_that_an_unknown_object_disproves_is_not_written(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """Of a Node with labels of another reader of the GPUs, after a restart. Another Node gets its state at once."""
    name, alone = make(), make()
    kinds.features("others", "gfd", name, labels={PRODUCT: "Tesla-T4"})
    unseen = {STATE: "library-missing", "nvidia.com/gpu.present": "true"}
    first = await start(masters, proxy, conditions=True)
    await send(first, Worker(name).report(unseen))
    await until(lambda: usable(place, name) == ("True", "Usable"))
    assert STATE not in labels_of(place, name)
    await masters.stack.aclose()
    version = place.get(name)["metadata"]["resourceVersion"]
    with proxy.inject(answer(404), path="/nodefeatures"):
        second = await start(masters, proxy, conditions=True)
        for number in (1, 2):
            await send(second, Worker(name, started=2, sequence=number).report({**unseen, F + "cpu-b": f"{number}"}))
            assert labels_of(place, name)[F + "cpu-b"] == f"{number}"
        await send(second, Worker(alone).report(unseen))
        assert labels_of(place, alone)[STATE] == "library-missing"
        assert usable(place, alone) == ("False", "LibraryMissing")
    await until(lambda: second._resources is not None and second._resources._objects_synced())
    await second.queue.idle()
    told = states(place.plane, name, version)
    assert told
    assert all(one == (None, ["True"]) for one in told)
    kinds.delete("namespaces/others/nodefeatures/gfd")
    await until(lambda: labels_of(place, name).get(STATE) == "library-missing")
    assert PRODUCT not in labels_of(place, name)
    assert usable(place, name) == ("False", "LibraryMissing")
