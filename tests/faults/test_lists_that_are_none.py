"""JSON that is no list, no object and no event of what was asked for, with a status of success: no label goes by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from nfd.errors import Forbidden, Unavailable
from nfd.gc.collector import KINDS as COLLECTED
from nfd.gc.collector import Collector, Metrics
from nfd.kube.check_responses import identity
from nfd.kube.client import connect
from nfd.kube.informer import Informer, ObjectInformer, Store
from nfd.kube.leader_election import Lease
from nfd.kube.token_reviews import AccessReviews, TokenReviews
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.resources import ResourceOptions
from nfd.rules.policy import Policy
from nfd.runtime.failures import COUNTS
from tests.controlplane.cluster import ControlPlane
from tests.e2e.nodes import Node
from tests.faults.conftest import NAMESPACE, QUICK, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.trouble import spoiled
from tests.master.conftest import Worker, send
from tests.master.custom_resources import OTHER, OWN, PCI, Kinds, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
OURS = r"/(nodes|nodefeatures|nodefeaturerules|nodefeaturegroups)\?"
NULL = "items that are null"
NONSENSE: dict[str, Any] = {
    "an error": lambda answer: {"error": "not today"},
    NULL: lambda answer: {**answer, "items": None},
    "no items": lambda answer: {key: value for key, value in answer.items() if key != "items"},
    "an empty list of another kind": lambda answer: {**answer, "kind": "PodList", "items": []},
    "an empty list of another group": lambda answer: {**answer, "apiVersion": "other.io/v1", "items": []},
    "an empty list without a version": lambda answer: {**answer, "items": [], "metadata": {}},
    "items that are no objects": lambda answer: {**answer, "items": ["a"]},
    "null": lambda answer: None,
    "an empty list": lambda answer: [],
}
SPECLESS: dict[str, Any] = {
    "no spec": lambda item: {key: value for key, value in item.items() if key != "spec"},
    "a spec that is null": lambda item: {**item, "spec": None},
    "a spec that is a list": lambda item: {**item, "spec": []},
}


@pytest.mark.parametrize("kind", NONSENSE)
async def test_lists_that_are_none(
    kind: str, masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """In the middle and at a start: what sources, rules and objects gave stays, and a later list is heard."""
    name = make()
    node = Node(place.plane, name)
    kinds.rules("rule", rule(labels={"rule": "yes"}))
    kinds.features(OTHER, "theirs", name, labels={"theirs": "1"})
    custom = ResourceOptions(Joining(Policy(), OWN))
    first, worker = await masters.start(proxy, custom=custom), Worker(name)
    await send(first, worker.report({F + "cpu-a": "1"}, features=PCI))
    shown = {F + "cpu-a": "1", F + "rule": "yes", F + "theirs": "1"}
    await until(lambda: labels_of(place, name) == shown)
    version = node.version
    with proxy.inject(spoiled(NONSENSE[kind]), path=OURS, watch=False) as spoil:
        for watch in [first._store._informer, *first._resources._informers.values()]:  # type: ignore
            watch._version = ""
        proxy.cut_all()
        await until(lambda: spoil.hits >= 6)
        await first.queue.idle()
        assert labels_of(place, name) == shown
        await masters.stack.aclose()
    with proxy.inject(spoiled(NONSENSE[kind]), path=r"/nodefeature(s|rules)\?", watch=False) as spoil:
        second = await masters.start(proxy, custom=custom)
        await send(second, worker.report({F + "cpu-a": "1"}, features=PCI))
        await until(lambda: spoil.hits >= 4)
        await second.queue.idle()
        assert labels_of(place, name) == shown
    assert all(labels.items() >= shown.items() for labels in node.states(version))
    kinds.delete("nodefeaturerules/rule")
    kinds.delete(f"namespaces/{OTHER}/nodefeatures/theirs")
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})


@pytest.mark.parametrize("kind", SPECLESS)
async def test_objects_without_a_spec(
    kind: str, masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds
) -> None:
    """A rule and a NodeFeature whose specification does not come with them make no sense; they are not empty."""
    name = make()
    kinds.rules("rule", rule(labels={"rule": "yes"}))
    kinds.features(OTHER, "theirs", name, labels={"theirs": "1"})
    custom = ResourceOptions(Joining(Policy(), OWN))
    first, worker = await masters.start(proxy, custom=custom), Worker(name)
    await send(first, worker.report({F + "cpu-a": "1"}, features=PCI))
    shown = {F + "cpu-a": "1", F + "rule": "yes", F + "theirs": "1"}
    await until(lambda: labels_of(place, name) == shown)
    await masters.stack.aclose()

    def spoil(answer: Any) -> Any:
        return {**answer, "items": [SPECLESS[kind](item) for item in answer["items"]]}

    with proxy.inject(spoiled(spoil), path=r"/nodefeature(s|rules)\?", watch=False):
        second = await masters.start(proxy, custom=custom)
        await send(second, worker.report({F + "cpu-a": "1"}, features=PCI))
        await second.queue.idle()
        assert labels_of(place, name) == shown
        assert ("", "rule") in second._resources.rules.invalid  # type: ignore
        assert (OTHER, "theirs") in second._resources.objects.invalid  # type: ignore
        assert second._gauges()["malformed_objects"] >= 2


class Kept(Store[str]):
    """The names of what is there."""

    def __init__(self, parse: Callable[[Mapping[str, Any]], str] = lambda item: identity(item)[1]) -> None:
        super().__init__(parse)
        self.lists = 0

    @property
    def names(self) -> set[str]:
        return set(self.items.values())

    def retain(self, keys: frozenset[tuple[str, str]]) -> None:
        self.lists += 1
        super().retain(keys)


@pytest.mark.parametrize("kind", NONSENSE)
async def test_a_later_page_that_is_none(kind: str, proxy: FaultProxy, place: Cluster, make: Made) -> None:
    """What the first pages have is there; that there is no more, nobody says."""
    made, kept = {make() for _ in range(3)}, Kept()
    client = await connect(str(proxy.kubeconfig()))
    watch = Informer(client, "/api/v1/nodes", kept, page_size=1)
    with proxy.inject(spoiled(NONSENSE[kind]), path=r"[?&]continue=", watch=False) as spoil:
        running = asyncio.create_task(watch.run())
        await until(lambda: spoil.hits >= 2)
        assert (kept.lists, watch.synced.is_set()) == (0, False)
    await until(watch.synced.is_set)
    assert kept.names >= made
    running.cancel()
    await asyncio.wait([running])
    await client.close()


class Trips(Kept):
    """It raises at one object, and at every event of it."""

    def __init__(self, name: str, kind: type[Exception]) -> None:
        super().__init__()
        self.name, self.kind = name, kind

    def put(self, item: Mapping[str, Any]) -> None:
        if identity(item)[1] == self.name:
            raise self.kind("made by the test")
        super().put(item)


def trips(name: str, kind: type[Exception]) -> Kept:
    """Its parser raises at one object."""

    def parse(item: Mapping[str, Any]) -> str:
        if identity(item)[1] == name:
            raise kind("made by the test")
        return identity(item)[1]

    return Kept(parse)


@pytest.mark.parametrize("make_store", [Trips, trips])
@pytest.mark.parametrize("kind", [RecursionError, MemoryError, KeyError, OSError])
async def test_an_object_that_brings_out_a_defect(
    make_store: Callable[[str, type[Exception]], Kept],
    kind: type[Exception],
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
) -> None:
    """The list is complete, and the watch goes on with all others; the one is listed as it is there."""
    odd, other = make(), make()
    kept, before = make_store(odd, kind), COUNTS["watch"]
    client = await connect(str(proxy.kubeconfig()))
    watch = Informer(client, "/api/v1/nodes", kept, page_size=1)
    running = asyncio.create_task(watch.run())
    await until(watch.synced.is_set)
    assert other in kept.names
    place.edit(odd, {"metadata": {"labels": {"a": "b"}}})
    last = make()
    await until(lambda: last in kept.names)
    assert COUNTS["watch"] >= before + 2
    assert kept.lists == 1
    running.cancel()
    await asyncio.wait([running])
    await client.close()


@pytest.mark.parametrize("kind", [kind for kind in NONSENSE if kind != NULL])
async def test_nothing_is_collected_by_it(kind: str, proxy: FaultProxy, make: Made, kinds: Kinds) -> None:
    """The list of the one Node that an object belongs to. Of metadata alone, an empty one is really null."""
    name = make()
    kinds.features(OTHER, "theirs", name, labels={"theirs": "1"})
    client = await connect(str(proxy.kubeconfig()))
    collector = Collector(client, Metrics(one.name for one in COLLECTED), 60.0, 0, COLLECTED[:1])
    with proxy.inject(spoiled(NONSENSE[kind]), path=r"/api/v1/nodes\?", watch=False) as spoil:
        await collector.sweep()
        assert spoil.hits
    assert kinds.get(f"namespaces/{OTHER}/nodefeatures/theirs")
    await client.close()


@pytest.mark.parametrize("kind", ["an error", "null", "an empty list"])
async def test_secrets_are_not_taken_for_empty_ones(kind: str, proxy: FaultProxy) -> None:
    client = await connect(str(proxy.kubeconfig()))
    followed = ObjectInformer(client, f"/api/v1/namespaces/{NAMESPACE}/secrets", "nfd-master-ca")
    with proxy.inject(spoiled(NONSENSE[kind]), path="/secrets/"), pytest.raises(Unavailable):
        await followed.read()
    await client.close()


@pytest.mark.parametrize(
    "spoil",
    [
        NONSENSE["an error"],
        NONSENSE["null"],
        lambda lease: {**lease, "kind": "Pod"},
        lambda lease: {**lease, "metadata": {**lease["metadata"], "name": "other"}},
        lambda lease: {**lease, "spec": {**lease["spec"], "holderIdentity": "somebody"}},
        lambda lease: {**lease, "spec": []},
    ],
)
async def test_nobody_leads_by_it(spoil: Any, proxy: FaultProxy, control_plane: ControlPlane) -> None:
    """An answer to the write of a Lease that is not that Lease tells of nothing held."""
    name, told = "none", list[bool]()
    client = await connect(str(proxy.kubeconfig()))
    lease = Lease(client, NAMESPACE, name, QUICK)
    with (
        proxy.inject(spoiled(spoil), method="POST", path="/leases") as made,
        proxy.inject(spoiled(spoil), method="PUT", path="/leases") as written,
    ):
        starting = asyncio.create_task(lease.start("a/b:1/c", lambda: told.append(lease.leading)))
        await until(lambda: made.hits + written.hits >= 3)
        assert not lease.leading
        assert told == []
    await until(lambda: told == [True])
    await starting
    await lease.stop(release=True)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}"
    assert control_plane.request("GET", path)["spec"]["holderIdentity"] == ""
    control_plane.request("DELETE", path)


@pytest.mark.parametrize(
    "spoil",
    [
        NONSENSE["an error"],
        NONSENSE["null"],
        NONSENSE["an empty list"],
        lambda review: {
            **review,
            "kind": "Pod",
            "status": {**review["status"], "authenticated": True, "allowed": True},
        },
        lambda review: {**review, "status": {**review["status"], "authenticated": "yes", "allowed": "yes"}},
        lambda review: {**review, "status": {"authenticated": 1, "allowed": 1, "user": {"username": "admin"}}},
        lambda review: {"status": {"authenticated": True, "allowed": True, "user": {"username": "admin"}}},
    ],
)
async def test_nobody_is_let_in_by_it(spoil: Any, proxy: FaultProxy, control_plane: ControlPlane) -> None:
    client = await connect(str(proxy.kubeconfig()))
    token = control_plane.service_account_token("stranger", audience="nfd-master")
    alice = control_plane.token("alice")
    with proxy.inject(spoiled(spoil), method="POST", path="reviews"):
        with pytest.raises((Unavailable, Forbidden)):
            await TokenReviews(client, "nfd-master").review(token)
        with pytest.raises((Unavailable, Forbidden)):
            await AccessReviews(client).check(f"Bearer {alice}", "/reports", "10.0.0.1")
    with (
        proxy.inject(spoiled(spoil), method="POST", path="subjectaccessreviews"),
        pytest.raises((Unavailable, Forbidden)),
    ):
        await AccessReviews(client).check(f"Bearer {alice}", "/reports", "10.0.0.1")
    await client.close()
