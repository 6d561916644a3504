"""The bookkeeping annotations, byte for byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping

import pytest

from nfd.master.node.ownership import (
    CLAIMED,
    FOREIGN,
    OTHER_KEY,
    UNSIGNED,
    Owned,
    implied_origin,
    parse_owned,
    render_owned,
)
from nfd.master.node.proof import ASSUMED, Proof
from nfd.store.base import Kind
from tests.master.places import PROOF

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"
UID = "8c0a2d6e-0000-4000-8000-000000000001"
Notes = dict[str, str]


def render(owned: Owned, instance: str = "") -> Notes:
    return render_owned(owned, instance, UID, PROOF)


def parse(notes: Mapping[str, str], instance: str = "") -> Owned:
    return parse_owned(notes, instance, UID, PROOF)


def test_lists_are_nfds_own() -> None:
    owned = Owned(
        {
            Kind.LABELS: {F + "pci-b": "pci", F + "cpu-a": "cpu", "vendor.io/x": "local", "bare": "local"},
            Kind.ANNOTATIONS: {F + "note": "rule:o/r"},
            Kind.RESOURCES: {"vendor.io/r": "rule:o/r"},
            Kind.TAINTS: {"vendor.io/t:NoSchedule": "rule:o/r", "vendor.io/e:NoExecute": "rule:o/r"},
        },
        taints={"vendor.io/t:NoSchedule": "v"},
    )
    notes = render(owned)
    assert notes[N + "feature-labels"] == "/bare,cpu-a,pci-b,vendor.io/x"
    assert notes[N + "feature-annotations"] == "note"
    assert notes[N + "extended-resources"] == "vendor.io/r"
    assert notes[N + "taints"] == "vendor.io/t=v:NoSchedule,vendor.io/e:NoExecute", "in the order of the rules"
    assert parse(notes) == Owned(owned.keys, {**owned.taints, "vendor.io/e:NoExecute": ""})


def test_origins_name_exceptions_only_and_are_short() -> None:
    gpu = {f"nvidia.com/gpu.{number}": "nvidia" for number in range(20)}
    built_in = {f"{F}cpu-cpuid.{number}": "cpu" for number in range(80)}
    notes = render(Owned({Kind.LABELS: {**gpu, **built_in, F + "mine": "local"}}, boot_id="0" * 36))
    record = json.loads(notes[N + "origins"])
    assert record["labels"] == {"local": ["mine"], "nvidia": ["nvidia.com/*"]}
    assert len(notes[N + "origins"]) < 185


def test_instance_prefixes_all_but_the_taints() -> None:
    owned = Owned({Kind.LABELS: {F + "cpu-a": "cpu"}, Kind.TAINTS: {"v.io/t:NoSchedule": "rule:o/r"}})
    notes = render(owned, "blue")
    assert set(notes) == {"blue." + N + "feature-labels", "blue." + N + "origins", N + "taints"}
    assert parse(notes, "blue").of(Kind.LABELS) == {F + "cpu-a": "cpu"}
    assert parse(notes).of(Kind.LABELS) == {}


def test_a_node_without_a_worker_is_known_as_such_until_somebody_else_writes_a_list() -> None:
    notes = render(Owned({Kind.LABELS: {F + "a": "object:o/a"}}, alone=True))
    assert parse(notes).alone
    assert not parse({**notes, N + "feature-labels": "a,b"}).alone
    assert not parse({**notes, N + "origins": notes[N + "origins"].replace("true", "1")}).alone
    assert render(Owned(alone=True)) == {}


def test_origins_are_unknown_once_somebody_else_wrote_a_list() -> None:
    notes = render(Owned({Kind.LABELS: {F + "cpu-a": "cpu", F + "mine": "local"}}, boot_id="b"))
    notes[N + "feature-labels"] += ",more"
    owned = parse(notes)
    assert owned.of(Kind.LABELS) == {F + "cpu-a": CLAIMED, F + "mine": CLAIMED, F + "more": CLAIMED}
    assert (owned.boot_id, owned.doubt, owned.hint) == ("", FOREIGN, False), "nothing of the record counts"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '{"labels":7}', '{"lists":[],"labels":{"a":{}}}', "[" * 10_000]
)
def test_nonsense_in_origins_means_unknown(text: str) -> None:
    notes = {N + "feature-labels": "cpu-a,,mine", N + "taints": "nonsense,,k:e", N + "origins": text}
    owned = parse(notes)
    assert owned.of(Kind.LABELS) == {F + "cpu-a": CLAIMED, F + "mine": CLAIMED}
    assert owned.of(Kind.TAINTS) == {"k:e": CLAIMED}


def rewritten(notes: Notes, **fields: object) -> Notes:
    """With other fields in the record; None takes one out."""
    record = {**json.loads(notes[N + "origins"]), **fields}
    return {**notes, N + "origins": json.dumps({key: value for key, value in record.items() if value is not None})}


def digest(notes: Notes) -> str:
    """What anybody can work out: it proves nothing."""
    lists = [
        notes.get(N + name, "") for name in ("feature-labels", "feature-annotations", "extended-resources", "taints")
    ]
    return hashlib.blake2b("\n".join(lists).encode(), digest_size=4).hexdigest()


def more(notes: Notes) -> Notes:
    return {**notes, N + "feature-labels": notes[N + "feature-labels"] + ",node-restriction.kubernetes.io/tenant"}


def older(notes: Notes) -> str:
    """The proof of an earlier list on this Node."""
    record = json.loads(render(Owned({Kind.LABELS: {F + "old": "local"}}, boot_id="b"))[N + "origins"])
    return str(record["proof"])


FORGED: dict[str, tuple[Callable[[Notes], Notes], str]] = {
    "no proof": (lambda notes: rewritten(notes, proof=None), UNSIGNED),
    "empty": (lambda notes: rewritten(notes, proof=""), OTHER_KEY),
    "no text": (lambda notes: rewritten(notes, proof=7), OTHER_KEY),
    "no ASCII": (lambda notes: rewritten(notes, proof="\udc80é"), OTHER_KEY),
    "longer list": (more, FOREIGN),
    "longer list, its digest": (lambda notes: rewritten(more(notes), lists=digest(more(notes))), OTHER_KEY),
    "longer list, its digest, no proof": (
        lambda notes: rewritten(more(notes), lists=digest(more(notes)), proof=None),
        UNSIGNED,
    ),
    "proof of an earlier list": (lambda notes: rewritten(notes, proof=older(notes)), OTHER_KEY),
    "another boot": (lambda notes: rewritten(notes, boot="c"), OTHER_KEY),
    "another origin": (lambda notes: rewritten(notes, labels={"cpu": ["mine"]}), OTHER_KEY),
    "alone": (lambda notes: rewritten(notes, alone=True), OTHER_KEY),
    "one field more": (lambda notes: rewritten(notes, x=[[]]), OTHER_KEY),
}


@pytest.mark.parametrize("name", FORGED)
def test_nothing_of_a_record_counts_unless_its_proof_holds(name: str) -> None:
    forge, doubt = FORGED[name]
    genuine = render(Owned({Kind.LABELS: {F + "cpu-a": "cpu", F + "mine": "local"}}, boot_id="b"))
    assert parse(genuine).of(Kind.LABELS) == {F + "cpu-a": "cpu", F + "mine": "local"}
    owned = parse(forge(genuine))
    assert {*owned.of(Kind.LABELS).values()} == {CLAIMED}
    assert (owned.boot_id, owned.alone, owned.doubt) == ("", False, doubt)


def test_a_proof_is_for_one_node_one_instance_and_one_key() -> None:
    owned = Owned({Kind.LABELS: {F + "cpu-a": "cpu"}}, boot_id="b")
    notes = render(owned)
    assert parse(notes).boot_id == "b"
    assert parse_owned(notes, "", "another uid", PROOF).boot_id == ""
    assert parse_owned(notes, "", UID, Proof(b"another key" * 3)).boot_id == ""
    assert parse_owned(notes, "", UID, Proof()).boot_id == ""
    blue = {f"blue.{key}": text for key, text in notes.items()}
    assert parse(blue, "blue").of(Kind.LABELS) == {F + "cpu-a": CLAIMED}


def test_a_record_of_the_release_before_is_read_as_a_hint_and_ours_by_it() -> None:
    """It had the digest alone; it goes on to be written, so that the way back is open."""
    notes = render(Owned({Kind.LABELS: {F + "cpu-a": "cpu", F + "mine": "local"}}, boot_id="b"))
    assert json.loads(notes[N + "origins"])["lists"] == digest(notes)
    before = rewritten(notes, proof=None)
    owned = parse(before)
    assert (owned.boot_id, owned.hint, owned.doubt) == ("", True, UNSIGNED)
    assert not parse(rewritten(before, boot=None)).hint
    assumed = parse_owned(before, "", UID, ASSUMED)
    assert (assumed.boot_id, assumed.of(Kind.LABELS)) == ("b", {F + "cpu-a": "cpu", F + "mine": "local"})


def test_keys_that_nobody_vouched_for_stay_claims_when_they_are_written() -> None:
    owned = Owned({Kind.LABELS: {F + "cpu-a": "cpu", F + "b": CLAIMED}, Kind.TAINTS: {"v.io/t:NoSchedule": CLAIMED}})
    notes = render(owned)
    assert json.loads(notes[N + "origins"])["labels"] == {"?": ["b"]}
    assert parse(notes).keys[Kind.LABELS] == owned.of(Kind.LABELS)
    assert parse(notes).of(Kind.TAINTS) == {"v.io/t:NoSchedule": CLAIMED}


def test_many_keys_without_a_source_make_no_long_record() -> None:
    """An NFD worker's report names none."""
    owned = Owned({Kind.LABELS: {f"{F}cpu-cpuid.{number}": None for number in range(80)}})
    notes = render(owned)
    assert json.loads(notes[N + "origins"])["labels"] == {"-": ["*"]}
    assert len(notes[N + "origins"]) < 100
    assert parse(notes).of(Kind.LABELS) == owned.of(Kind.LABELS)
    ruled = {F + "ruled": "rule:o/r", "v.io/x": "rule:o/r", "v.io/y": "rule:o/s", "w.io/z": None}
    mixed = Owned({Kind.LABELS: {**owned.of(Kind.LABELS), **ruled}})
    notes = render(mixed)
    groups = {"-": ["*"], "rule:o/r": ["ruled", "v.io/x"], "rule:o/s": ["v.io/y"]}
    assert json.loads(notes[N + "origins"])["labels"] == groups
    assert parse(notes).of(Kind.LABELS) == mixed.of(Kind.LABELS)


