"""Masters as processes, with the arguments and rights of the manifests: what one knows, the next one knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import overlay
from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine
from tests.e2e.nodes import F
from tests.e2e.programs import Program, eventually, leads
from tests.e2e.release import ALONE, Release, grpc_port

TIMES = {"leaderElection": {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "300ms"}}
RULE = {
    "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
    "kind": "NodeFeatureRule",
    "metadata": {"name": "survives"},
    "spec": {
        "rules": [
            {"name": "r", "labels": {"vendor.io/survives": "yes"}, "matchFeatures": [{"feature": "system.name"}]},
        ]
    },
}
RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"


@pytest.fixture
def release(control_plane: ControlPlane, definitions: None, tmp_path: Path) -> Iterator[Release]:
    made = Release(control_plane, [*overlay("default")], tmp_path, options={**ALONE, **TIMES})
    made.apply()
    yield made
    control_plane.kubectl("delete", "nodefeaturerules", "survives", "--ignore-not-found")


def started(master: Program) -> Program:
    master.start()
    eventually(master.ready)
    return master


@pytest.mark.parametrize("how", ["roll-out", "kill -9"])
def test_the_next_master_applies_a_rule_without_a_report(
    how: str, release: Release, machines: Callable[[str], Machine], nodes: MakeNode
) -> None:
    """The worker is stopped before; nothing else is written, and no label is removed."""
    machine = machines("raspberry-pi-4")
    node, first = nodes(machine), started(release.master(0))
    eventually(lambda: leads(first))
    worker = release.worker(node, grpc_port(first), f"--host-root={machine.root}")
    worker.start()
    eventually(lambda: node.labels.get(F + "system-os_release.ID"))
    assert worker.stop() == 0
    labels, version, following = node.labels, node.version, first
    try:
        if how == "roll-out":
            following = started(release.master(1))
            assert following.said("the leader's reports are copied")[0]["reports"] >= 1
            assert first.stop() == 0
        else:
            file = release.folder / "reports-0"
            eventually(lambda: file.exists() and node.name.encode() in file.read_bytes())
            first.kill()
            following.start()
            assert eventually(lambda: following.said("snapshot loaded"))[0]["reports"] >= 1
        eventually(lambda: following.ready() and leads(following))
        release.plane.request("POST", RULES, RULE)
        eventually(lambda: node.labels == {**labels, "vendor.io/survives": "yes"})
        assert len(node.states(version)) == 1
    finally:
        for one in (first, following, worker):
            one.kill()
    assert "Traceback" not in first.text() + following.text()
