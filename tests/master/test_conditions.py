"""Node conditions: from fresh reports of the Node's own boot, on change alone, Unknown when a worker is silent."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from nfd.master.node.conditions import derive_conditions
from nfd.master.node.desired import derive_desired
from nfd.master.node.drift import BACKOFF, FREE
from nfd.master.node.prune import prune
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.node.undecided import NOTHING, Undecided
from nfd.master.service import Options, Service
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rules.policy import Policy
from nfd.store.base import Condition, Node
from tests.controlplane.cluster import ControlPlane
from tests.master.admission import Admission
from tests.master.conftest import BOOT, Worker, send
from tests.master.places import PROOF, Cluster, Place, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
REPORTED, USABLE = "nfd.node.kubernetes.io/FeaturesReported", "nfd.node.kubernetes.io/AcceleratorsUsable"
PRESENT, STATE, PRODUCT = "nvidia.com/gpu.present", "nvidia.com/gpu.state", "nvidia.com/gpu.product"
LABELS = {F + "cpu-x": "1", PRESENT: "true"}
THEIRS = {"type": "example.com/Theirs", "status": "True", "reason": "R", "message": "m"}


@dataclass
class Clock:
    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Started:
    place: Place
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    clock: Clock = field(default_factory=Clock)

    async def master(self, tick: float = 0.05, **settings: Any) -> Service:
        given = ReconcileOptions(**{"proof": PROOF, "conditions": True, **settings})
        options = Options("127.0.0.1", 0, 0, resync=0, settings=given, now=self.clock, tick=tick)
        service = Service(await self.place.open(), options)
        self.stack.push_async_callback(service.stop)
        await service.start()
        await until(service._leads.is_set)
        return service


@pytest.fixture
async def started(place: Place) -> AsyncIterator[Started]:
    found = Started(place)
    async with found.stack:
        yield found


def conditions_of(place: Place, name: str) -> dict[str, dict[str, str]]:
    found = place.get(name)["status"].get("conditions") or []
    return {one["type"]: one for one in found}


def said(place: Place, name: str, kind: str) -> tuple[str, str] | None:
    one = conditions_of(place, name).get(kind)
    return None if one is None else (one["status"], one["reason"])


def create(place: Place, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    before = list(conditions_of(place, name).values())
    place.edit(name, {"status": {"conditions": [*before, THEIRS]}}, "status")


async def test_they_come_with_the_labels_and_change_alone(place: Place, started: Started, name: str) -> None:
    create(place, name)
    service = await started.master()
    await until(lambda: service._store.get(name) is not None)
    worker = Worker(name)
    await send(service, worker.report(LABELS))
    assert labels_of(place, name).items() >= LABELS.items()
    assert service.metrics["node_patches"] == 1
    found = conditions_of(place, name)
    assert said(place, name, REPORTED) == ("True", "WorkerReported")
    assert found[REPORTED]["message"] == f"nfd-worker has reported the features of boot {BOOT}"
    assert found[REPORTED]["lastTransitionTime"] == found[REPORTED]["lastHeartbeatTime"] != ""
    assert said(place, name, USABLE) == ("True", "Usable")
    assert THEIRS.items() <= found[THEIRS["type"]].items()
    for _ in range(3):
        await send(service, worker.report(LABELS))
    assert service.metrics["node_patches"] == 1
    before = place.get(name)
    await send(service, worker.report(LABELS | {STATE: "driver-error"}))
    assert said(place, name, USABLE) == ("False", "DriverError")
    after = place.get(name)
    assert after["metadata"]["labels"] == before["metadata"]["labels"] | {STATE: "driver-error"}
    assert conditions_of(place, name)[REPORTED] == found[REPORTED]
    assert notes_of(place, name).keys() == before["metadata"]["annotations"].keys()
    assert service.metrics["node_patches"] == 2
    await send(service, worker.report({F + "cpu-x": "1"}, failed=("nvidia",)))
    assert said(place, name, USABLE) == ("False", "DriverError"), "nothing fresh is known"
    await send(service, worker.report({F + "cpu-x": "1"}))
    assert said(place, name, USABLE) is None


async def test_a_silent_worker_makes_them_unknown(place: Place, started: Started, name: str) -> None:
    """Not before the leader has led for three heartbeats, and labels stay."""
    create(place, name)
    service = await started.master()
    await until(lambda: service._store.get(name) is not None)
    worker = Worker(name)
    await send(service, worker.report(LABELS))
    version = place.get(name)["metadata"].get("resourceVersion")
    started.clock.seconds += 190.0
    await send(service, Worker("nobody").report({}))
    assert place.get(name)["metadata"].get("resourceVersion") == version
    started.clock.seconds += 900.0 * 4
    await until(lambda: said(place, name, REPORTED) == ("Unknown", "WorkerSilent"))
    assert said(place, name, USABLE) == ("Unknown", "WorkerSilent")
    assert labels_of(place, name).items() >= LABELS.items()
    assert THEIRS.items() <= conditions_of(place, name)[THEIRS["type"]].items()
    place.edit(name, {"metadata": {"labels": {"team": "red"}}})
    await until(lambda: (node := service._store.get(name)) is not None and node.labels.get("team") == "red")
    await send(service, Worker("nobody", started=2).report({}))
    assert said(place, name, REPORTED) == ("Unknown", "WorkerSilent")
    await send(service, worker.report(LABELS))
    assert said(place, name, REPORTED) == ("True", "WorkerReported")
    assert said(place, name, USABLE) == ("True", "Usable")


async def test_a_fleet_that_shrinks_makes_no_condition_unknown(place: Place, started: Started, name: str) -> None:
    """The worker keeps the long interval that it got, until its next report."""
    create(place, name)
    service = await started.master()
    await until(lambda: service._store.get(name) is not None)
    others = [f"of-a-large-fleet-{number}" for number in range(9000)]
    for other in others:
        service._heartbeats.note(other)
    reply = await send(service, Worker(name).report(LABELS))
    assert reply.heartbeat > 700.0
    for other in others:
        service._heartbeats.forget(other)
    started.clock.seconds += reply.heartbeat
    assert (service._unknowns.is_heard(name), service._unknowns.due([name])) == (True, [])
    started.clock.seconds += 900.0 * 4
    await until(lambda: said(place, name, REPORTED) == ("Unknown", "WorkerSilent"))


async def test_a_new_leader_waits_and_then_says_unknown(place: Place, started: Started, name: str) -> None:
    create(place, name)
    first = await started.master()
    await until(lambda: first._store.get(name) is not None)
    await send(first, Worker(name).report(LABELS))
    await first.stop()
    assert said(place, name, REPORTED) == ("True", "WorkerReported"), "a master that ends changes nothing"
    second = await started.master()
    started.clock.seconds += 150.0
    assert second._unknowns.due([name]) == []
    assert said(place, name, REPORTED) == ("True", "WorkerReported")
    started.clock.seconds += 900.0 * 4
    await until(lambda: said(place, name, REPORTED) == ("Unknown", "WorkerSilent"))


async def test_another_boot_makes_them_unknown_until_the_worker_reports(
    place: Place, started: Started, name: str
) -> None:
    create(place, name)
    service = await started.master()
    await until(lambda: service._store.get(name) is not None)
    started.clock.seconds += 900.0 * 4
    await send(service, Worker(name).report(LABELS))
    place.edit(name, {"status": {"nodeInfo": {"bootID": "boot-2"}}}, "status")
    await until(lambda: said(place, name, REPORTED) == ("Unknown", "Rebooted"))
    assert said(place, name, USABLE) == ("Unknown", "Rebooted")
    await send(service, Worker(name, boot_id="boot-2").report(LABELS))
    assert said(place, name, REPORTED) == ("True", "WorkerReported")
    assert conditions_of(place, name)[REPORTED]["message"].endswith("boot boot-2")


@pytest.mark.parametrize("status", ["False", "Unknown", None])
async def test_one_that_others_keep_changing_comes_back_later(
    place: Place, started: Started, name: str, status: str | None
) -> None:
    """Twice at once and then after some seconds, as a label does; everything else is written meanwhile."""
    create(place, name)
    service, worker = await started.master(), Worker(name)
    await until(lambda: service._store.get(name) is not None)
    await send(service, worker.report(LABELS))
    for number in range(FREE + 1):
        began = time.monotonic()
        others = [one for one in conditions_of(place, name).values() if one["type"] != REPORTED]
        theirs = {"type": REPORTED, "status": status, "reason": "Theirs", "message": f"{number}"}
        place.edit(name, {"status": {"conditions": [*others, *([theirs] if status else [])]}}, "status")
        await until(lambda count=number + 1: service.metrics["drift_restored"] == count)  # type: ignore[misc]
        if number == FREE:
            await send(service, worker.report(LABELS | {F + "cpu-x": "2"}))
            assert labels_of(place, name)[F + "cpu-x"] == "2"
            assert said(place, name, REPORTED) == (status and (status, "Theirs"))
        await until(lambda: said(place, name, REPORTED) == ("True", "WorkerReported"))
    assert time.monotonic() - began >= BACKOFF[0]
    assert service.metrics["drift_restored"] == FREE + 1
    assert said(place, name, USABLE) == ("True", "Usable")


async def test_what_the_master_makes_unknown_is_no_change_of_others(place: Place, started: Started, name: str) -> None:
    create(place, name)
    service, worker = await started.master(), Worker(name)
    await until(lambda: service._store.get(name) is not None)
    for _ in range(FREE + 2):
        await send(service, worker.report(LABELS))
        assert said(place, name, REPORTED) == ("True", "WorkerReported")
        started.clock.seconds += 900.0 * 4
        await until(lambda: said(place, name, REPORTED) == ("Unknown", "WorkerSilent"))
    assert service.metrics["drift_restored"] == 0


async def test_prune_removes_them_and_no_others(place: Place, started: Started, name: str) -> None:
    create(place, name)
    service = await started.master()
    await until(lambda: service._store.get(name) is not None)
    await send(service, Worker(name).report(LABELS))
    await service.stop()
    store = await place.open()
    await store.start(lambda name: None)
    found = {one.node.name: one async for one in prune(store, proof=PROOF) if one.node.name == name}
    await store.close()
    assert set(found[name].conditions) == {REPORTED, USABLE}
    assert not {REPORTED, USABLE} & conditions_of(place, name).keys()
    assert THEIRS.items() <= conditions_of(place, name)[THEIRS["type"]].items()


async def test_without_the_option_there_are_none(place: Place, started: Started, name: str) -> None:
    """Those of a master that had it are removed."""
    create(place, name)
    first = await started.master()
    await until(lambda: first._store.get(name) is not None)
    await send(first, Worker(name).report(LABELS))
    await first.stop()
    second = await started.master(conditions=False)
    await send(second, Worker(name, started=2).report(LABELS))
    assert not {REPORTED, USABLE} & conditions_of(place, name).keys()
    assert labels_of(place, name).items() >= LABELS.items()


async def test_a_policy_that_rejects_conditions_keeps_no_label_away(control_plane: ControlPlane) -> None:
    name, place = "condition-node", Cluster(control_plane)
    started, admission = Started(place), Admission(control_plane, "condition-")
    async with started.stack:
        admission.set_up()
        started.stack.callback(admission.clear)
        create(place, name)
        started.stack.callback(control_plane.delete_node, name)
        expression = f"!has(object.status.conditions) || !object.status.conditions.exists(c, c.type == '{REPORTED}')"
        probe = {"status": {"conditions": [{"type": REPORTED, "status": "True"}]}}
        await admission.forbid("none", expression, probe)
        service = await started.master()
        worker = Worker(name)
        for number in range(3):
            await send(service, worker.report({F + "cpu-x": str(number)}))
            assert labels_of(place, name)[F + "cpu-x"] == str(number)
        assert service.metrics._counts["node_patches"]["refused",] == 2
        assert REPORTED not in conditions_of(place, name)


NODE = Node("n", "uid", "1", BOOT, {}, {}, {}, ())


def derived(
    one: Report, node: Node = NODE, instance: str = "", undecided: Undecided = NOTHING
) -> dict[str, Condition | None]:
    return derive_conditions(node, one, derive_desired(one, Policy()), undecided, instance)


def report(labels: dict[str, str], **sources: State) -> Report:
    states = {name: SourceState(state) for name, state in {"cpu": State.FRESH, **sources}.items()}
    return Report("n", order=Order(BOOT, 1, 1), labels=labels, sources=states)


A = F + "accelerator-"


@pytest.mark.parametrize(
    ("labels", "status", "reason"),
    [
        ({PRESENT: "true"}, "True", "Usable"),
        ({PRESENT: "true", STATE: "no-driver"}, "False", "NoDriver"),
        ({STATE: "mig-pending"}, "False", "MigPending"),
        ({A + "amd.present": "true"}, "True", "Usable"),
        ({"accelerator-amd.present": "true", "accelerator-amd.state": "degraded"}, "False", "Degraded"),
        ({A + "amd.present": "true", A + "amd.state": "vfio"}, "True", "Vfio"),
        ({A + "amd.state": "no-driver", A + "any.state": "x", STATE: "stale"}, "False", "Stale"),
        ({A + "amd.state": "no-driver", A + "intel-gaudi.state": "driver-error"}, "False", "NoDriver"),
    ],
)
def test_states_are_reasons(labels: dict[str, str], status: str, reason: str) -> None:
    found = derived(report(labels))[USABLE]
    assert isinstance(found, Condition)
    assert (found.status, found.reason) == (status, reason)


def test_what_says_nothing() -> None:
    assert derived(report({}))[USABLE] is None
    assert USABLE not in derived(report({}, nvidia=State.FAILED))
    assert derived(Report("n", labels={PRESENT: "true"})) == {}
    assert derived(report({}), Node("n", "u", "1", "other", {}, {}, {}, ())) == {}
    assert next(iter(derived(report({}), instance="blue"))).startswith("blue.nfd.node.kubernetes.io/")


def test_labels_that_are_left_out_or_undecided_are_no_fault() -> None:
    labels = {PRESENT: "true", STATE: "no-driver"}
    given = replace(report({**labels, PRODUCT: "T4"}), origins={STATE: "nvidia", PRODUCT: "local"})
    assert derived(given)[USABLE] == Condition("True", "Usable", "no accelerator has a fault")
    failing = replace(given, sources={"nvidia": SourceState(State.FAILED)})
    assert derived(failing)[USABLE] == Condition("True", "Usable", "no accelerator has a fault"), "GFD reads the GPUs"
    assert USABLE not in derived(replace(given, sources={"local": SourceState(State.FAILED)}))
    held = Undecided(frozenset((STATE,)), True)
    assert USABLE not in derived(report(labels), undecided=held)
    faulty = derived(report({**labels, A + "amd.state": "degraded"}), undecided=held)[USABLE]
    assert faulty == Condition("False", "Degraded", "state of accelerators: amd: degraded")
    kept_away = derive_conditions(NODE, report(labels), derive_desired(report({}), Policy()), NOTHING, "")[USABLE]
    assert kept_away is not None
    assert kept_away.reason == "NoDriver", "a label that the configuration refuses is a state all the same"
