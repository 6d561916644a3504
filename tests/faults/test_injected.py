"""Every stage of a master raises what nobody foresaw, over one thing: that thing alone suffers.

Tasks that concern no single node or rule are tested in `test_injected_tasks.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from nfd.errors import ReportError
from nfd.master.node import annotation_budget, outcome
from nfd.master.reports.accept_reports import ReportHandler
from nfd.master.rules import evaluation, ruleset, status_writer
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.service import Service
from nfd.runtime.failures import COUNTS
from nfd.store.kube import KubeStore
from tests.faults.conftest import FaultMasters, Made
from tests.faults.injected import Broken, answers, each
from tests.faults.proxy import FaultProxy
from tests.master.conftest import Worker, send
from tests.master.custom_resources import PCI, Kinds, rule
from tests.master.places import Cluster, labels_of
from tests.master.places import until as eventually

F = "feature.node.kubernetes.io/"
BAD, GOOD, LATER = "injected-bad", "injected-good", "injected-later"
WITHIN = 60.0
"""An endless rule is run up to eight times. After each time, it pauses four times as long as it took, so that it takes
2 s, or more on a busy machine."""


async def until(done: Callable[[], bool]) -> None:
    await eventually(done, WITHIN)


@dataclass(frozen=True)
class Stage:
    """Where it raises, over which node or rule object, and what the log and the metrics name it by."""

    owner: Any
    name: str
    of: Callable[..., str]
    over: str
    task: str = ""


STAGES = {
    "report": Stage(ReportHandler, "_take", lambda intake, report: report.node, "node"),
    "desired state": Stage(outcome, "derive_desired", lambda report, *rest: report.node, "node", "node pass"),
    "plan": Stage(annotation_budget, "plan_node", lambda goal, node: node.name, "node", "node pass"),
    "write": Stage(KubeStore, "patch", lambda store, name, patch: name, "node", "node pass"),
    "rule compile": Stage(ruleset, "compile_rule", lambda one, meter: one.name, "rule"),
    "rule run": Stage(evaluation, "run_rule", lambda one, view: one.name, "rule"),
    "status": Stage(status_writer, "render_steps", lambda compiled, *rest: compiled.name, "rule", "statuses"),
}


@dataclass
class Scene:
    """Two labelled nodes, two rule objects of which one is to suffer, and a master that writes their status."""

    master: Service
    place: Cluster
    kinds: Kinds
    victim: str
    other: str
    workers: dict[str, Worker] = field(default_factory=dict)

    async def say(self, node: str, value: str) -> None:
        """One label differs from node to node, so that no outcome of another is used."""
        await send(self.master, self.workers[node].report({F + "cpu-a": value, F + "cpu-own": node}, features=PCI))

    def shows(self, node: str, **wanted: str) -> bool:
        found = labels_of(self.place, node)
        return all(found.get(F + key.replace("_", "-")) == value for key, value in wanted.items())

    def has_status(self, name: str) -> bool:
        """Whether the status of a rule object is about the object as it is now."""
        found = self.kinds.plane.request("GET", f"/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules/{name}")
        return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])


async def stage_of(masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, kinds: Kinds) -> Scene:
    master = await masters.start(proxy, custom=ResourceOptions(), tick=0.2)
    scene = Scene(master, place, kinds, make(), make())
    for name in (BAD, GOOD):
        kinds.rules(name, rule(name, labels={name: "1"}))
    for node in (scene.victim, scene.other):
        scene.workers[node] = Worker(node)
        await scene.say(node, "1")
    await until(
        lambda: all(scene.shows(node, cpu_a="1", injected_bad="1", injected_good="1") for node in scene.workers)
    )
    return scene


@pytest.mark.usefixtures("limited")
@each
@pytest.mark.parametrize("stage", STAGES)
async def test_one_fault_harms_itself_alone(
    stage: str,
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    kinds: Kinds,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While it lasts: no key goes, all that is not concerned goes on, the log names it. After it: all is as asked."""
    at, broken = STAGES[stage], Broken(error)
    broken.wrap(monkeypatch, at.owner, at.name, at.of)
    scene = await stage_of(masters, proxy, place, make, kinds)
    broken.thing, broken.on = (scene.victim if at.over == "node" else BAD), True
    for node in (scene.victim, scene.other):
        try:
            await scene.say(node, "2")
        except ReportError:
            assert (node, stage) == (scene.victim, "report")
    for name in (BAD, GOOD):
        kinds.edit_rules(name, rule(name, labels={name: "2"}))
    await until(lambda: broken.raised > 0)
    assert await answers(scene.master.http_port)
    kept = "2" if stage == "status" else "1"
    if at.over == "node":
        await until(lambda: scene.shows(scene.other, cpu_a="2", injected_bad="2", injected_good="2"))
        rules = "2" if stage == "report" else "1"  # what was reported before is what they go by
        await until(lambda: scene.shows(scene.victim, cpu_a="1", injected_bad=rules, injected_good=rules))
    else:
        await until(lambda: all(scene.shows(one, cpu_a="2", injected_good="2") for one in scene.workers))
        await until(lambda: all(scene.shows(one, injected_bad=kept) for one in scene.workers))
        kinds.rules(LATER, rule(LATER, labels={LATER: "1"}))
        await until(lambda: all(scene.shows(one, injected_later="1") for one in scene.workers))
        await until(lambda: scene.has_status(LATER))
    await until(lambda: any(broken.thing in str(vars(record)) for record in caplog.records if record.levelno >= 30))
    assert not at.task or COUNTS[at.task] > 0
    broken.on = False
    if stage in ("rule compile", "rule run"):  # the object is what somebody changes
        kinds.edit_rules(BAD, rule(BAD, labels={BAD: "3"}), rule("more", labels={"more": "1"}))
    for node in scene.workers:
        await scene.say(node, "3")
    last = "3" if stage in ("rule compile", "rule run") else "2"
    await until(lambda: all(scene.shows(one, cpu_a="3", injected_bad=last) for one in scene.workers))
    await until(lambda: scene.has_status(BAD))


@pytest.mark.usefixtures("limited")
@each
@pytest.mark.parametrize("at", ["list", "watch event"])
async def test_one_object_that_cannot_be_taken_in_stops_no_other(
    at: str,
    error: Exception,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    kinds: Kinds,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = Broken(error, BAD, on=at == "list")
    taken = lambda self, item: (item.get("metadata") or {}).get("name", "")  # noqa: E731
    broken.wrap(monkeypatch, CustomResources, "_parse_object", taken)
    name = make()
    if at == "list":
        for one in (BAD, GOOD):
            kinds.features("default", one, name, labels={one: "1"})
    master = await masters.start(proxy, custom=ResourceOptions())
    await send(master, Worker(name).report({F + "cpu-a": "1"}))
    if at != "list":
        broken.on = True
        for one in (BAD, GOOD):
            kinds.features("default", one, name, labels={one: "1"})
    await until(lambda: labels_of(place, name).keys() == {F + "cpu-a", F + GOOD})
    await until(lambda: any(BAD in str(vars(record)) for record in caplog.records if record.levelno >= 30))
    broken.on = False
    kinds.edit_features("default", BAD, labels={BAD: "2"})
    await until(lambda: labels_of(place, name).get(F + BAD) == "2")
