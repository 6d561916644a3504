"""NodeFeatureRules on a real API server: what nodes get, what the status says, and what a restart must not lose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from nfd.features import Features
from nfd.rules.policy import Policy
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import KINDS, PCI, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"


@pytest.fixture
def place(control_plane: ControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def name(node_name: str, place: Cluster) -> str:
    place.create(node_name, {"zone": "a"}, {"note": "b"}, BOOT)
    return node_name


@pytest.fixture
async def masters(control_plane: ControlPlane) -> AsyncIterator[RuleMasters]:
    found = RuleMasters(control_plane)
    async with found.stack:
        yield found


EVERYTHING = {
    "labels": {"gpu": "yes", "kernel": "@kernel.version.major", "nvidia.com/model": "x"},
    "annotations": {"hint": "by rule"},
    "extendedResources": {"vendor.io/slots": "4"},
    "taints": [{"key": "vendor.io/gpu", "value": "yes", "effect": "NoSchedule"}],
}


async def test_rule_gives_everything_and_takes_it_back(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))
    kinds.rules("everything", rule(**EVERYTHING))
    await until(lambda: "taints" in place.get(name)["spec"])
    node = place.get(name)
    assert labels_of(place, name) == {
        "zone": "a", F + "cpu-a": "1", F + "gpu": "yes", F + "kernel": "6", "nvidia.com/model": "x",
    }  # fmt: skip
    assert node["spec"]["taints"] == [{"key": "vendor.io/gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["status"]["capacity"]["vendor.io/slots"] == "4"
    notes = notes_of(place, name)
    assert notes[F + "hint"] == "by rule"
    assert notes[N + "feature-labels"] == "cpu-a,gpu,kernel,nvidia.com/model"
    assert notes[N + "feature-annotations"] == "hint"
    assert notes[N + "extended-resources"] == "vendor.io/slots"
    assert notes[N + "taints"] == "vendor.io/gpu=yes:NoSchedule"
    assert "rule:everything/r" in json.loads(notes[N + "origins"])["labels"]
    kinds.delete("nodefeaturerules/everything")
    await until(lambda: F + "gpu" not in labels_of(place, name))
    await until(lambda: "taints" not in place.get(name)["spec"])
    assert labels_of(place, name) == {"zone": "a", F + "cpu-a": "1"}
    assert "vendor.io/slots" not in place.get(name)["status"]["capacity"]
    assert notes_of(place, name).keys() == {"note", N + "feature-labels", N + "origins"}


async def test_rule_deleted_while_the_master_is_down(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """Before any worker has spoken: what the rule gave is gone, and nothing else has changed."""
    kinds.rules("gone", rule(**EVERYTHING))
    kinds.rules("stays", rule("s", labels={"stays": "1"}))
    master = await masters.start()
    place.edit(name, {"spec": {"taints": [{"key": "vendor.io/gpu", "value": "mine", "effect": "NoExecute"}]}})
    await send(master, Worker(name).report({F + "cpu-a": "1", "mine": "2"}, features=PCI))
    await until(lambda: len(place.get(name)["spec"].get("taints", ())) == 2)
    await master.stop()
    kinds.delete("nodefeaturerules/gone")
    await masters.start()
    await until(lambda: F + "gpu" not in labels_of(place, name))
    await until(lambda: len(place.get(name)["spec"]["taints"]) == 1)
    node = place.get(name)
    assert labels_of(place, name) == {"zone": "a", F + "cpu-a": "1", F + "mine": "2", F + "stays": "1"}
    assert node["spec"]["taints"] == [{"key": "vendor.io/gpu", "value": "mine", "effect": "NoExecute"}]
    assert "vendor.io/slots" not in node["status"]["capacity"]
    notes = notes_of(place, name)
    assert notes[N + "feature-labels"] == "cpu-a,mine,stays"
    assert notes.keys() == {"note", N + "feature-labels", N + "origins"}


async def test_rules_over_a_source_that_fails_take_nothing_away(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """A worker that starts while a driver is away knows less than it did; rules over other sources go on."""
    whole = Features(PCI.flags, PCI.attributes, {**PCI.instances, "nvidia.gpu": ({"vendor": "10de"},)})
    less = Features(attributes={"nvidia.node": {"pci.gpus": "1"}})
    after = {"feature": "rule.matched", "matchExpressions": {"fast": {"op": "In", "value": ["1"]}}}
    kinds.rules("a", rule(feature="nvidia.gpu", labels={"fast": "1"}))
    kinds.rules("b", {"name": "r", "matchFeatures": [after], "labels": {"faster": "1"}})
    kinds.rules("c", rule(labels={"card": "1"}))
    worker, master = Worker(name), await masters.start()
    await send(master, worker.report({}, features=whole))
    shown = {"zone": "a", F + "fast": "1", F + "faster": "1", F + "card": "1"}
    await until(lambda: labels_of(place, name) == shown)
    await send(master, worker.report({}, failed=("nvidia",), features=less))
    await until(lambda: F + "card" not in labels_of(place, name))
    await master.queue.idle()
    del shown[F + "card"]
    assert labels_of(place, name) == shown
    await send(master, worker.report({}, features=less))
    await until(lambda: labels_of(place, name) == {"zone": "a"})


async def test_restart_without_news_writes_nothing(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    kinds.rules("same", rule(**EVERYTHING))
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))
    await until(lambda: kinds.status("same").get("nodes") == 1)
    await master.stop()
    mark = place.plane.mark()
    second = await masters.start()
    await second.queue.idle()
    await send(second, worker.report({F + "cpu-a": "1"}, features=PCI))
    assert place.plane.writes(mark) == []
    await send(second, worker.report({F + "cpu-a": "1"}, features=Features()))
    assert labels_of(place, name) == {"zone": "a", F + "cpu-a": "1"}


async def test_changed_rule_patches_only_whom_it_concerns(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    kinds.rules("few", rule(labels={"gpu": "1"}))
    master = await masters.start()
    other = f"{name}-plain"
    place.create(other, {}, {}, BOOT)
    await send(master, Worker(name).report({}, features=PCI))
    await send(master, Worker(other).report({F + "cpu-a": "1"}))
    mark = place.plane.mark()
    kinds.edit_rules("few", rule(labels={"gpu": "2"}))
    await until(lambda: labels_of(place, name).get(F + "gpu") == "2")
    assert {event.name for event in place.plane.writes(mark)} == {name}
    place.delete(other)


async def test_status_names_an_unknown_feature(place: Cluster, masters: RuleMasters, kinds: Kinds, name: str) -> None:
    """Seen by `kubectl get -o yaml` within five seconds of the rule."""
    await send(await masters.start(), Worker(name).report({}, features=PCI))
    kinds.rules("typo", rule("bad", feature="pci.devise"), rule("good", labels={"a": "1"}))
    await until(lambda: "problems" in kinds.status("typo"))
    shown = yaml.safe_load(place.plane.kubectl("get", "nodefeaturerule", "typo", "-o", "yaml"))["status"]
    assert shown["observedGeneration"] == 1
    assert shown["nodes"] >= 1
    bad, good = shown["rules"]
    assert bad == {
        "name": "bad",
        "matched": 0,
        "problems": [{"message": "feature pci.devise: no node reports it; did you mean pci.device?"}],
    }
    assert good == {"name": "good", "matched": 1, "sample": [name]}
    kinds.delete("nodefeaturerules/typo")
    kinds.rules("typo", rule("bad", feature="pci.devise"), rule("good", labels={"a": "1"}))
    await until(lambda: "problems" in kinds.status("typo"))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (rule(labels={"kubernetes.io/a": "b"}), "label 'kubernetes.io/a': namespace 'kubernetes.io' is not allowed"),
        (rule(labels={"a": "no value!"}), "label 'a': value 'no value!'"),
        (rule(labels={"a": "@pci.device"}), "is not of the form @domain.feature.element"),
        (rule(labelsTemplate="{{ .a"), "template: "),
        (rule(labelsTemplate="{{ range .pci.device }}kubernetes.io/{{ .vendor }}=1{{ end }}"), "kubernetes.io/10de"),
        (rule(extendedResources={"vendor.io/a": "many"}), "vendor.io/a"),
        (rule(taints=[{"key": "a", "effect": "NoSchedule"}]), "taint 'a': key 'a' has no namespace"),
        (
            {"name": "r", "matchFeatures": [
                {"feature": "pci.device", "matchExpressions": {"vendor": {"op": "InRegexp", "value": ["("]}}}
            ]},
            "(",
        ),
    ],
)  # fmt: skip
async def test_status_says_what_is_wrong(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, wrong: dict[str, object], reason: str
) -> None:
    await send(await masters.start(), Worker(name).report({}, features=PCI))
    kinds.rules("wrong", wrong, rule("good", labels={"a": "1"}))
    await until(lambda: "rules" in kinds.status("wrong"))
    bad, good = kinds.status("wrong")["rules"]
    assert any(reason in one["message"] for one in bad["problems"])
    assert good == {"name": "good", "matched": 1, "sample": [name]}
    assert labels_of(place, name) == {"zone": "a", F + "a": "1"}


async def test_status_is_not_written_again_without_news(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({}, features=PCI))
    kinds.rules("calm", rule(labels={"a": "1"}))
    await until(lambda: kinds.status("calm").get("nodes") == 1)
    mark = place.plane.mark()
    for number in range(20):
        await send(master, worker.report({F + "cpu-a": str(number)}, features=PCI))
    assert place.plane.writes(mark, "nodefeaturerules") == []


async def test_taints_that_are_switched_off_are_said(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    await send(await masters.start(Policy()), Worker(name).report({}, features=PCI))
    kinds.rules("taints", rule(taints=EVERYTHING["taints"]))
    await until(lambda: "problems" in kinds.status("taints"))
    assert "enableTaints" in kinds.status("taints")["rules"][0]["problems"][0]["message"]
    assert "taints" not in place.get(name)["spec"]


async def test_hostile_rules_spoil_only_themselves(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """A pattern that backtracks in most engines, and a template that would expand to 1e12 elements."""
    long = Features(attributes={**PCI.attributes, "vendor.long": {"text": "a" * 50_000 + "!"}}, instances=PCI.instances)
    pattern = {"feature": "vendor.long", "matchExpressions": {"text": {"op": "InRegexp", "value": ["^(a+)+$"]}}}
    template = "{{ range until 1000000 }}{{ range until 1000000 }}x{{ end }}{{ end }}"
    master, worker = await masters.start(), Worker(name)
    kinds.rules(
        "hostile",
        {"name": "pattern", "matchFeatures": [pattern], "labels": {"never": "1"}},
        rule("template", labelsTemplate=template),
        rule("good", labels={"good": "1"}),
    )
    await send(master, worker.report({F + "cpu-a": "1"}, features=long))
    await until(lambda: F + "good" in labels_of(place, name))
    assert labels_of(place, name) == {"zone": "a", F + "cpu-a": "1", F + "good": "1"}
    await until(lambda: "rules" in kinds.status("hostile"))
    assert kinds.status("hostile")["rules"][1]["problems"][0]["nodes"] == 1


async def test_core_works_without_definitions_and_finds_them_later(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    for one in KINDS:
        kinds.uninstall(one)
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({F + "cpu-a": "1"}, features=PCI))
    assert labels_of(place, name) == {"zone": "a", F + "cpu-a": "1"}
    kinds.install(*KINDS)
    kinds.rules("late", rule(labels={"late": "1"}))
    await until(lambda: F + "late" in labels_of(place, name))


async def test_rules_of_a_server_that_was_away(place: Cluster, masters: RuleMasters, kinds: Kinds, name: str) -> None:
    """Nothing goes while it is away, and what was changed right after it came back is found."""
    kinds.rules("away", rule(labels={"a": "1"}))
    master, worker = await masters.start(), Worker(name)
    await send(master, worker.report({}, features=PCI))
    with place.plane.outage():
        pass
    mark = place.plane.mark()
    kinds.edit_rules("away", rule(labels={"a": "1", "b": "2"}))
    await until(lambda: F + "b" in labels_of(place, name), 45)
    assert labels_of(place, name) == {"zone": "a", F + "a": "1", F + "b": "2"}
    assert len(place.plane.writes(mark)) == 1


async def test_definition_without_status_is_used_as_it_is(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """NFD's own definition has no status subresource."""

    def as_upstream(definition: dict[str, dict[str, list[dict[str, object]]]]) -> None:
        del definition["spec"]["versions"][0]["subresources"]

    kinds.uninstall("nodefeaturerules")
    kinds.install("nodefeaturerules", change=as_upstream)
    try:
        await send(await masters.start(), Worker(name).report({}, features=PCI))
        kinds.rules("first", rule(labels={"a": "1"}))
        kinds.rules("second", rule(labels={"b": "1"}))
        await until(lambda: F + "b" in labels_of(place, name))
        said = "NodeFeatureRules get no status: the cluster's definition has no status subresource"
        await until(lambda: said in caplog.messages)
        assert caplog.messages.count(said) == 1
    finally:
        kinds.clear()
        kinds.uninstall("nodefeaturerules")


