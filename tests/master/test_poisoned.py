"""What a kubelet writes into the lists on its Node removes nothing that the API server forbids it to remove."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pytest

from nfd.master.node.ownership import CLAIMED, Owned, render_owned
from nfd.master.node.prune import prune
from nfd.rules.policy import Policy
from nfd.store.base import Kind
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fixtures import KUBELET, KUBELET_NODE
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import PROOF, Cluster, Json, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"
FORBIDDEN = {
    "node-restriction.kubernetes.io/tenant": "a",
    "node-role.kubernetes.io/control-plane": "",
    "kubernetes.io/role": "infra",
    "pool.k8s.io/name": "p",
}
"""Labels that NodeRestriction keeps from kubelets."""
DENIED = {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "h", "company.example/tenant": "a"}
"""Labels that the master's policy denies, and kubelets may write."""
TAINTS = (
    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"},
    {"key": "company.example/dedicated", "value": "team", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "team", "effect": "NoExecute"},
)
THEIRS = FORBIDDEN | DENIED
POLICY = Policy(deny_label_ns=frozenset({"company.example"}))
OURS = {F + "cpu-a": "1", F + "pci-b": "1", "vendor.io/c": "1"}
OLD_UID = "8c0a2d6e-0000-4000-8000-000000000001"
Notes = dict[str, str]


def taint_text(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if "value" in taint else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def listed(notes: Mapping[str, str]) -> Notes:
    """The lists with everything of others in them."""
    labels = notes.get(N + "feature-labels", "").split(",")
    return {
        N + "feature-labels": ",".join(filter(None, (*labels, *THEIRS))),
        N + "taints": ",".join(map(taint_text, TAINTS)),
    }


def digest(notes: Mapping[str, str]) -> str:
    """The one that records have had before they had a proof: anybody can work it out."""
    texts = [
        notes.get(N + one, "") for one in ("feature-labels", "feature-annotations", "extended-resources", "taints")
    ]
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=4).hexdigest()


def with_record(notes: Mapping[str, str], **fields: object) -> Notes:
    """And a record of this kind for them: source `cpu`, which scans well, would be where all of it is from."""
    lists = listed(notes)
    record = {"boot": BOOT, "lists": digest(lists), "labels": {"cpu": [*THEIRS]}, **fields}
    return lists | {N + "origins": json.dumps(record, separators=(",", ":"), sort_keys=True)}


def proven(uid: str, instance: str = "") -> Notes:
    """What a master of ours would have written on the Node of that uid, had it been told to set all of it."""
    keys = {Kind.LABELS: dict.fromkeys(OURS | THEIRS, "cpu")}
    keys[Kind.TAINTS] = {f"{taint['key']}:{taint['effect']}": "rule:o/r" for taint in TAINTS}
    values = {f"{taint['key']}:{taint['effect']}": taint.get("value", "") for taint in TAINTS}
    notes = render_owned(Owned(keys, values, BOOT), instance, uid, PROOF)
    return {key.removeprefix(f"{instance}.") if instance else key: text for key, text in notes.items()}


def record_of(notes: Mapping[str, str]) -> Json:
    found: Json = json.loads(notes.get(N + "origins", "{}"))
    return found


POISONS: dict[str, Callable[[Mapping[str, str], str], Notes]] = {
    "longer lists": lambda notes, uid: listed(notes),
    "longer lists and no record": lambda notes, uid: listed(notes) | {N + "origins": ""},
    "the old digest": lambda notes, uid: with_record(notes),
    "the old digest, and no boot": lambda notes, uid: with_record(notes, boot=""),
    "a made-up proof": lambda notes, uid: with_record(notes, proof="A" * 22),
    "the proof of the list before": lambda notes, uid: with_record(notes, proof=record_of(notes).get("proof")),
    "the whole record of the list before": lambda notes, uid: listed(notes) | {N + "origins": notes[N + "origins"]},
    "a record that says alone": lambda notes, uid: with_record(notes, alone=True),
    "the record of another Node": lambda notes, uid: proven(OLD_UID),
    "the record of the Node before of this name": lambda notes, uid: proven(
        uid[:-1] + ("0" if uid[-1] != "0" else "1")
    ),
    "the record of another instance": lambda notes, uid: proven(uid, "blue"),
    "a record that is no JSON": lambda notes, uid: listed(notes) | {N + "origins": "{"},
}


