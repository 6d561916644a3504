"""Inherited reports may be old: they add keys to Nodes that carry just what they give, and do nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nfd.features import Features
from nfd.master.http.metrics import Metrics
from nfd.master.node.desired import ALL_FRESH
from nfd.master.node.outcome import Known, Outcome, evaluate_node
from nfd.master.node.ownership import parse_owned
from nfd.master.node.reconcile import ReconcileOptions, Reconciler
from nfd.master.reports.store import Inherited, ReportStore, Standing
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.ruleset import bind, compile_object
from nfd.report import Report
from nfd.rules.parse import API_VERSION
from nfd.rules.policy import Policy
from nfd.store.base import Kind, Node
from nfd.store.file import FileStore
from tests.master.conftest import BOOT, Worker
from tests.master.places import PROOF, Folder

Json = dict[str, Any]
F = "feature.node.kubernetes.io/"
NAME = "node-1"
POLICY = Policy(enable_taints=True)
UNKNOWN = {"nfd.node.kubernetes.io/feature-labels": "cpu-a", "nfd.node.kubernetes.io/origins": "{}"}


def rule(name: str, value: str, labels: Mapping[str, str], taint: str = "") -> Json:
    """An object whose one rule holds where the attribute `f.a.v` is `value`."""
    terms = [{"feature": "f.a", "matchExpressions": {"v": {"op": "In", "value": [value]}}}]
    one: Json = {"name": "r", "labels": dict(labels), "matchFeatures": terms}
    if taint:
        one["taints"] = [{"key": "v.io/t", "effect": "NoSchedule", "value": taint}]
    return {"apiVersion": API_VERSION, "kind": "NodeFeatureRule", "metadata": {"name": name}, "spec": {"rules": [one]}}


@dataclass
class Leader:
    """One term: a store of reports and the passes over a Node, as the master makes them."""

    store: FileStore
    rules: Sequence[Json] = ()
    overwrite: bool = True
    reports: ReportStore = field(default_factory=ReportStore)
    metrics: Metrics = field(default_factory=lambda: Metrics("test", 0.0))

    def __post_init__(self) -> None:
        rules = bind((compile_object(one, POLICY) for one in self.rules), ())

        def ask(node: Node, report: Report | None) -> Outcome:
            return evaluate_node(node, report, rules, (), Joining(POLICY), Known(ALL_FRESH, "", PROOF))

        options = ReconcileOptions(POLICY, self.overwrite, proof=PROOF, evaluate=ask)
        self.passes = Reconciler(self.store, self.reports, options, self.metrics)

    async def take(self, report: Report) -> None:
        self.reports.take(report, self.node, "")
        await self.passes.reconcile(NAME)

    async def inherit(self, report: Report, uid: str = "uid-1") -> None:
        self.reports.inherit(Inherited(report, uid), self.node, "")
        await self.passes.reconcile(NAME)

    @property
    def node(self) -> Node:
        found = self.store.get(NAME)
        assert found is not None
        return found


async def opened(folder: Path, labels: Mapping[str, str] | None = None) -> FileStore:
    Folder(folder).create(NAME, labels or {}, {}, BOOT)
    store = FileStore(folder)
    await store.start(lambda name: None)
    return store


def keys(node: Node) -> dict[tuple[Kind, str], str]:
    """What the Node carries, bookkeeping apart."""
    return {
        (kind, key): text
        for kind in Kind
        for key, text in node.actual(kind).items()
        if not key.startswith("nfd.node.kubernetes.io/") and key not in ("cpu", "pods")
    }


LABELS = {F + "cpu-a": ("1", "2"), F + "cpu-b": ("1", "2"), F + "pci-x": ("true",), "nvidia.com/gpu.present": ("true",)}
contents = st.tuples(
    st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in LABELS.items()}),
    st.sampled_from("xyz"),
    st.sets(st.sampled_from(("cpu", "pci")), max_size=1),
)
some_rules = st.dictionaries(
    st.sampled_from("abc"),
    st.tuples(
        st.sampled_from("xyz"),
        st.dictionaries(st.sampled_from(("v.io/a", "v.io/b", F + "cpu-b")), st.sampled_from("12"), min_size=1),
        st.sampled_from(("", "1", "2")),
    ),
    max_size=3,
).map(lambda found: [rule(name, *one) for name, one in sorted(found.items())])
edits = st.none() | st.sampled_from(
    [
        {"labels": {F + "cpu-a": "theirs"}},
        {"labels": {F + "cpu-a": None}},
        {"labels": {"v.io/a": "theirs"}},
        {"labels": {"nvidia.com/gpu.present": "false"}},
        {"annotations": UNKNOWN},
        {"annotations": dict.fromkeys(UNKNOWN)},
    ]
)


@dataclass(frozen=True)
class History:
    """What a node's worker said under the last leader, and what the next one has of it."""

    said: Sequence[Report]
    known: int
    """The number of the report that the next leader has inherited."""
    rules: Sequence[Json]
    next_rules: Sequence[Json]
    edit: Json | None
    overwrite: bool


