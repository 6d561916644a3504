"""What others do to our keys is noticed and put right, later each time; who shares a label with us keeps his value."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nfd.features import Features
from nfd.master.node.drift import BACKOFF, FREE, WINDOW, Drift
from nfd.master.node.outcome import Outcome
from nfd.master.node.shared_labels import SHARED_WAIT
from nfd.runtime.prometheus import render
from nfd.store.base import Kind, Patch
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Cluster, Place, labels_of, notes_of, until
from tests.master.test_inherited import NAME, Json, Leader, opened, rule

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"
PRESENT, CLIQUE = "nvidia.com/gpu.present", "nvidia.com/gpu.clique"
A, B, SHARED = (Kind.LABELS, "a"), (Kind.LABELS, "b"), (Kind.LABELS, CLIQUE)
RESTORED = "restoring keys that another writer changed"
LATER = "keys are changed repeatedly; restoring them later"


def test_a_key_comes_back_later_each_time_and_never_later_than_minutes() -> None:
    drift, now, waits = Drift(), 0.0, []
    for _ in range(20):
        waits.append(drift.note("n", [A], now)[A])
        now += waits[-1] + 1
    assert waits[:8] == [0, 0, 4, 8, 16, 32, 64, 120]
    assert set(waits[8:]) == {BACKOFF[1]}
    assert drift.note("n", [B], now) == {B: 0}
    assert drift.note("other", [A], now) == {A: 0}
    assert [drift.note("n", [SHARED], now)[SHARED] for _ in range(9)] == [0, 0, *[SHARED_WAIT] * 7]


def test_keys_are_left_alone_for_their_time_and_what_is_long_ago_does_not_count() -> None:
    drift = Drift()
    for _ in range(FREE + 1):
        drift.note("n", [A], 0.0)
    drift.note("n", [B], 0.0)
    assert drift.contested("n", 1.0) == {Kind.LABELS: {"a"}}
    assert drift.wait("n", 1.0) == BACKOFF[0] - 1
    assert (drift.contested("n", BACKOFF[0]), drift.wait("n", BACKOFF[0])) == ({}, None)
    assert (drift.count(WINDOW - 1), drift.count(WINDOW)) == (1, 0)
    assert drift.note("n", [A], WINDOW) == {A: 0}
    drift.forget("n")
    assert (drift.count(WINDOW), drift._nodes) == (0, {})


async def test_changed_and_removed_keys_are_restored_at_once(
    place: Place, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    place.create(name, {}, {}, BOOT)
    master, wanted = await masters.start(), {F + "cpu-a": "1", F + "cpu-b": "1"}
    await send(master, Worker(name).report(wanted))
    place.edit(name, {"metadata": {"labels": {F + "cpu-a": "theirs", F + "cpu-b": None, "own": "stays"}}})
    await until(lambda: labels_of(place, name) == {**wanted, "own": "stays"})
    await until(lambda: master.metrics["drift_restored"] == 2)
    told = {fields["keys"][0]: fields["manager"] for fields in said(caplog, RESTORED)}
    who = "somebody" if isinstance(place, Cluster) else "unknown"
    assert told == {F + "cpu-a": who, F + "cpu-b": "unknown, since the key was removed"}


@pytest.mark.parametrize("value", ["theirs", None])
async def test_a_key_that_others_keep_changing_or_removing_comes_back(
    place: Place, masters: Masters, name: str, caplog: pytest.LogCaptureFixture, value: str | None
) -> None:
    """Three persons in ten minutes are no reason to leave a key off a Node: the third time it takes seconds."""
    place.create(name, {}, {}, BOOT)
    master, worker, wanted = await masters.start(), Worker(name), {F + "cpu-a": "1", F + "cpu-b": "1"}
    await send(master, worker.report(wanted))
    for number in range(FREE + 1):
        began = time.monotonic()
        place.edit(name, {"metadata": {"labels": {F + "cpu-a": value and f"{value}-{number}"}}})
        await until(lambda count=number + 1: master.metrics["drift_restored"] == count)  # type: ignore[misc]
        if number == FREE:
            await send(master, worker.report({**wanted, F + "cpu-b": "2"}))
            assert labels_of(place, name).get(F + "cpu-a") == (value and f"{value}-{number}"), "it is left alone"
            wanted = {**wanted, F + "cpu-b": "2"}
        await until(lambda wanted=wanted: labels_of(place, name) == wanted)  # type: ignore[misc]
    assert BACKOFF[0] <= time.monotonic() - began < BACKOFF[0] + 3
    assert "nfd_master_contested_keys 1" in render(master.metrics.families(), openmetrics=False)
    (told,) = said(caplog, LATER)
    known = "somebody" if isinstance(place, Cluster) else "unknown"
    assert (told["keys"], told["seconds"]) == ([F + "cpu-a"], BACKOFF[0])
    assert told["manager"] == (known if value else "unknown, since the key was removed")
    assert notes_of(place, name)[N + "feature-labels"] == "cpu-a,cpu-b"


async def test_a_shared_label_is_left_at_once_to_whoever_changes_it(
    place: Place, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The GPU operator says `false` where no PCI label tells it of a GPU: one write of it, none of ours."""
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    wanted = {PRESENT: "true", "nvidia.com/gpu.count": "1"}
    await send(master, worker.report(wanted))
    assert labels_of(place, name) == wanted
    place.edit(name, {"metadata": {"labels": {PRESENT: "false"}}})
    await until(lambda: notes_of(place, name)[N + "feature-labels"] == "nvidia.com/gpu.count")
    for number in range(3):
        place.edit(name, {"metadata": {"labels": {PRESENT: "false", "other": str(number)}}})
        await send(master, worker.report(wanted))
        assert labels_of(place, name)[PRESENT] == "false"
    (told,) = said(caplog, "another product changed a shared label")
    by = "somebody"  # as the API server tells; a file does not
    assert (told["label"], told["error"]) == (PRESENT, f"{by} set it to 'false', but 'true' was found")
    shown = render(master.metrics.families(), openmetrics=False)
    assert f'nfd_master_unwritten_keys{{kind="label",key="{PRESENT}",by="{by}"}} 1' in shown
    assert (master.metrics["drift_restored"], master.metrics["node_patches"]) == (0, 2)
    place.edit(name, {"metadata": {"labels": {PRESENT: None}}})
    await until(lambda: labels_of(place, name).get(PRESENT) == "true")
    assert "unwritten_keys{" not in render(master.metrics.families(), openmetrics=False)