@dataclass
class Poisoned:
    """The Node of the kubelet that may log in, with what others set on it."""

    place: Cluster
    name: str = KUBELET_NODE

    def create(self) -> None:
        self.place.create(self.name, THEIRS, {}, BOOT)
        self.place.edit(self.name, {"spec": {"taints": [dict(taint) for taint in TAINTS]}})

    def write(self, notes: Mapping[str, str | None]) -> None:
        """As the kubelet."""
        body: Json = {"metadata": {"annotations": dict(notes)}}
        path = f"/api/v1/nodes/{self.name}?fieldManager=nfd-gfd"
        self.place.plane.request("PATCH", path, body, user=KUBELET)

    def poison(self, variant: str) -> None:
        found = self.place.get(self.name)["metadata"]
        self.write(POISONS[variant](found.get("annotations", {}), found["uid"]))

    def check(self) -> None:
        """Everything of others is there."""
        node = self.place.get(self.name)
        assert THEIRS.items() <= node["metadata"]["labels"].items()
        taints = [{key: text for key, text in taint.items() if key != "timeAdded"} for taint in node["spec"]["taints"]]
        assert sorted(map(taint_text, taints)) == sorted(map(taint_text, TAINTS))


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def node(place: Cluster) -> Iterator[Poisoned]:
    found = Poisoned(place)
    found.create()
    yield found
    place.delete(found.name)


def test_the_api_server_keeps_kubelets_from_these_labels_and_taints_but_not_from_the_lists(node: Poisoned) -> None:
    """What the other tests rest on: NodeRestriction is on, and annotations are free."""
    plane, path = node.place.plane, f"/api/v1/nodes/{node.name}"
    for key in FORBIDDEN:
        with pytest.raises(ApiError, match="403"):
            plane.request("PATCH", path, {"metadata": {"labels": {key: None}}}, user=KUBELET)
    with pytest.raises(ApiError, match="403"):
        plane.request("PATCH", path, {"spec": {"taints": None}}, user=KUBELET)
    node.write({N + "feature-labels": "anything"})
    assert notes_of(node.place, node.name)[N + "feature-labels"] == "anything"