@st.composite
def histories(draw: st.DrawFn) -> History:
    worker, said = Worker(NAME), []
    for labels, value, failed in draw(st.lists(contents, min_size=1, max_size=4)):
        features = Features(attributes={"f.a": {"v": value}})
        said.append(worker.report({F + "kernel-v": "6", **labels}, failed=tuple(failed), features=features))
    rules = draw(some_rules)
    return History(
        said,
        draw(st.integers(0, len(said) - 1)),
        rules,
        draw(st.just(rules) | some_rules),
        draw(edits),
        draw(st.booleans()),
    )


@given(histories())
@settings(max_examples=150, deadline=None)
def test_what_may_be_old_only_adds_and_only_to_a_node_that_is_as_it_says(history: History) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(check(history, Path(folder)))


async def check(history: History, folder: Path) -> None:
    store = await opened(folder)
    try:
        last, versions = Leader(store, history.rules, history.overwrite), []
        for report in history.said:
            await last.take(report)
            versions.append(last.node.version)
        if history.edit is not None:
            Folder(folder).edit(NAME, {"metadata": history.edit})
            await store.read(NAME)
        before, owned = keys(last.node), parse_owned(last.node.annotations, "", "uid-1", PROOF)
        following = Leader(store, history.next_rules, history.overwrite)
        await following.inherit(history.said[history.known])
        after, exist = keys(following.node), {f"rule:{one['metadata']['name']}/r" for one in history.next_rules}
        for kind, key in before.keys() - after.keys():
            origin = owned.of(kind).get(key) or ""
            assert origin.startswith("rule:")
            assert origin not in exist, "its rule is gone"
        assert {key: after[key] for key in before.keys() & after.keys()} == {
            key: before[key] for key in before.keys() & after.keys()
        }
        outdated = versions[-1] != versions[history.known]
        if outdated:
            assert after.keys() <= before.keys(), "a newer report has changed the Node since"
            assert following.reports.standing(NAME) is Standing.OUTDATED
        elif history.edit is None:
            wanted = wanted_by(history.next_rules, history.said[history.known])
            assert wanted <= after.keys() | {(Kind.TAINTS, "v.io/t:NoSchedule")} - before.keys()
        await confirm(history, following, folder)
    finally:
        await store.close()


def wanted_by(rules: Sequence[Json], report: Report) -> set[tuple[Kind, str]]:
    """Labels of the rules that hold."""
    value = report.features.attributes["f.a"]["v"]
    return {
        (Kind.LABELS, key)
        for one in rules
        for given in one["spec"]["rules"]
        if given["matchFeatures"][0]["matchExpressions"]["v"]["value"] == [value]
        for key in given["labels"]
    }


async def confirm(history: History, following: Leader, folder: Path) -> None:
    """Once the worker has reported, the Node is as if nothing had been inherited."""
    latest = history.said[-1]
    assert latest.order is not None
    report = replace(latest, order=replace(latest.order, sequence=latest.order.sequence + 1))
    text = (folder / f"{NAME}.yaml").read_text()
    await following.take(report)
    assert following.reports.standing(NAME) is Standing.REPORTED
    with TemporaryDirectory() as other:
        (Path(other) / f"{NAME}.yaml").write_text(text)
        store = FileStore(Path(other))
        await store.start(lambda name: None)
        try:
            fresh = Leader(store, history.next_rules, history.overwrite)
            await fresh.take(report)
            assert keys(following.node) == keys(fresh.node)
        finally:
            await store.close()


async def test_a_report_before_a_changed_value_is_outdated(tmp_path: Path) -> None:
    """Also where the list of keys stays the same, and the older report says nothing of that source."""
    store, worker = await opened(tmp_path), Worker(NAME)
    last = Leader(store, [], overwrite=False)
    await last.take(worker.report({F + "cpu-b": "2"}))
    older = worker.report({}, failed=("cpu",))
    for report in (older, worker.report({F + "cpu-b": "1"})):
        await last.take(report)
    following = Leader(store, [], overwrite=False)
    await following.inherit(older)
    assert following.reports.standing(NAME) is Standing.OUTDATED
    await store.close()


async def test_a_rule_that_newer_features_no_longer_meet_is_not_met_again_by_older_ones(tmp_path: Path) -> None:
    """The labels of both reports are the same: the record on the Node tells that the older one is."""
    worker, rules = Worker(NAME), [rule("a", "x", {"v.io/a": "1"})]
    store = await opened(tmp_path)
    last = Leader(store, rules)
    older = worker.report({F + "cpu-a": "1"}, features=Features(attributes={"f.a": {"v": "x"}}))
    newer = worker.report({F + "cpu-a": "1"}, features=Features(attributes={"f.a": {"v": "y"}}))
    await last.take(older)
    assert last.node.labels["v.io/a"] == "1"
    await last.take(newer)
    assert "v.io/a" not in last.node.labels
    following = Leader(store, rules)
    await following.inherit(older)
    assert "v.io/a" not in following.node.labels
    assert following.reports.standing(NAME) is Standing.OUTDATED
    await following.inherit(newer)
    assert following.reports.standing(NAME) is Standing.INHERITED
    await store.close()