@pytest.mark.parametrize("place", ["cluster"], indirect=True)
async def test_a_shared_label_of_another_is_never_removed(place: Place, masters: Masters, name: str) -> None:
    """Not even if our list still names it: it was ours once, and a master that starts sees who wrote it since."""
    place.create(name, {PRESENT: "true", CLIQUE: "old", F + "cpu-a": "1"}, {}, BOOT)
    lists = {N + "feature-labels": f"cpu-a,{CLIQUE},{PRESENT}"}
    place.edit(name, {"metadata": {"annotations": lists, "labels": {PRESENT: "false", CLIQUE: "new"}}})
    await send(await masters.start(), Worker(name).report({F + "cpu-b": "1"}))
    assert labels_of(place, name) == {PRESENT: "false", CLIQUE: "new", F + "cpu-b": "1"}
    assert notes_of(place, name)[N + "feature-labels"] == "cpu-b"


async def test_a_dra_driver_that_sets_and_removes_the_clique(
    place: Place, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As kubernetes-sigs/dra-driver-nvidia-gpu does at start and end: merge patches, with no version, of one label."""
    place.create(name, {}, {}, BOOT)
    master, worker = await masters.start(), Worker(name)
    wanted = {CLIQUE: "c0ffee.1", F + "cpu-a": "1"}
    await send(master, worker.report(wanted))
    absent, since, ends = 0.0, None, asyncio.get_running_loop().time() + 14

    def look() -> None:
        nonlocal absent, since
        now = time.monotonic()
        if CLIQUE in labels_of(place, name):
            since = None
        else:
            since = since or now
            absent = max(absent, now - since)

    for value in (None, "c0ffee.1", None, None, "c0ffee.1", None, "c0ffee.2", None, None):
        place.edit(name, {"metadata": {"labels": {CLIQUE: value}}})
        for _ in range(10):
            await asyncio.sleep(0.05)
            look()
        if value == "c0ffee.2":
            assert labels_of(place, name)[CLIQUE] == value, "another value is left at once"
    while asyncio.get_running_loop().time() < ends:
        await asyncio.sleep(0.05)
        look()
    assert labels_of(place, name) == wanted
    print(f"gpu.clique was absent for {absent:.2f} s at most, {master.metrics['node_patches']} patches")
    assert absent < 10
    assert master.metrics["node_patches"] <= 12


def said(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, object]]:
    return [record.fields for record in caplog.records if record.message == message]  # type: ignore[attr-defined]


async def test_a_rule_that_is_evaluated_later_and_no_longer_matches_is_no_drift(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its keys stay until it is evaluated. Then the plan removes them, so that the lists on the Node differ too."""
    caplog.set_level("INFO")
    worker, store = Worker(NAME), await opened(tmp_path)
    report = worker.report({F + "cpu-a": "1"}, features=Features(attributes={"f.a": {"v": "x"}}))
    await Leader(store, [rule("a", "x", {"v.io/a": "1"})]).take(report)
    following = Leader(store, [rule("a", "other", {"v.io/a": "1"})])
    rules = following.passes._settings
    pending = replace(rules, evaluate=lambda *given: without_rules(rules.outcome_of(*given)))
    following.passes._settings = pending
    await following.take(worker.report(report.labels, features=report.features))
    assert following.node.labels["v.io/a"] == "1"
    following.passes._settings = rules
    await following.passes.reconcile(NAME)
    assert following.node.labels == {F + "cpu-a": "1"}
    assert (following.metrics["drift_restored"], said(caplog, RESTORED)) == (0, [])
    await store.close()


LIST, RECORD = N + "feature-labels", N + "origins"


@pytest.mark.parametrize(
    "edit",
    [
        {"annotations": {LIST: None}},
        {"labels": {F + "cpu-a": None}, "annotations": {LIST: None}},
        {"labels": {F + "cpu-a": "theirs"}, "annotations": {LIST: "cpu-b"}},
        {"labels": {F + "cpu-a": None}, "annotations": {RECORD: None}},
        {"labels": {F + "cpu-a": "theirs"}, "annotations": {RECORD: "{}"}},
    ],
    ids=["list", "label and list", "value and list", "label and record", "value and record"],
)
async def test_a_list_that_others_keep_editing_is_restored_later_each_time(edit: Json, tmp_path: Path) -> None:
    """Alone, and together with a label that it names: thirty edits within thirty seconds."""
    store, now = await opened(tmp_path), [0.0]
    leader = Leader(store)
    leader.passes._now = lambda: now[0]
    await leader.take(Worker(NAME).report({F + "cpu-a": "1", F + "cpu-b": "1"}))
    before = leader.metrics["node_patches"]
    for _ in range(30):
        now[0] += 1.0
        await store.patch(NAME, Patch({"metadata": edit}))
        for _ in range(2):
            await leader.passes.reconcile(NAME)
    assert leader.metrics["node_patches"] - before <= 10
    now[0] += BACKOFF[1]
    for _ in range(2):
        await leader.passes.reconcile(NAME)
    assert leader.node.labels == {F + "cpu-a": "1", F + "cpu-b": "1"}
    assert leader.node.annotations[LIST] == "cpu-a,cpu-b"
    await store.close()


def without_rules(found: Outcome | None) -> Outcome | None:
    """As long as the rules are not evaluated on the node's features."""
    assert found is not None
    return replace(found, fresh=replace(found.fresh, blind=True, evaluated=False))