@pytest.mark.parametrize("variant", POISONS)
async def test_nothing_of_others_goes_whatever_a_kubelet_writes(node: Poisoned, masters: Masters, variant: str) -> None:
    """Under a master that runs, under the next one, before any report, and with --prune."""
    place, name, worker = node.place, node.name, Worker(node.name)
    master = await masters.start(policy=POLICY)
    await send(master, worker.report(OURS))
    node.poison(variant)
    await until(lambda: not {*THEIRS} & {*notes_of(place, name).get(N + "feature-labels", "").split(",")})
    await master.queue.idle()
    assert labels_of(place, name) == OURS | THEIRS
    node.check()
    await send(master, worker.report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == THEIRS | {F + "cpu-a": "1"}, "what is ours, and gone, goes"
    node.check()
    await master.stop()
    node.poison(variant)
    second = await masters.start(policy=POLICY)
    await second.queue.idle()
    node.check()
    await send(second, Worker(name, started=2).report({}))
    assert labels_of(place, name) == THEIRS
    node.check()
    await send(second, Worker(name, started=2).report(OURS))
    await second.stop()
    node.poison(variant)
    store = await place.open()
    await store.start(lambda one: None)
    try:
        pruned = [planned async for planned in prune(store, "", POLICY, PROOF) if planned.node.name == name]
    finally:
        await store.close()
    assert len(pruned) == 1
    assert labels_of(place, name) == THEIRS
    node.check()


async def test_an_older_record_that_is_written_back_names_nothing_of_others(node: Poisoned, masters: Masters) -> None:
    """Its proof holds: a master wrote it on this Node. So what it names was ours, and is of no use to who wrote it."""
    place, name, worker = node.place, node.name, Worker(node.name)
    master = await masters.start(policy=POLICY)
    await send(master, worker.report(OURS))
    older = {key: text for key, text in notes_of(place, name).items() if key.startswith(N)}
    await send(master, worker.report({F + "cpu-a": "1"}))
    node.write(older)
    await until(lambda: notes_of(place, name)[N + "feature-labels"] == "cpu-a")
    await master.stop()
    node.write(older)
    second = await masters.start(policy=POLICY)
    await send(second, Worker(name, started=2).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == THEIRS | {F + "cpu-a": "1"}
    node.check()


async def test_what_policy_lets_us_write_goes_and_a_kubelet_could_have_removed_it_itself(
    node: Poisoned, masters: Masters
) -> None:
    """That is what taking over from NFD rests on."""
    place, name = node.place, node.name
    place.edit(name, {"metadata": {"labels": {"vendor.io/old": "1"}}})
    node.write({N + "feature-labels": "vendor.io/old"})
    master, worker = await masters.start(policy=POLICY), Worker(name)
    await send(master, worker.report({}, failed=("usb",)))
    assert "vendor.io/old" in labels_of(place, name), "while a source fails nobody knows what it is from"
    await send(master, worker.report({}))
    assert "vendor.io/old" not in labels_of(place, name)
    place.edit(name, {"metadata": {"labels": {"vendor.io/old": "1"}}})
    place.plane.request(
        "PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {"vendor.io/old": None}}}, user=KUBELET
    )


async def test_what_is_proven_goes_after_policy_has_changed(node: Poisoned, masters: Masters) -> None:
    """Labels that are denied now, and taints that are switched off."""
    from nfd.master.node.desired import Contribution
    from nfd.rules.model import Taint
    from tests.master.conftest import asking

    place, name = node.place, node.name
    taint = Taint(key="vendor.io/t", value="v", effect="NoSchedule")
    generous = replace(POLICY, enable_taints=True, extra_label_ns=frozenset({"extra.kubernetes.io"}))
    ask = asking([Contribution("rule:o/r", taints=(taint,))], generous)
    master, worker = await masters.start(policy=generous, evaluate=ask), Worker(name)
    given = {"vendor.io/c": "1", "extra.kubernetes.io/x": "1", F + "cpu-a": "1"}
    await send(master, worker.report(given))
    assert labels_of(place, name) == THEIRS | given
    assert "vendor.io/t=v:NoSchedule" in notes_of(place, name)[N + "taints"]
    await master.stop()
    strict = replace(POLICY, deny_label_ns=POLICY.deny_label_ns | {"vendor.io"})
    second = await masters.start(policy=strict)
    await send(second, Worker(name, started=2).report(given))
    assert labels_of(place, name) == THEIRS | {F + "cpu-a": "1", "extra.kubernetes.io/x": "1"}
    node.check()
    assert N + "taints" not in notes_of(place, name)


async def test_without_a_proof_denied_keys_and_taints_stay(node: Poisoned, masters: Masters) -> None:
    """As when NFD's lists are taken over by a master that is told to write less, or a key is gone."""
    place, name = node.place, node.name
    place.edit(name, {"metadata": {"labels": {"vendor.io/c": "1", F + "cpu-old": "1"}}})
    notes = {N + "feature-labels": "cpu-old,vendor.io/c", N + "taints": "company.example/dedicated=team:NoSchedule"}
    node.write(dict(notes))
    strict = replace(POLICY, deny_label_ns=POLICY.deny_label_ns | {"vendor.io"})
    master, worker = await masters.start(policy=strict), Worker(name)
    await send(master, worker.report({}))
    assert labels_of(place, name) == THEIRS | {"vendor.io/c": "1"}
    node.check()
    await master.stop()
    place.edit(name, {"metadata": {"annotations": dict(notes)}})
    second = await masters.start(policy=replace(strict, enable_taints=True))
    await send(second, Worker(name, started=2).report({}))
    left = [taint["key"] for taint in place.get(name)["spec"]["taints"]]
    assert left == [taint["key"] for taint in TAINTS if taint["key"] != "company.example/dedicated"]


async def test_claims_are_no_proof_after_we_wrote_the_list(node: Poisoned, masters: Masters) -> None:
    """A key that is held while a source fails is written into our list; when policy denies it later, it stays."""
    place, name = node.place, node.name
    place.edit(name, {"metadata": {"labels": {"vendor.io/c": "1"}}})
    node.write({N + "feature-labels": "vendor.io/c"})
    master, worker = await masters.start(policy=POLICY), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, failed=("usb",)))
    notes = notes_of(place, name)
    assert notes[N + "feature-labels"] == "cpu-a,vendor.io/c"
    assert record_of(notes)["labels"] == {CLAIMED: ["vendor.io/*"]}
    await master.stop()
    strict = replace(POLICY, deny_label_ns=POLICY.deny_label_ns | {"vendor.io"})
    second = await masters.start(policy=strict)
    await send(second, Worker(name, started=2).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == THEIRS | {F + "cpu-a": "1", "vendor.io/c": "1"}