async def test_a_rule_that_changes_adds_until_the_worker_has_reported(tmp_path: Path) -> None:
    """What it gave before stays, the value of a key too; what a rule gave that is gone is removed."""
    worker, store = Worker(NAME), await opened(tmp_path)
    last = Leader(store, [rule("a", "x", {"v.io/a": "1", "v.io/b": "1"}), rule("b", "x", {"v.io/gone": "1"})])
    report = worker.report({F + "cpu-a": "1"}, features=Features(attributes={"f.a": {"v": "x"}}))
    await last.take(report)
    following = Leader(store, [rule("a", "x", {"v.io/a": "2", "v.io/c": "1"})])
    await following.inherit(report)
    labels = {key: text for key, text in following.node.labels.items() if key.startswith("v.io/")}
    assert labels == {"v.io/a": "1", "v.io/b": "1", "v.io/c": "1"}
    await following.take(worker.report(report.labels, features=report.features))
    labels = {key: text for key, text in following.node.labels.items() if key.startswith("v.io/")}
    assert labels == {"v.io/a": "2", "v.io/c": "1"}
    await store.close()


@pytest.mark.parametrize(
    "edit", [{"labels": {F + "cpu-a": "theirs"}}, {"annotations": UNKNOWN}], ids=["label", "record"]
)
async def test_a_node_that_changes_is_compared_again(edit: Json, tmp_path: Path) -> None:
    store, worker = await opened(tmp_path), Worker(NAME)
    last = Leader(store)
    await last.take(report := worker.report({F + "cpu-a": "1"}))
    following = Leader(store)
    await following.inherit(report)
    for _ in range(2):
        await following.passes.reconcile(NAME)
        assert following.reports.standing(NAME) is Standing.INHERITED
    Folder(tmp_path).edit(NAME, {"metadata": edit})
    await store.read(NAME)
    await following.passes.reconcile(NAME)
    assert following.reports.standing(NAME) is Standing.OUTDATED
    await store.close()


async def test_heartbeats_write_nothing_although_the_record_names_a_report(tmp_path: Path) -> None:
    worker, store = Worker(NAME), await opened(tmp_path)
    leader = Leader(store)
    await leader.take(worker.report({F + "cpu-a": "1"}))
    version = leader.node.version
    for _ in range(3):
        await leader.take(worker.report({F + "cpu-a": "1"}))
    assert leader.node.version == version
    await leader.take(worker.report({F + "cpu-a": "1", F + "cpu-b": "1"}))
    assert parse_owned(leader.node.annotations, "", "uid-1", PROOF).at == (1, 5)
    await store.close()


@pytest.mark.parametrize(
    ("uid", "boot", "standing"),
    [("uid-1", BOOT, Standing.INHERITED), ("uid-0", BOOT, Standing.INHERITED), ("uid-1", "boot-0", Standing.OUTDATED)],
    ids=["the same", "a Node that was created again", "another boot"],
)
async def test_uid_and_boot_id_are_compared(uid: str, boot: str, standing: Standing, tmp_path: Path) -> None:
    store, worker = await opened(tmp_path), Worker(NAME)
    last = Leader(store)
    await last.take(worker.report({F + "cpu-a": "1"}))
    inherited = replace(Worker(NAME, boot).report({F + "cpu-a": "1", F + "cpu-b": "1"}))
    following = Leader(store)
    await following.inherit(inherited if boot != BOOT else last.reports.get(NAME) or inherited, uid)
    assert following.reports.standing(NAME) in ((standing, None) if boot != BOOT else (standing,))
    assert F + "cpu-b" not in following.node.labels
    await store.close()


def test_a_newer_report_wins_and_a_reported_one_stays() -> None:
    reports, worker = ReportStore(), Worker(NAME)
    first, second, third = (worker.report({F + "cpu-a": str(number)}) for number in range(3))
    assert reports.inherit(Inherited(second, "u"), None, "") is not None
    assert reports.inherit(Inherited(first, "u"), None, "") is None
    assert reports.get(NAME) is second
    assert reports.inherit(Inherited(third, "u"), None, "") is not None
    reports.take(third, None, "")
    assert reports.inherit(Inherited(third, "u"), None, "") is None
    assert reports.standing(NAME) is Standing.REPORTED
    assert reports.end_term() == []
    assert reports.standing(NAME) is Standing.INHERITED
    reports.expire(Node.bare(NAME))
    assert reports.inherited(NAME) is None
    assert reports.end_term() == [NAME]
    assert reports.names() == []
