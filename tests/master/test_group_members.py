"""A node leaves a group only if its features are known to fit no longer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import pytest

from nfd.features import Features
from nfd.kube.client import KubeClient
from nfd.kube.informer import Store
from nfd.kube.paths import NODE_FEATURES
from nfd.master.http.metrics import Metrics
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import NODE_NAME, Joining
from nfd.master.rules.resources import CustomResources, ResourceOptions
from nfd.master.rules.rule_store import written
from nfd.master.rules.ruleset import exhaust, group_steps
from nfd.master.rules.status import listed_nodes
from nfd.master.rules.status_writer import StatusWriter
from nfd.report import Report, SourceState, State
from nfd.rules.policy import Policy
from nfd.store.base import Node, NodeStore

PARTS = {"cpu.topology": {"sockets": "2"}}
FEATURE, ANY = ("matchFeatures", "matchAny")


class Written:
    """Remembers what was written last."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        self.status = status

    async def json(self, _method: str, _path: str, body: Mapping[str, Any], **_options: Any) -> Mapping[str, Any]:
        self.status = body["status"]
        return {}


async def members_after(form: str, *failed: str, feature: str = "cpu.model") -> frozenset[str]:
    """Of a group of a feature that had nodes `n` and `stays`, once `n` reports without it and these sources failed."""
    terms = [{"feature": feature, "matchExpressions": {"id": {"op": "Exists"}}}]
    parts = {FEATURE: terms} if form == FEATURE else {ANY: [{"matchFeatures": terms}]}
    before = {"nodes": [{"name": "n"}, {"name": "stays"}], "count": 2, "truncated": False}
    item = {
        "metadata": {"namespace": "ns", "name": "g", "uid": "u", "generation": 1},
        "spec": {"featureGroupRules": [{"name": "a", **parts}]},
        "status": before,
    }
    rules = Store(partial(written, "rules"), keep_status=True)
    groups = Store(partial(written, "featureGroupRules"), keep_status=True)
    groups.put(item)
    metrics, client = Metrics("1", 0.0), Written(before)
    evaluator = Evaluator(Joining(Policy()), metrics, lambda: None, lambda: None)
    evaluator.bind([], [exhaust(group_steps(item))])
    states = {name: SourceState(State.FAILED if name in failed else State.FRESH) for name in ("cpu", "network", "pci")}
    features = {"n": PARTS, "stays": PARTS | {feature: {"id": "85"}}}
    for node, attributes in features.items():
        evaluator.evaluation_of(node, Report(node, sources=states, features=Features({}, attributes)), ())
    writer = StatusWriter(cast(KubeClient, client), evaluator, (rules, groups), metrics, lambda: 2, lambda _: False)
    await writer._write_all()
    return listed_nodes(client.status)


@pytest.mark.parametrize("form", [FEATURE, ANY])
async def test_source_of_the_feature_failed_in_part(form: str) -> None:
    assert await members_after(form, "cpu") == {"n", "stays"}
    assert await members_after(form, "pci") == {"stays"}
    assert await members_after(form) == {"stays"}


@pytest.mark.parametrize("form", [FEATURE, ANY])
async def test_source_with_another_name_than_the_feature_failed_in_part(form: str) -> None:
    for failed in ("network", "pci", "cpu"):
        stays = {"n", "stays"}
        assert await members_after(form, failed, feature="vendor.thing") == stays
        assert await members_after(form, failed, feature="rdma.device") == (stays if failed == "network" else {"stays"})
    assert await members_after(form, feature="vendor.thing") == {"stays"}


class Nodes:
    """Every node exists but `gone`."""

    def get(self, name: str) -> Node | None:
        return None if name == "gone" else Node.bare(name)


async def test_objects_that_are_not_known_speak_for_no_absence() -> None:
    """A list that has not come, or an object that was never valid, may have what made the node a member."""
    resources = CustomResources(cast(KubeClient, Written({})), ResourceOptions(groups=True), Metrics("1", 0.0))
    resources._store = cast(NodeStore, Nodes())
    for node in ("n", "named", "gone"):
        resources.evaluator.evaluation_of(node, Report(node, features=Features({}, PARTS)), ())
    told = resources._statuses._silent
    assert [told(node) for node in ("n", "named", "gone", "unreported")] == [True, True, False, True]
    resources._informers[NODE_FEATURES].synced.set()
    assert [told(node) for node in ("n", "named", "gone", "unreported")] == [False, False, False, True]
    metadata = {"namespace": "ns", "name": "o", "labels": {NODE_NAME: "named"}}
    resources.objects.put({"metadata": metadata, "spec": {"features": 1}})
    assert [told(node) for node in ("n", "named", "gone", "unreported")] == [False, True, False, True]
