"""Rules that fail, on a real API server: what they gave stays until they are deleted, and nobody else is concerned."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import OWN, PCI, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
DEEP = (
    '{{ define "a" }}' + "{{ if . }}" * 10 + '{{ template "a" . }}' + "{{ end }}" * 10 + '{{ end }}{{ template "a" . }}'
)


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


async def test_rule_that_recurses_for_ever(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Labels that it gave stay, also over a restart; new nodes get all others; it is named; deleting it helps."""
    kinds.rules("deep", rule("r", labels={"given": "1"}, labelsTemplate="made=1"), rule("other", labels={"o": "1"}))
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))
    given = {F + "cpu-a": "1", F + "given": "1", F + "made": "1", F + "o": "1"}
    await until(lambda: labels_of(place, name) == given)
    kinds.edit_rules("deep", rule("r", labelsTemplate=DEEP), rule("other", labels={"o": "2"}))
    await until(lambda: labels_of(place, name) == {**given, F + "o": "2"})
    await until(lambda: "problems" in kinds.status("deep").get("rules", [{}])[0])
    failed, good = kinds.status("deep")["rules"]
    assert any("deeper than" in one["message"] and one.get("sample") == [name] for one in failed["problems"])
    assert good["matched"] == 1
    said = [one.__dict__["fields"] for one in caplog.records if one.message.startswith("rule failed")]
    assert [(one["rule"], one["node"]) for one in said] == [("rule:deep/r", name)]
    new = f"{name}-new"
    place.create(new, {}, {}, BOOT)
    await send(master, Worker(new).report({F + "cpu-b": "1"}, features=PCI))
    assert labels_of(place, new) == {F + "cpu-b": "1", F + "o": "2"}
    await master.stop()
    second = await masters.start()
    await send(second, worker.report({F + "cpu-a": "2"}, features=PCI))
    assert labels_of(place, name) == {**given, F + "cpu-a": "2", F + "o": "2"}
    kinds.delete("nodefeaturerules/deep")
    await until(lambda: labels_of(place, name) == {F + "cpu-a": "2"})
    place.delete(new)


async def test_rules_that_depend_on_a_failing_one(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    term = {"feature": "rule.matched", "matchExpressions": {"v": {"op": "Exists"}}}
    after = {"name": "after", "matchFeatures": [term], "labels": {"after": "1"}}
    kinds.rules("a-first", rule("r", vars={"v": "1"}))
    kinds.rules("b-second", after)
    master = await masters.start()
    await send(master, Worker(name).report({}, features=PCI))
    await until(lambda: F + "after" in labels_of(place, name))
    kinds.edit_rules("a-first", rule("r", varsTemplate=DEEP), rule("done", labels={"done": "1"}))
    await until(lambda: F + "done" in labels_of(place, name))
    assert labels_of(place, name) == {F + "after": "1", F + "done": "1"}
    kinds.edit_rules("a-first", rule("done", labels={"done": "1"}))
    await until(lambda: labels_of(place, name) == {F + "done": "1"})


async def test_group_whose_rule_fails_keeps_its_members(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    path = f"namespaces/{OWN}/nodefeaturegroups/deep"
    kinds.group(OWN, "deep", rule("r"))
    master = await masters.start(groups=True)
    await send(master, Worker(name).report({}, features=PCI))
    await until(lambda: kinds.get(path).get("status", {}).get("count") == 1, 40)
    kinds.plane.request(
        "PATCH",
        f"/apis/nfd.k8s-sigs.io/v1alpha1/{path}",
        {"spec": {"featureGroupRules": [rule("r", varsTemplate=DEEP)]}},
    )
    await until(lambda: "problems" in kinds.get(path)["status"], 40)
    status = kinds.get(path)["status"]
    assert status["nodes"] == [{"name": name}]
    (problem,) = status["problems"]
    assert (problem["nodes"], problem["sample"]) == (1, [name])
    assert "deeper than" in problem["message"]
