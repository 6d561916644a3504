"""This master → NFD → this master: the objects of NFD's workers are used, or the reason why not is given."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from nfd.master.config import NamespaceSelector
from nfd.master.rules.nodefeatures import AWAITED, REPORTED, REPORTED_BEFORE, UNLABELLED, UNSELECTED
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import OTHER, OWN, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
LIST = "nfd.node.kubernetes.io/feature-labels"
ORIGINS = "nfd.node.kubernetes.io/origins"
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


@pytest.fixture
def ignored(caplog: pytest.LogCaptureFixture) -> Ignored:
    caplog.set_level("INFO", "nfd")
    return Ignored(caplog)


@dataclass(frozen=True)
class Ignored:
    """Object and reason of each line so far that says that one is ignored."""

    caplog: pytest.LogCaptureFixture

    def about(self, name: str) -> list[tuple[str, str]]:
        records = [one for one in self.caplog.records if one.getMessage() == "NodeFeature ignored"]
        fields = [one.__dict__["fields"] for one in records]
        return [(one["path"], one["error"]) for one in fields if one["node"] == name]


async def labelled_by_our_worker(place: Cluster, masters: RuleMasters, name: str) -> None:
    """And its master is gone."""
    master = await masters.start()
    await send(master, Worker(name).report({F + "cpu-a": "1", F + "cpu-b": "1", F + "pci-ours": "1"}))
    assert json.loads(notes_of(place, name)[ORIGINS])["boot"] == BOOT
    await master.stop()


def written_by_nfd(place: Cluster, name: str) -> None:
    """NFD's master takes off what it does not want, and writes its list; `origins` means nothing to it."""
    gone = {F + "pci-ours": None}
    place.edit(name, {"metadata": {"labels": gone, "annotations": {LIST: "cpu-a,cpu-b"}}})


def edit_record(place: Cluster, name: str, **fields: object) -> None:
    record = {**json.loads(notes_of(place, name)[ORIGINS]), **fields}
    text = json.dumps({key: value for key, value in record.items() if value is not None})
    place.edit(name, {"metadata": {"annotations": {ORIGINS: text}}})


async def test_a_changed_object_counts_where_nfd_wrote_the_lists_since(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, ignored: Ignored
) -> None:
    """The boot id in our record is of no account then, whether a worker of ours will speak again or not."""
    await labelled_by_our_worker(place, masters, name)
    written_by_nfd(place, name)
    kinds.features(OWN, name, name, labels={F + "cpu-a": "1", F + "cpu-b": "1"})
    mark = place.plane.mark()
    await masters.start()
    kinds.edit_features(OWN, name, labels={F + "cpu-a": "2", F + "cpu-b": None, F + "cpu-c": "1"})
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2", F + "cpu-c": "1"}, 10)
    assert ignored.about(name) == []
    assert len([event for event in place.plane.writes(mark) if event.name == name]) <= 3, "one is the test's own edit"


async def test_an_object_is_ignored_where_our_worker_is_known_to_speak_and_that_is_said_once(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, ignored: Ignored
) -> None:
    await labelled_by_our_worker(place, masters, name)
    kinds.features(OWN, name, name, labels={F + "cpu-a": "stale"})
    before = labels_of(place, name)
    master = await masters.start()
    await until(lambda: ignored.about(name) == [(f"{OWN}/{name}", REPORTED_BEFORE)])
    for value in ("2", "3"):
        kinds.edit_features(OWN, name, labels={F + "cpu-a": value})
    await master.queue.idle()
    assert labels_of(place, name) == before
    await send(master, Worker(name, started=2).report({F + "cpu-a": "1"}))
    await send(master, Worker(name, started=3).report({F + "cpu-a": "1"}))
    assert ignored.about(name) == [(f"{OWN}/{name}", REPORTED_BEFORE), (f"{OWN}/{name}", REPORTED)]
    assert labels_of(place, name) == {F + "cpu-a": "1"}


