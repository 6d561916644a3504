"""A startup taint is removed once from a Node, after its labels are written; on both node stores."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nfd.config.flags import configure, parse
from nfd.errors import ConfigError
from nfd.master.cli import FLAGS
from nfd.master.config import Config
from nfd.master.node.desired import Contribution, derive_freshness
from nfd.master.node.outcome import Outcome
from nfd.master.node.startup_taints import NAMESPACES, REMOVED, parse_startup_taint
from nfd.master.rules.evaluation import Evaluation
from nfd.master.service import Service
from nfd.report import Report
from nfd.rules.model import Taint
from nfd.rules.policy import Policy
from nfd.store.base import Node
from tests.controlplane.cluster import ControlPlane
from tests.master.admission import Admission
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Cluster, Place, labels_of, notes_of, until
from tests.rpc import nfd016

F = "feature.node.kubernetes.io/"
KEY = "readiness.k8s.io/nfd"
TEXT, OTHER = f"{KEY}=pending:NoSchedule", "startup-taint.cluster-autoscaler.kubernetes.io/nfd:NoExecute"
STARTUP = {"key": KEY, "value": "pending", "effect": "NoSchedule"}
SECOND = {"key": "startup-taint.cluster-autoscaler.kubernetes.io/nfd", "effect": "NoExecute"}
FOREIGN = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
NOTE = f"nfd.node.kubernetes.io/{REMOVED}"
CONFIGURED = frozenset({TEXT, OTHER})
LABELS = {F + "cpu-x": "1"}


def taints_of(place: Place, name: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        for taint in place.get(name).get("spec", {}).get("taints") or ()
    ]


def taint(place: Place, name: str, *taints: dict[str, str]) -> None:
    place.edit(name, {"spec": {"taints": list(taints)}})


async def tainted(masters: Masters, name: str, *taints: dict[str, str], **settings: Any) -> Service:
    """A master that knows the Node with these taints."""
    masters.place.create(name, {}, {}, BOOT)
    taint(masters.place, name, *taints)
    service = await masters.start(startup_taints=CONFIGURED, **settings)
    await until(lambda: (node := service._store.get(name)) is not None and len(node.taints) == len(taints))
    return service


def why(service: Service, name: str) -> str:
    return service.kept_taints().get(name, {}).get(TEXT, "")


async def test_it_goes_once_and_foreign_taints_stay(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, FOREIGN, STARTUP, SECOND)
    assert "has not reported" in why(service, name)
    worker = Worker(name)
    await send(service, worker.report(LABELS))
    assert labels_of(place, name).items() >= LABELS.items()
    assert taints_of(place, name) == [FOREIGN]
    assert sorted(json.loads(notes_of(place, name)[NOTE])["taints"]) == sorted(CONFIGURED)
    assert service.kept_taints() == {}
    taint(place, name, FOREIGN, STARTUP)
    await until(lambda: (node := service._store.get(name)) is not None and len(node.taints) == 2)
    await send(service, worker.report(LABELS | {F + "cpu-y": "1"}))
    await until(lambda: F + "cpu-y" in labels_of(place, name))
    assert taints_of(place, name) == [FOREIGN, STARTUP]
    again = await masters.start(startup_taints=CONFIGURED)
    await send(again, Worker(name, started=2).report(LABELS))
    assert taints_of(place, name) == [FOREIGN, STARTUP]
    assert (service.metrics["startup_taints_removed"], again.metrics["startup_taints_removed"]) == (2, 0)


async def test_one_that_comes_after_the_labels_goes_too(place: Place, masters: Masters, name: str) -> None:
    """A node pool may add it to the Node object after the worker has reported, and one after the other."""
    service = await tainted(masters, name)
    await send(service, Worker(name).report(LABELS))
    assert NOTE not in notes_of(place, name)
    taint(place, name, STARTUP)
    await until(lambda: taints_of(place, name) == [])
    taint(place, name, SECOND)
    await until(lambda: taints_of(place, name) == [])


@pytest.mark.parametrize(
    "other",
    [
        {"key": KEY, "value": "other", "effect": "NoSchedule"},
        {"key": KEY, "value": "pending", "effect": "NoExecute"},
        {"key": KEY, "effect": "NoSchedule"},
    ],
)
async def test_key_value_and_effect_count(place: Place, masters: Masters, name: str, other: dict[str, str]) -> None:
    service = await tainted(masters, name, other)
    await send(service, Worker(name).report(LABELS))
    assert labels_of(place, name).items() >= LABELS.items()
    assert taints_of(place, name) == [other]


async def test_a_failed_source_keeps_it(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, STARTUP)
    worker = Worker(name)
    await send(service, worker.report(LABELS, failed=("nvidia",)))
    assert labels_of(place, name).items() >= LABELS.items()
    assert taints_of(place, name) == [STARTUP]
    assert why(service, name) == "feature sources failed: nvidia: failed"
    await send(service, worker.report(LABELS, off=("nvidia",)))
    assert taints_of(place, name) == []


async def test_a_report_of_another_boot_keeps_it(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, STARTUP)
    await send(service, Worker(name, boot_id="boot-0").report(LABELS))
    assert taints_of(place, name) == [STARTUP]
    assert why(service, name) == "the latest report is of boot boot-0, and the Node is in boot boot-1"
    await send(service, Worker(name).report(LABELS))
    assert taints_of(place, name) == []


async def test_a_node_without_boot_id_keeps_it(place: Place, masters: Masters, name: str) -> None:
    """A kubelet reports it a moment after it has registered."""
    place.create(name, {}, {}, "")
    taint(place, name, STARTUP)
    service = await masters.start(startup_taints=CONFIGURED)
    await send(service, Worker(name).report(LABELS))
    assert taints_of(place, name) == [STARTUP]
    assert why(service, name) == "the kubelet has not reported a boot id"
    place.edit(name, {"status": {"nodeInfo": {"bootID": BOOT}}}, "status")
    await until(lambda: taints_of(place, name) == [])


async def test_a_worker_of_nfd_names_no_boot(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, STARTUP)
    request = nfd016.v016()(nfd_version="v0.16.6", node_name=name, labels={"cpu-x": "1"})
    await asyncio.to_thread(nfd016.set_labels, service.port, request.SerializeToString())
    await until(lambda: F + "cpu-x" in labels_of(place, name))
    assert taints_of(place, name) == [STARTUP]
    assert "name no boot id" in why(service, name)


async def test_nothing_is_removed_without_publishing(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, STARTUP, publish=False)
    await send(service, Worker(name).report(LABELS))
    assert taints_of(place, name) == [STARTUP]
    assert "noPublish" in why(service, name)


async def test_incomplete_rules_keep_it(place: Place, masters: Masters, name: str) -> None:
    """Until the lists are complete, and until the rules are evaluated on the latest report."""
    given: dict[str, Any] = {"settled": False}

    def ask(node: Node, report: Report | None) -> Outcome | None:
        if report is None:
            return None
        fresh = derive_freshness(report)
        return Outcome(report, type(fresh)(**{"sources": fresh.sources, **given}), Evaluation(), Policy())

    service = await tainted(masters, name, STARTUP, evaluate=ask)
    worker = Worker(name)
    for change, reason in (({"settled": False}, "not complete yet"), ({"evaluated": False}, "not evaluated")):
        given.clear()
        given.update(change)
        await send(service, worker.report(LABELS))
        assert taints_of(place, name) == [STARTUP]
        assert reason in why(service, name)
    given.clear()
    await send(service, worker.report(LABELS))
    assert taints_of(place, name) == []


async def test_one_that_a_rule_sets_stays(place: Place, masters: Masters, name: str) -> None:
    key = "nfd.node.kubernetes.io/startup"
    mine, policy = {"key": key, "effect": "NoSchedule"}, Policy(enable_taints=True, extra_label_ns=frozenset({key}))
    wanted = [Contribution("rule:a/b", taints=(Taint(key="vendor.io/x", effect="NoSchedule"),))]

    def ask(node: Node, report: Report | None) -> Outcome | None:
        return None if report is None else Outcome(report, derive_freshness(report), Evaluation(wanted), policy)  # type: ignore[arg-type]

    place.create(name, {}, {}, BOOT)
    taint(place, name, mine, {"key": "vendor.io/x", "effect": "NoSchedule"})
    configured = frozenset({f"{key}:NoSchedule", "vendor.io/x:NoSchedule"})
    service = await masters.start(startup_taints=configured, evaluate=ask, policy=policy)
    await send(service, Worker(name).report(LABELS))
    assert {"key": "vendor.io/x", "effect": "NoSchedule"} in taints_of(place, name)
    assert "a rule sets vendor.io/x:NoSchedule" in service.kept_taints()[name]["vendor.io/x:NoSchedule"]


async def test_a_new_node_of_the_same_name_is_another_one(place: Place, masters: Masters, name: str) -> None:
    service = await tainted(masters, name, STARTUP)
    await send(service, Worker(name).report(LABELS))
    assert taints_of(place, name) == []
    note = notes_of(place, name)[NOTE]
    place.delete(name)
    await until(lambda: service._store.get(name) is None)
    place.create(name, {}, {NOTE: note}, "boot-2")
    taint(place, name, STARTUP)
    await send(service, Worker(name, boot_id="boot-2").report(LABELS))
    await until(lambda: taints_of(place, name) == [])


async def test_a_configuration_without_them_leaves_them(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    taint(place, name, STARTUP)
    service = await masters.start()
    await send(service, Worker(name).report(LABELS))
    assert taints_of(place, name) == [STARTUP]
    assert service.kept_taints() == {}


async def test_a_policy_that_rejects_the_removal_is_asked_again_later(control_plane: ControlPlane) -> None:
    masters, name = Masters(Cluster(control_plane)), "startup-node"
    admission = Admission(control_plane, "startup-")
    async with masters.stack:
        admission.set_up()
        masters.stack.callback(admission.clear)
        service = await tainted(masters, name, STARTUP)
        masters.stack.callback(control_plane.delete_node, name)
        same = " == ".join(f"(has({one}.spec.taints) ? {one}.spec.taints : [])" for one in ("object", "oldObject"))
        await admission.forbid("taints", same, {"spec": {"taints": [FOREIGN]}}, "Invalid", "ask the team")
        worker = Worker(name)
        for number in range(3):
            await send(service, worker.report({F + "cpu-x": str(number)}))
            assert labels_of(masters.place, name)[F + "cpu-x"] == str(number)
        assert taints_of(masters.place, name) == [STARTUP]
        assert "ask the team" in why(service, name)
        assert service.metrics._counts["node_patches"]["refused",] == 1
        assert service._gauges()["startup_tainted_nodes"] == len(service.kept_taints())


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("a/b=c:NoSchedule", "a/b=c:NoSchedule"),
        (" a/b=:NoExecute ", "a/b:NoExecute"),
        ("dedicated:PreferNoSchedule", "dedicated:PreferNoSchedule"),
        ("nfd.node.kubernetes.io/x:NoSchedule", "nfd.node.kubernetes.io/x:NoSchedule"),
        ("x.feature.node.kubernetes.io/x:NoSchedule", "x.feature.node.kubernetes.io/x:NoSchedule"),
        *((f"{one}/x:NoSchedule", f"{one}/x:NoSchedule") for one in NAMESPACES),
    ],
)
def test_taints_that_may_be_configured(text: str, parsed: str) -> None:
    assert parse_startup_taint(text) == parsed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a/b", "must be KEY=VALUE:EFFECT"),
        ("a/b:Never", "must be KEY=VALUE:EFFECT"),
        (":NoSchedule", "must be KEY=VALUE:EFFECT"),
        ("a/b=c d:NoSchedule", "value must be letters"),
        ("a b:NoSchedule", "key name must be letters"),
        ("node.kubernetes.io/not-ready:NoExecute", "keys below kubernetes.io and k8s.io are not allowed"),
        ("kubernetes.io/x:NoExecute", "keys below kubernetes.io and k8s.io are not allowed"),
        ("k8s.io/x:NoSchedule", "keys below kubernetes.io and k8s.io are not allowed"),
        ("x.readiness.k8s.io/x:NoSchedule", "keys below kubernetes.io and k8s.io are not allowed"),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/x:NoSchedule", "keys below kubernetes.io and k8s.io"),
    ],
)
def test_taints_that_may_not(text: str, reason: str) -> None:
    parsed = parse("nfd-master", ["--config=", f"--startup-taints=ok:NoSchedule,{text}"], FLAGS, Config, "NFD_MASTER")
    with pytest.raises(ConfigError, match=r"-startup-taints: startupTaints\[1\]: ") as error:
        configure(Config, parsed)
    assert reason in str(error.value)
