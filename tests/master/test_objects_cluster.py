"""NodeFeature objects and NodeFeatureGroups on a real API server."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from nfd.master.config import NamespaceSelector
from nfd.master.node.queue import Queue
from nfd.master.rules.resources import CustomResources
from nfd.runtime.prometheus import render
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import API, OTHER, OWN, PCI, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
VENDOR = {"attributes": {"vendor.card": {"elements": {"vendor": "x", "slots": "8"}}}}


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def name(node_name: str, place: Cluster) -> str:
    place.create(node_name, {}, {}, BOOT)
    return node_name


@pytest.fixture
async def masters(control_plane: ControlPlane) -> AsyncIterator[RuleMasters]:
    found = RuleMasters(control_plane)
    async with found.stack:
        yield found


async def test_objects_win_and_lose_in_nfds_order(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """Our namespace first, then by name; the report stands under the node's name."""
    kinds.features(OWN, "a-before", name, labels={"cpu-a": "before", "b": "before"})
    kinds.features(OWN, "z-after", name, labels={"c": "after", "d": "after"})
    kinds.features(OTHER, "a-other", name, labels={"d": "other"}, features=VENDOR)
    kinds.rules("objects", rule(vendor="x", feature="vendor.card", labels={"slots": "@vendor.card.slots"}))
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "report", F + "c": "report"}, features=PCI))
    expected = {"cpu-a": "report", "b": "before", "c": "after", "d": "other", "slots": "8"}
    await until(lambda: labels_of(place, name) == {F + key: value for key, value in expected.items()})
    kinds.delete(f"namespaces/{OTHER}/nodefeatures/a-other")
    await until(lambda: F + "slots" not in labels_of(place, name))
    assert labels_of(place, name)[F + "d"] == "after"


