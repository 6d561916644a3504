"""Who changes our keys is noticed, answered at once, and after the third time no more for an hour."""

from __future__ import annotations

import pytest

from nfd.health import render
from nfd.master.drift import PAUSE, TIMES, WINDOW, Drift
from nfd.store.base import Kind
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Cluster, Place, labels_of, until

F = "feature.node.kubernetes.io/"
A, B = (Kind.LABELS, "a"), (Kind.LABELS, "b")


def test_third_change_within_the_window_ends_it() -> None:
    drift = Drift()
    assert [drift.note("n", "m", [A, B][: 1 + (now == 0)], now) for now in (0.0, 100.0)] == [frozenset()] * 2
    assert drift.note("n", "m", [A, B], 200.0) == {A}
    assert drift.contested("n", 200.0) == {Kind.LABELS: {"a"}}
    assert drift.count(200.0) == 1
    assert drift.contested("n", 200.0 + PAUSE) == {}
    assert drift.contested("other", 0.0) == {}


def test_slow_changes_and_changes_by_several_managers_do_not_count_together() -> None:
    drift = Drift()
    for number in range(10):
        assert not drift.note("n", "m", [A], number * WINDOW / (TIMES - 1))
        assert not drift.note("other", f"m{number}", [A], 0.0)
    assert not drift.contested("n", 0.0)


async def test_changed_and_removed_keys_are_restored_at_once(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master, wanted = await masters.start(), {F + "cpu-a": "1", F + "cpu-b": "1"}
    await send(master, Worker(name).report(wanted))
    place.edit(name, {"metadata": {"labels": {F + "cpu-a": "theirs", F + "cpu-b": None, "own": "stays"}}})
    await until(lambda: labels_of(place, name) == {**wanted, "own": "stays"})
    await until(lambda: master.metrics["drift_restored"] == 2)


async def test_a_stubborn_manager_wins_for_an_hour(
    place: Place, masters: Masters, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.create(name, {}, {}, BOOT)
    master, worker, wanted = await masters.start(), Worker(name), {F + "cpu-a": "1", F + "cpu-b": "1"}
    await send(master, worker.report(wanted))
    for number in range(TIMES):
        place.edit(name, {"metadata": {"labels": {F + "cpu-a": f"theirs-{number}"}}})
        await until(lambda count=number + 1: master.metrics["drift_restored"] == min(count, TIMES - 1))  # type: ignore[misc]
        if number < TIMES - 1:
            await until(lambda: labels_of(place, name) == wanted)
    await until(lambda: "nfd_master_contested_keys 1" in render(master.metrics.families(), openmetrics=False))
    (told,) = [record for record in caplog.records if record.message == "keys left alone for an hour"]
    assert told.fields["keys"] == [F + "cpu-a"]  # type: ignore[attr-defined]
    assert told.fields["manager"] == ("somebody" if isinstance(place, Cluster) else None)  # type: ignore[attr-defined]
    await send(master, worker.report({**wanted, F + "cpu-b": "2", F + "cpu-c": "3"}))
    labels = labels_of(place, name)
    assert labels == {F + "cpu-a": f"theirs-{TIMES - 1}", F + "cpu-b": "2", F + "cpu-c": "3"}