@pytest.mark.parametrize("edit", [{"proof": None}, {"proof": "A" * 22}], ids=["release before", "rolled key"])
async def test_an_object_that_may_be_a_leftover_takes_no_label_until_it_changes(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, ignored: Ignored, edit: dict[str, str | None]
) -> None:
    """Where nobody else wrote the lists, but the record cannot be proven: our worker will speak, unless NFD's does."""
    await labelled_by_our_worker(place, masters, name)
    edit_record(place, name, **edit)
    kinds.features(OWN, name, name, labels={F + "cpu-a": "1"})
    before = labels_of(place, name)
    master = await masters.start()
    await until(lambda: ignored.about(name) == [(f"{OWN}/{name}", AWAITED)])
    await master.queue.idle()
    assert labels_of(place, name) == before
    kinds.edit_features(OWN, name, labels={F + "cpu-a": "2"})
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2"}, 10)


async def test_an_object_whose_owner_is_there_is_no_leftover(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """NFD's workers name their pod and DaemonSet, and the API server removes the object after them."""
    await labelled_by_our_worker(place, masters, name)
    edit_record(place, name, proof=None)
    kinds.features(OWN, name, name, labels={F + "cpu-a": "2"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "nfd-worker-x", "uid": "8c0a2d6e-0000-4000-8000-000000000001"}
    path = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{OWN}/nodefeatures/{name}"
    place.plane.request("PATCH", path, {"metadata": {"ownerReferences": [owner]}})
    await masters.start()
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2"}, 10)


async def test_what_the_configuration_leaves_out_of_objects_is_said(
    masters: RuleMasters, kinds: Kinds, name: str, ignored: Ignored
) -> None:
    kinds.namespace(OTHER, {"trusted": "no"})
    kinds.namespace(OWN, {"trusted": "yes"})
    kinds.features(OTHER, "other", name, labels={"other": "1"})
    kinds.features(OWN, "own", name, labels={"own": "1"})
    selector = NamespaceSelector(match_labels={"trusted": "yes"})
    master = await masters.start(selector=selector, deny_labels=True)
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    await send(master, Worker(name).report({F + "cpu-a": "2"}))
    assert sorted(ignored.about(name)) == [(f"{OTHER}/other", UNSELECTED), (f"{OWN}/own", UNLABELLED)]
    assert ignored.caplog.messages.count("NodeFeature ignored") == 2


@pytest.mark.parametrize("proof", [None, "A" * 22], ids=["release before", "rolled key"])
async def test_a_node_of_third_parties_alone_stays_one_without_a_proof(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, proof: str | None
) -> None:
    """What is on it is just what the objects and the rules make; so the rules go on to be followed there."""
    kinds.rules("alone", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    kinds.features(OTHER, "lonely", name, labels={"a": "1"}, features=VENDOR)
    master = await masters.start()
    await until(lambda: labels_of(place, name) == {F + "a": "1", F + "card": "1"})
    await master.stop()
    edit_record(place, name, proof=proof)
    second = await masters.start()
    await second.queue.idle()
    assert labels_of(place, name) == {F + "a": "1", F + "card": "1"}
    kinds.delete("nodefeaturerules/alone")
    await until(lambda: labels_of(place, name) == {F + "a": "1"}, 10)


async def test_a_node_that_says_of_itself_that_no_worker_ever_spoke_is_not_believed(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    kinds.rules("alone", rule(vendor="x", feature="vendor.card", labels={"card": "1"}))
    await labelled_by_our_worker(place, masters, name)
    edit_record(place, name, alone=True, boot=None)
    before = labels_of(place, name)
    kinds.features(OTHER, "lonely", name, labels={"a": "1"}, features=VENDOR)
    master = await masters.start()
    await until(lambda: labels_of(place, name) == before | {F + "a": "1"})
    await master.queue.idle()
    assert labels_of(place, name) == before | {F + "a": "1"}
