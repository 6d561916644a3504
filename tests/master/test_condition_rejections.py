"""Conditions that the API server rejects cost one PATCH in five minutes, whoever writes them, and keep nothing away."""

from __future__ import annotations

from typing import cast

import pytest

from nfd.errors import Forbidden, Invalid, KubeError, Unauthorized, Unavailable
from nfd.master.node.condition_rejections import RETRY, ConditionRejections
from nfd.master.node.conditions import Unknowns
from nfd.master.node.known_rejections import NODES
from nfd.master.reports.heartbeats import Heartbeats
from nfd.store.base import Node, NodeStore
from tests.controlplane.cluster import ControlPlane
from tests.master.admission import Admission
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, until
from tests.master.test_conditions import LABELS, REPORTED, Clock, F, Started, create, said

SILENT = 900.0 * 4
NO = Invalid("no", by="policy p")


def names(number: int) -> list[str]:
    return [f"node-{one}" for one in range(number)]


def attempts(rejections: ConditionRejections, of: list[str], refused: set[str]) -> list[str]:
    """One round over the nodes that have conditions to write: those that try."""
    tried = [name for name in of if rejections.claim(name)]
    for name in tried:
        rejections.reject(name) if name in refused else rejections.accept(name)
    return tried


def test_three_nodes_try_and_then_one_in_five_minutes() -> None:
    clock = Clock()
    rejections, fleet = ConditionRejections(clock), names(5000)
    tried: list[str] = []
    for name in fleet:
        if rejections.claim(name):
            tried.append(name)
            rejections.reject(name)
    assert tried == fleet[:NODES]
    assert attempts(rejections, fleet, set(fleet)) == []
    for _ in range(3):
        clock.seconds += RETRY
        assert len(attempts(rejections, fleet, set(fleet))) == 1
        assert attempts(rejections, fleet, set(fleet)) == []


def test_a_success_sets_all_others_free() -> None:
    clock = Clock()
    rejections, fleet = ConditionRejections(clock), names(10)
    for name in fleet[:NODES]:
        rejections.reject(name)
    clock.seconds += RETRY
    rejections.claim(fleet[5])
    assert rejections.waits(fleet[6])
    assert not rejections.waits(fleet[5]), "a conflict is no answer: the same node tries again"
    rejections.accept(fleet[5])
    assert not [name for name in fleet if rejections.waits(name)]


def test_a_policy_for_single_nodes_holds_up_no_other_twice() -> None:
    clock = Clock()
    rejections, fleet = ConditionRejections(clock), names(20)
    odd = set(fleet[:NODES])
    for _ in range(3):
        attempts(rejections, fleet, odd)
        clock.seconds += RETRY
    for _ in range(20):
        assert set(fleet) - odd <= set(attempts(rejections, fleet, odd))
        clock.seconds += 10.0


def test_it_is_logged_until_it_concerns_all(caplog: pytest.LogCaptureFixture) -> None:
    rejections = ConditionRejections(Clock())
    for _ in range(2):
        for name in names(10):
            rejections.note(name, NO)
    assert len(caplog.records) == NODES


def test_deleted_nodes_are_forgotten() -> None:
    rejections = ConditionRejections(Clock())
    for name in names(NODES):
        rejections.reject(name)
        rejections.forget(name)
    assert (rejections._until, rejections._news, rejections.waits("node-9")) == ({}, set(), False)


async def test_a_policy_against_unknown_is_asked_once_in_five_minutes(control_plane: ControlPlane) -> None:
    """By the API server's own log; labels are written meanwhile, and Unknown once the policy is gone."""
    place, prefix = Cluster(control_plane), "unknown-"
    started, admission = Started(place), Admission(control_plane, prefix)
    nodes = [f"{prefix}{number}" for number in range(NODES + 3)]
    async with started.stack:
        admission.set_up()
        started.stack.callback(admission.clear)
        for name in nodes:
            create(place, name)
            started.stack.callback(control_plane.delete_node, name)
        service = await started.master(tick=3600.0)
        for name in nodes:
            await send(service, Worker(name).report(LABELS))
        probe = {"status": {"conditions": [{"type": REPORTED, "status": "Unknown"}]}}
        expression = f"!object.status.conditions.exists(c, c.type == '{REPORTED}' && c.status == 'Unknown')"
        await admission.forbid("no-unknown", f"!has(object.status.conditions) || {expression}", probe)
        started.clock.seconds += SILENT

        async def mark() -> int:
            """Requests of two rounds."""
            begun = control_plane.mark()
            for _ in range(2):
                await service._unknowns.mark(lambda: True)
            asked = [one for one in control_plane.audit(begun) if one.name in nodes and one.subresource == "status"]
            return len(asked)

        assert await mark() == NODES
        (unwritten,) = service.unwritten()
        assert (unwritten.kind, unwritten.nodes) == ("condition", tuple(nodes[:NODES]))
        assert f"{prefix}no-unknown" in unwritten.by
        assert await mark() == 0
        await send(service, Worker(nodes[0], started=2).report({F + "cpu-x": "2"}))
        assert labels_of(place, nodes[0])[F + "cpu-x"] == "2"
        started.clock.seconds += SILENT
        assert await mark() == 1
        await admission.allow("no-unknown", probe)
        started.clock.seconds += RETRY
        assert await mark() == len(nodes)
        await until(lambda: {said(place, name, REPORTED) for name in nodes} == {("Unknown", "WorkerSilent")})
        assert service.unwritten() == []


class Refusing:
    """A node store whose every patch fails."""

    def __init__(self, error: KubeError) -> None:
        self.error = error

    async def patch(self, name: str, patch: object) -> Node:
        raise self.error


@pytest.mark.parametrize(
    ("error", "rejected"),
    [(NO, True), (Forbidden("403"), True), (Unauthorized("401"), False), (Unavailable("503"), False)],
)
async def test_only_a_rejection_makes_the_conditions_of_a_silent_node_wait(error: KubeError, rejected: bool) -> None:
    """A token that is just being replaced is none."""
    rejections = ConditionRejections(Clock())
    await Unknowns(cast(NodeStore, Refusing(error)), "", Heartbeats(), rejections)._write(Node.bare("n"), {})
    assert rejections.waits("n") == rejected
