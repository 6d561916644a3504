"""The bookkeeping annotations, byte for byte."""

from __future__ import annotations

import json

import pytest

from nfd.master.ownership import Owned, implied_origin, parse_owned, render_owned
from nfd.store.base import Kind

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"


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
    notes = render_owned(owned)
    assert notes[N + "feature-labels"] == "/bare,cpu-a,pci-b,vendor.io/x"
    assert notes[N + "feature-annotations"] == "note"
    assert notes[N + "extended-resources"] == "vendor.io/r"
    assert notes[N + "taints"] == "vendor.io/e:NoExecute,vendor.io/t=v:NoSchedule"
    assert parse_owned(notes) == Owned(owned.keys, {**owned.taints, "vendor.io/e:NoExecute": ""})


def test_origins_name_exceptions_only_and_are_short() -> None:
    gpu = {f"nvidia.com/gpu.{number}": "nvidia" for number in range(20)}
    built_in = {f"{F}cpu-cpuid.{number}": "cpu" for number in range(80)}
    notes = render_owned(Owned({Kind.LABELS: {**gpu, **built_in, F + "mine": "local"}}, boot_id="0" * 36))
    record = json.loads(notes[N + "origins"])
    assert record["labels"] == {"local": ["mine"], "nvidia": ["nvidia.com/*"]}
    assert len(notes[N + "origins"]) < 150


def test_instance_prefixes_all_but_the_taints() -> None:
    owned = Owned({Kind.LABELS: {F + "cpu-a": "cpu"}, Kind.TAINTS: {"v.io/t:NoSchedule": "rule:o/r"}})
    notes = render_owned(owned, "blue")
    assert set(notes) == {"blue." + N + "feature-labels", "blue." + N + "origins", N + "taints"}
    assert parse_owned(notes, "blue").of(Kind.LABELS) == {F + "cpu-a": "cpu"}
    assert parse_owned(notes).of(Kind.LABELS) == {}


def test_a_node_without_a_worker_is_known_as_such_until_somebody_else_writes_a_list() -> None:
    notes = render_owned(Owned({Kind.LABELS: {F + "a": "object:o/a"}}, alone=True))
    assert parse_owned(notes).alone
    assert not parse_owned({**notes, N + "feature-labels": "a,b"}).alone
    assert not parse_owned({**notes, N + "origins": notes[N + "origins"].replace("true", "1")}).alone
    assert render_owned(Owned(alone=True)) == {}


def test_origins_are_unknown_once_somebody_else_wrote_a_list() -> None:
    notes = render_owned(Owned({Kind.LABELS: {F + "cpu-a": "cpu", F + "mine": "local"}}, boot_id="b"))
    notes[N + "feature-labels"] += ",more"
    owned = parse_owned(notes)
    assert owned.of(Kind.LABELS) == {F + "cpu-a": None, F + "mine": None, F + "more": None}
    assert owned.boot_id == "b"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '{"labels":7}', '{"lists":[],"labels":{"a":{}}}', "[" * 10_000]
)
def test_nonsense_in_origins_means_unknown(text: str) -> None:
    notes = {N + "feature-labels": "cpu-a,,mine", N + "taints": "nonsense,,k:e", N + "origins": text}
    owned = parse_owned(notes)
    assert owned.of(Kind.LABELS) == {F + "cpu-a": None, F + "mine": None}
    assert owned.of(Kind.TAINTS) == {"k:e": None}


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
