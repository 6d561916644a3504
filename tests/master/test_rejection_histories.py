"""Whatever is rejected for a while: passes are never repeated at once, and all is written once it is no longer
rejected."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.errors import Conflict, Forbidden, Invalid, KubeError, Unavailable
from nfd.master.http.metrics import Metrics
from nfd.master.node.known_rejections import PAUSE, PROBES_PER_SECOND, RETRY
from nfd.master.node.reconcile import ReconcileOptions, Reconciler
from nfd.master.reports.store import ReportStore
from nfd.store.base import Node, Patch
from nfd.store.file import FileStore
from tests.master.conftest import BOOT, Worker
from tests.master.places import PROOF, Folder

F = "feature.node.kubernetes.io/"
NAMES = ["n0", "n1", "n2", "n3"]
KEYS = [f"{F}cpu-m{number}" for number in range(5)]
EVERY = "*"
"""Stands for a policy that rejects every change of a Node."""


class Admission(FileStore):
    """Rejects changes of `rejected`: (Node, label or annotation) or (Node, EVERY).

    The PATCH with the number `fails` ends with `error`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.rejected: set[tuple[str, str]] = set()
        self.patches = 0
        self.fails = 0
        self.error = KubeError("")

    async def patch(self, name: str, patch: Patch) -> Node:
        self.patches += 1
        if self.patches == self.fails:
            raise self.error
        if (name, EVERY) in self.rejected:
            raise Invalid("nodes are frozen", by="policy frozen")
        metadata = patch.body.get("metadata", {})
        for key in (*metadata.get("labels", ()), *metadata.get("annotations", ())):
            if (name, key) in self.rejected:
                raise Invalid(f"{key} is not allowed", by="policy keys")
        return await super().patch(name, patch)