async def test_status_counts_nodes_whose_features_are_not_known(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """A rule that is applied meanwhile has a status at once, and the count is 0 when the worker has reported."""
    other = f"{name}-other"
    place.create(other, {}, {}, BOOT)
    try:
        master = await masters.start()
        await send(master, Worker(name).report({}, features=PCI))
        kinds.rules("early", rule(labels={"a": "1"}))
        await until(lambda: kinds.status("early") != {})
        existing = len(place.plane.request("GET", "/api/v1/nodes")["items"])
        found = kinds.status("early")
        assert (found["nodes"], found["unknown"]) == (1, existing - 1)
        assert found["rules"][0]["matched"] == 1
        for left in place.plane.request("GET", "/api/v1/nodes")["items"]:
            if left["metadata"]["name"] != name:
                await send(master, Worker(left["metadata"]["name"]).report({}, features=PCI))
        await until(lambda: kinds.status("early")["unknown"] == 0)
        assert kinds.status("early")["nodes"] == existing
    finally:
        place.delete(other)


async def test_a_definition_without_that_count_costs_one_write(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    """The API server drops the field, and the status is not written again because of it."""

    def as_before(definition: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
        version = definition["spec"]["versions"][0]
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["unknown"]

    other = f"{name}-other"
    place.create(other, {}, {}, BOOT)
    kinds.uninstall("nodefeaturerules")
    kinds.install("nodefeaturerules", change=as_before)
    try:
        master, worker = await masters.start(), Worker(name)
        await send(master, worker.report({}, features=PCI))
        mark = place.plane.mark()
        kinds.rules("older", rule(labels={"a": "1"}))
        await until(lambda: kinds.status("older").get("nodes") == 1)
        assert "unknown" not in kinds.status("older")
        for number in range(10):
            await send(master, worker.report({F + "cpu-a": str(number)}, features=PCI))
        await asyncio.sleep(2.0)
        statuses = [one for one in place.plane.writes(mark, "nodefeaturerules") if one.subresource == "status"]
        assert len(statuses) == 1
    finally:
        kinds.clear()
        kinds.uninstall("nodefeaturerules")
        place.delete(other)


async def test_many_reports_cost_few_status_writes(
    place: Cluster, masters: RuleMasters, kinds: Kinds, name: str
) -> None:
    for left in place.plane.request("GET", "/api/v1/nodes")["items"]:  # counts wait for every node there is
        if left["metadata"]["name"] != name:
            place.delete(left["metadata"]["name"])
    others = [f"{name}-{number}" for number in range(60)]
    for other in others:
        place.create(other, {}, {}, BOOT)
    kinds.rules("many", rule(labels={"a": "1"}))
    master = await masters.start()
    await until(lambda: kinds.status("many") != {}, 30)
    mark = place.plane.mark()
    for other in others:
        await send(master, Worker(other).report({}, features=PCI))
    await send(master, Worker(name).report({}, features=PCI))
    await until(lambda: kinds.status("many")["nodes"] == 61, 30)
    assert sum(write.name == "many" for write in place.plane.writes(mark, "nodefeaturerules")) <= 2
    assert kinds.status("many")["rules"][0]["matched"] == 61
    for other in others:
        place.delete(other)