def test_a_key_that_ends_with_the_process_adds_no_record_where_there_was_none() -> None:
    owned = Owned({Kind.LABELS: {F + "cpu-a": None}})
    assert render_owned(owned, "", UID, Proof.of_this_process()).keys() == {N + "feature-labels"}


@pytest.mark.parametrize(
    ("key", "origin"),
    [
        (F + "cpu-a", "cpu"),
        (F + "pci-0300_10de.present", "pci"),
        (F + "mine", None),
        ("v.io/cpu-a", None),
        ("cpu-a", None),
    ],
)
def test_implied_origin(key: str, origin: str | None) -> None:
    assert implied_origin(key) == origin


def test_nobody_without_a_key_makes_or_believes_a_proof() -> None:
    """Nor is a key believed that everybody has: the empty one."""
    genuine = render(Owned({Kind.LABELS: {F + "cpu-a": "cpu"}}, boot_id="b"))
    record = json.loads(genuine[N + "origins"])
    lists = [
        genuine.get(N + name, "") for name in ("feature-labels", "feature-annotations", "extended-resources", "taints")
    ]
    del record["proof"]
    empty = rewritten(genuine, proof=Proof().make(UID, "", record, lists))
    assert parse_owned(empty, "", UID, Proof()).doubt == OTHER_KEY
    assert "proof" not in render_owned(Owned({Kind.LABELS: {F + "cpu-a": "cpu"}}), "", UID)[N + "origins"]