class Fleet:
    """Nodes, their workers, and the work queue of a master, by a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.due: dict[str, float] = {}
        self.store = Admission(folder)
        self.reports = ReportStore()
        self.workers = {name: Worker(name) for name in NAMES}
        self.wanted: dict[str, Mapping[str, str]] = {}
        options = ReconcileOptions(proof=PROOF)
        self.passes = Reconciler(
            self.store, self.reports, options, Metrics("test", 0.0), self.wake, now=lambda: self.now
        )

    def wake(self, name: str, seconds: float) -> None:
        self.due[name] = min(self.due.get(name, self.now + seconds), self.now + seconds)

    def report(self, name: str, labels: Mapping[str, str], failed: tuple[str, ...] = ()) -> None:
        self.wanted[name] = labels
        self.reports.take(self.workers[name].report(labels, failed), self.store.get(name), "")
        self.wake(name, 0.0)

    async def run(self, seconds: float) -> int:
        """Make all passes of that time. Returns their number."""
        until, passes = self.now + seconds, 0
        while self.due and (first := min(self.due.items(), key=lambda one: one[1]))[1] <= until:
            name, due = first
            self.now = max(self.now, due) + 0.001
            del self.due[name]
            passes += 1
            try:
                again = await self.passes.reconcile(name)
            except KubeError:
                again = PAUSE
            if again is not None:
                assert again >= PAUSE, "a pass is not repeated at once"
                self.wake(name, again)
        self.now = max(self.now, until)
        return passes

    def written(self, name: str) -> Mapping[str, str]:
        node = self.store.get(name)
        assert node is not None
        return node.labels


step = st.one_of(
    st.tuples(st.just("reject"), st.sampled_from([*KEYS, EVERY, EVERY]), st.sets(st.sampled_from(NAMES), min_size=1)),
    st.tuples(st.just("allow"), st.sampled_from([*KEYS, EVERY, EVERY]), st.sets(st.sampled_from(NAMES), min_size=1)),
    st.tuples(st.just("report"), st.sampled_from(["1", "2"]), st.sets(st.sampled_from(NAMES), min_size=1)),
    st.tuples(st.just("pass"), st.sampled_from([0.1, 1.0, RETRY, 30.0]), st.just(set(NAMES))),
)
ALL = set(NAMES)
REJECTED = [("reject", key, ALL) for key in KEYS]
Step = tuple[str, str | float, set[str]]


async def check(folder: Path, steps: Sequence[Step], ends: Sequence[Step]) -> None:
    """Carry out the steps; after `ends` the fleet has what it wants."""
    for name in NAMES:
        Folder(folder).create(name, {}, {}, BOOT)
    fleet = Fleet(folder)
    await fleet.store.start(lambda name: None)
    try:
        for kind, what, names in [("report", "0", ALL), *steps, *ends]:
            changed = {(name, str(what)) for name in names}
            if kind == "reject":
                fleet.store.rejected |= changed
            elif kind == "allow":
                fleet.store.rejected -= changed
            elif kind == "report":
                for name in sorted(names):
                    fleet.report(name, dict.fromkeys(KEYS, str(what)))
            await fleet.run(float(what) if kind == "pass" else 0.05)
        await fleet.run(30.0)
        before = fleet.store.patches
        passes = await fleet.run(60.0)
        assert passes <= 60 * 2 * PROBES_PER_SECOND
        assert fleet.store.patches - before <= 60 * 2 * PROBES_PER_SECOND
        for name in NAMES:
            left = {key for key in KEYS if {(name, key), (name, EVERY)} & fleet.store.rejected}
            assert {key: fleet.written(name).get(key) for key in KEYS if key not in left} == {
                key: fleet.wanted[name][key] for key in KEYS if key not in left
            }
        if not fleet.store.rejected:
            assert not fleet.due
            assert not fleet.passes.refused()
    finally:
        await fleet.store.close()


@given(st.lists(step, max_size=12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_all_is_written_once_it_is_no_longer_rejected(steps: Sequence[Step], lifted: bool) -> None:
    ends: list[Step] = [("allow", key, ALL) for key in (*KEYS, EVERY)] if lifted else []
    with TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder), steps, ends))


@pytest.mark.parametrize("keys", [1, 2, 3, 5])
@pytest.mark.parametrize("frozen", [*({name} for name in NAMES), ALL])
@pytest.mark.parametrize("ends", ["the keys", "the freeze", "both"])
def test_a_freeze_on_top_of_rejected_keys(keys: int, frozen: set[str], ends: str, tmp_path: Path) -> None:
    """A second policy rejects every change while keys are rejected already; either of them is lifted first."""
    steps: list[Step] = [
        *REJECTED[:keys],
        ("report", "1", ALL),
        ("pass", 10.0, ALL),
        ("reject", EVERY, frozen),
        ("report", "2", ALL),
        ("pass", 60.0, ALL),
    ]
    lifted: list[Step] = []
    if ends != "the freeze":
        lifted += [("allow", key, ALL) for key in KEYS]
    if ends != "the keys":
        lifted += [("allow", EVERY, ALL)]
    asyncio.run(check(tmp_path, steps, lifted))


@pytest.mark.parametrize("error", [Conflict("changed"), Unavailable("restarting"), Forbidden("no role")], ids=str)
@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("lists", [("feature-labels",), ("origins",), ("feature-labels", "origins")], ids=" ".join)
async def test_keys_that_no_list_names_are_removed_whatever_fails(
    error: KubeError, number: int, lists: tuple[str, ...], tmp_path: Path
) -> None:
    """A PATCH fails before or after the policy rejects it, in the first pass or when the list is tried again."""
    gone, stays = f"{F}usb-b", f"{F}cpu-a"
    Folder(tmp_path).create("n0", {}, {}, BOOT)
    fleet = Fleet(tmp_path)
    fleet.store.rejected = {("n0", f"nfd.node.kubernetes.io/{name}") for name in lists}
    fleet.store.fails, fleet.store.error = number, error
    await fleet.store.start(lambda name: None)
    try:
        fleet.report("n0", {stays: "1", gone: "1"})
        await fleet.run(1.0)
        fleet.report("n0", {stays: "1"}, failed=("usb",))
        await fleet.run(2 * RETRY)
        assert fleet.written("n0").keys() == {stays, gone}
        fleet.report("n0", {stays: "1"})
        await fleet.run(60.0)
        assert fleet.store.patches > number
        assert fleet.written("n0").keys() == {stays}
    finally:
        await fleet.store.close()


@pytest.mark.parametrize("lists", [("feature-labels",), ("origins",), ("feature-labels", "origins")], ids=" ".join)
async def test_keys_that_no_list_names_are_removed_after_a_freeze(lists: tuple[str, ...], tmp_path: Path) -> None:
    """The key is gone while every change is rejected."""
    gone, stays = f"{F}usb-b", f"{F}cpu-a"
    Folder(tmp_path).create("n0", {}, {}, BOOT)
    fleet = Fleet(tmp_path)
    fleet.store.rejected = {("n0", f"nfd.node.kubernetes.io/{name}") for name in lists}
    await fleet.store.start(lambda name: None)
    try:
        fleet.report("n0", {stays: "1", gone: "1"})
        await fleet.run(1.0)
        fleet.store.rejected.add(("n0", EVERY))
        fleet.report("n0", {stays: "1"})
        await fleet.run(2 * RETRY)
        assert fleet.written("n0").keys() == {stays, gone}
        fleet.store.rejected.remove(("n0", EVERY))
        await fleet.run(60.0)
        assert fleet.written("n0").keys() == {stays}
    finally:
        await fleet.store.close()