async def test_object_labels_outlive_a_restart_but_not_the_object(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    kinds.features(OTHER, "one", name, labels={"one": "1"})
    kinds.features(OTHER, "two", name, labels={"two": "1"})
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    await master.stop()
    kinds.delete(f"namespaces/{OTHER}/nodefeatures/one")
    await masters.start()
    await until(lambda: F + "one" not in labels_of(place, name))
    assert labels_of(place, name) == {F + "cpu-a": "1", F + "two": "1"}
    kinds.features(OTHER, "three", name, labels={"three": "1"})
    await until(lambda: F + "three" in labels_of(place, name))
    assert labels_of(place, name) == {F + "cpu-a": "1", F + "two": "1", F + "three": "1"}


async def test_what_an_object_gave_outlives_a_restart_while_it_makes_no_sense(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """And so does what rules made of it; only when it is mended, or gone, is anything known again."""
    too_much = {f"n{number}": "x" * 60 for number in range(600)}
    for one in ("grower", "goner"):
        kinds.features(OTHER, f"{one}-{name}", name, labels={one: "1"}, features=VENDOR)
    kinds.rules(f"objects-{name}", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    all_of_it = {F + key: "1" for key in ("cpu-a", "grower", "goner", "card")}
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    await until(lambda: labels_of(place, name) == all_of_it)
    await master.stop()
    for one in ("grower", "goner"):
        kinds.edit_features(OTHER, f"{one}-{name}", labels=too_much)
    master = await masters.start()
    await send(master, worker.report({F + "cpu-a": "1", F + "cpu-b": "1"}))
    await until(lambda: labels_of(place, name) == all_of_it | {F + "cpu-b": "1"})
    kinds.delete(f"namespaces/{OTHER}/nodefeatures/goner-{name}")
    await until(lambda: F + "goner" not in labels_of(place, name))
    assert F + "card" in labels_of(place, name)
    mended = dict.fromkeys(too_much) | {"grower": None, "other": "1"}
    kinds.edit_features(OTHER, f"grower-{name}", labels=mended, features=None)
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1", F + "cpu-b": "1", F + "other": "1"})


async def test_deleted_invalid_objects_cause_one_pass_over_all_nodes(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """Whoever may create such objects may repeat it; what happens meanwhile on the node itself is not delayed."""
    too_much = {f"n{number}": "x" * 60 for number in range(600)}
    master = await masters.start()
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1"})
    resources = master._resources
    assert isinstance(resources, CustomResources)
    passes: list[str] = []
    queue = resources._queue

    class Counted(Queue):
        """What custom resources ask for; the watch of Nodes asks the master's own queue."""

        def add(self, node: str, *, urgent: bool = False) -> None:
            passes.append(node)
            queue.add(node, urgent=urgent)

        def add_later(self, node: str, seconds: float, *, urgent: bool = False) -> None:
            passes.append(node)
            queue.add_later(node, seconds, urgent=urgent)

    resources._queue = Counted()
    for number in range(10):
        one = f"wrong-{number}"
        kinds.features(OTHER, one, None, labels=too_much)
        await until(lambda one=one: (OTHER, one) in resources.objects.invalid)  # type: ignore[misc]
        kinds.delete(f"namespaces/{OTHER}/nodefeatures/{one}")
        await until(lambda one=one: (OTHER, one) not in resources.objects.invalid)  # type: ignore[misc]
    await until(lambda: name in passes)
    kinds.features(OTHER, "right", name, labels={"right": "1"})
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1", F + "right": "1"})
    assert passes.count(name) == 2, "one for all deleted objects, one for the valid object"


async def test_restrictions(place: Cluster, masters: RuleMasters, kinds: Kinds, name: str) -> None:
    kinds.namespace(OTHER, {"trusted": "no"})
    kinds.namespace(OWN, {"trusted": "yes"})
    kinds.features(OTHER, "other", name, labels={"other": "1"}, features=VENDOR)
    kinds.features(OWN, "own", name, labels={"own": "1"}, features=VENDOR)
    kinds.rules("restricted", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    selector = NamespaceSelector(match_labels={"trusted": "yes"})
    master = await masters.start(selector=selector)
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1", F + "own": "1", F + "card": "1"}
    kinds.namespace(OTHER, {"trusted": "yes"})
    await until(lambda: F + "other" in labels_of(place, name))
    await master.stop()
    denying = await masters.start(deny_labels=True)
    await send(denying, Worker(name, started=2).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1", F + "card": "1"}


async def test_objects_that_fit_nowhere_are_reported(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nfd")
    kinds.features(OTHER, "nobody", None, labels={"a": "1"})
    kinds.features(OTHER, "elsewhere", "no-such-node", labels={"a": "1"})
    kinds.features(OTHER, "here", name, labels={"a": "1"})
    master = await masters.start()
    await send(master, Worker(name).report({}))
    assert labels_of(place, name) == {F + "a": "1"}
    assert "NodeFeature names no node" in caplog.messages
    assert "the node of a NodeFeature does not exist" in caplog.messages
    told = re.search(
        r"^nfd_master_nodefeatures_without_node (\d+)$", render(master.metrics.families(), openmetrics=False), re.M
    )
    assert told is not None
    assert int(told[1]) >= 2  # other tests may have left some


async def test_nfds_own_worker_speaks_through_its_object(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """From 0.17 on it has no gRPC; its object is a whole report, until one of our workers speaks."""
    kinds.features(OWN, name, name, labels={F + "cpu-a": "1"}, features=VENDOR)
    kinds.rules("through", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    master = await masters.start()
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "1", F + "card": "1"})
    kinds.edit_features(OWN, name, labels={F + "cpu-a": None, F + "cpu-b": "1"})
    await until(lambda: labels_of(place, name) == {F + "cpu-b": "1", F + "card": "1"})
    await send(master, Worker(name).report({F + "cpu-c": "1"}))
    assert labels_of(place, name) == {F + "cpu-c": "1"}
    await master.stop()
    mark = place.plane.mark()
    second = await masters.start()
    await second.queue.idle()
    assert place.plane.writes(mark) == []


async def test_rules_act_on_objects_alone_where_no_worker_ever_spoke(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """As in NFD, also for the master after; a worker's report then joins, and from then on its silence is no news."""
    kinds.rules("alone", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    kinds.features(OTHER, "lonely", name, labels={"a": "1"}, features=VENDOR)
    master = await masters.start()
    await until(lambda: labels_of(place, name) == {F + "a": "1", F + "card": "1"})
    await master.stop()
    kinds.edit_features(OTHER, "lonely", features={"attributes": {"vendor.card": None}})
    second = await masters.start()
    await until(lambda: labels_of(place, name) == {F + "a": "1"})
    kinds.edit_features(OTHER, "lonely", features=VENDOR)
    await until(lambda: labels_of(place, name) == {F + "a": "1", F + "card": "1"})
    await send(second, Worker(name).report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: labels_of(place, name) == {F + "a": "1", F + "card": "1", F + "cpu-a": "1"})
    await second.stop()
    mark = place.plane.mark()
    third = await masters.start()
    await third.queue.idle()
    assert place.plane.writes(mark) == []


async def test_the_last_object_takes_along_what_rules_made_of_it(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    kinds.rules("last", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    kinds.features(OTHER, "last", name, features=VENDOR)
    await masters.start()
    await until(lambda: labels_of(place, name) == {F + "card": "1"})
    kinds.delete(f"namespaces/{OTHER}/nodefeatures/last")
    await until(lambda: labels_of(place, name) == {})
    await until(lambda: notes_of(place, name) == {})


async def test_a_group_whose_problem_is_solved_has_none(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    terms = {key: value for key, value in rule().items() if key in ("name", "matchFeatures")}
    number = {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "Gt", "value": ["1"]}}}
    kinds.group(OWN, "solved", {**terms, "matchFeatures": [number]})
    path = f"namespaces/{OWN}/nodefeaturegroups/solved"
    await send(await masters.start(groups=True), Worker(name).report({}, features=PCI))
    await until(lambda: "problems" in kinds.get(path).get("status", {}))
    place.plane.request("PATCH", f"{API}/{path}", {"spec": {"featureGroupRules": [terms]}})
    await until(lambda: kinds.get(path)["status"] == {"nodes": [{"name": name}], "count": 1, "truncated": False})


async def test_groups_list_their_nodes(place: Cluster, masters: RuleMasters, kinds: Kinds, name: str) -> None:
    """By the names of the Nodes, and also while a restarted master has heard of none of them."""
    other = f"{name}-b"
    place.create(other, {}, {}, BOOT)
    terms = {key: value for key, value in rule().items() if key in ("name", "matchFeatures")}
    kinds.group(OWN, "gpus", terms)
    kinds.group(OTHER, "ignored", terms)
    master = await masters.start(groups=True)
    await send(master, Worker(name).report({}, features=PCI))
    await send(master, Worker(other).report({}))
    path = f"namespaces/{OWN}/nodefeaturegroups/gpus"
    await until(lambda: kinds.get(path).get("status", {}).get("count") == 1)
    assert kinds.get(path)["status"] == {"nodes": [{"name": name}], "count": 1, "truncated": False}
    await master.stop()
    mark = place.plane.mark()
    second = await masters.start(groups=True)
    await send(second, Worker(other, started=2).report({}))
    await second.queue.idle()
    await send(second, Worker(name, started=2).report({}, features=PCI))
    assert place.plane.writes(mark, "nodefeaturegroups") == []
    assert "status" not in kinds.get(f"namespaces/{OTHER}/nodefeaturegroups/ignored")
    place.delete(other)


async def test_a_flood_of_objects_affects_its_node_alone(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """Objects of other namespaces are used, what surplus objects gave stays, and a metric tells of them."""
    kinds.features(OTHER, f"z-{name}", name, labels={"z": "1"})
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}))
    await until(lambda: F + "z" in labels_of(place, name))
    for number in range(2):
        kinds.features(OTHER, f"a{number}-{name}", name, labels={f"t.io/{number}-{at}": "" for at in range(2500)})
    kinds.features(OWN, f"z-{name}", name, labels={"own": "1"})
    await until(lambda: F + "own" in labels_of(place, name))
    await until(lambda: master.metrics.gauges()["surplus_nodefeatures"] == 1)
    await send(master, worker.report({F + "cpu-a": "2"}))
    found = labels_of(place, name)
    assert {key: found[key] for key in found if key.startswith(F)} == {
        F + "cpu-a": "2", F + "own": "1", F + "z": "1"
    }  # fmt: skip
    assert sum(key.startswith("t.io/0-") for key in found) == 2500
    assert not any(key.startswith("t.io/1-") for key in found)
