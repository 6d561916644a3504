"""What the writer of statuses remembers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from nfd.kube.client import KubeClient
from nfd.kube.informer import Store
from nfd.kube.paths import RULES, object_path
from nfd.master.http.metrics import Metrics
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.rule_store import RawObject, written
from nfd.master.rules.ruleset import CompiledObject, compile_object, exhaust, group_steps
from nfd.master.rules.status_writer import StatusWriter
from nfd.master.rules.time_slices import Slices
from nfd.rules.compile import Group
from nfd.rules.policy import Policy
from tests.rules.clocks import FROZEN

POLICY = Policy()


class Client:
    """Takes every patch; `patches` counts them by path."""

    def __init__(self) -> None:
        self.patches: dict[str, int] = {}

    async def json(self, method: str, path: str, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        self.patches[path] = self.patches.get(path, 0) + 1
        return {}


async def test_deleted_objects_are_forgotten() -> None:
    """Also one whose name a later one has. A rule object that is there is remembered: nothing is written twice."""
    client, metrics = Client(), Metrics("1", 0.0)
    rules = Store[RawObject](partial(written, "rules"), keep_status=True)
    groups = Store[RawObject](partial(written, "featureGroupRules"), keep_status=True)
    evaluator = Evaluator(Joining(POLICY), metrics, lambda: None, lambda: None, Slices(FROZEN))
    writer = StatusWriter(cast(KubeClient, client), evaluator, (rules, groups), metrics, lambda: 0, lambda node: False)
    compiled_objects, compiled = dict[str, CompiledObject](), dict[str, Group]()

    async def write() -> None:
        evaluator.bind(compiled_objects.values(), compiled.values())
        await writer._write_all()

    for number in range(20):
        for name in ("stays", f"job-{number}", "again"):
            uid = "u" if name == "stays" else f"u{number}"
            item = {"metadata": {"name": name, "uid": uid}, "spec": {"rules": [{"name": "r", "labels": {"a": "b"}}]}}
            group = {"metadata": {"name": name, "namespace": "n"}, "spec": {"featureGroupRules": [{"name": "r"}]}}
            rules.put(item)
            groups.put(group)
            compiled_objects[name], compiled[name] = compile_object(item, POLICY), exhaust(group_steps(group))
        await write()
        rules.delete(("", f"job-{number}"))
        groups.delete(("n", f"job-{number}"))
        del compiled_objects[f"job-{number}"], compiled[f"job-{number}"]
    await write()
    assert (len(writer._sent), len(writer._written)) == (4, 4)
    assert client.patches[object_path(RULES, "stays", "status")] == 1
    for store in (rules, groups):
        for key in list(store.items):
            store.delete(key)
    compiled_objects.clear()
    compiled.clear()
    await write()
    assert (writer._sent, writer._written) == ({}, {})
