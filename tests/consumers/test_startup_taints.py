"""A pod waits for a startup taint until the Node is labelled, and is bound at once after: with the real scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from nfd.cli import main
from tests.consumers.cluster import apply, changes, clear, daemon_set, deployment, now, placed, pods_of
from tests.consumers.fleet import FLEET, Built, make
from tests.consumers.running import Discovery, nodes, prepare
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually

NODE = "h200"
STARTUP = {"key": "readiness.k8s.io/nfd", "value": "pending", "effect": "NoSchedule"}
TEXT = "readiness.k8s.io/nfd=pending:NoSchedule"
ELSEWHERE = {"key": "dedicated", "value": "training", "effect": "PreferNoSchedule"}
REPORTS = Path(__file__).parents[2] / "deploy/kustomize/components/reports/rbac.yaml"
Json = dict[str, Any]


@pytest.fixture
def machine(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Built]]:
    """A Node with the taint of its pool, without labels; nothing is running."""
    machines = {NODE: make(FLEET[NODE], tmp_path_factory.mktemp("h200"))}
    with nodes(cluster, machines):
        cluster.request("PATCH", f"/api/v1/nodes/{NODE}", {"spec": {"taints": [STARTUP, ELSEWHERE]}})
        yield machines
        clear(cluster)


@pytest.fixture
def discovery(
    cluster: ControlPlane, machine: dict[str, Built], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Discovery]:
    folder = tmp_path_factory.mktemp("startup")
    cluster.kubectl("apply", "-f", str(REPORTS))
    running = prepare(cluster, folder, machine, f"-startup-taints={TEXT}", "-serve-reports")
    running.start_master()
    yield running
    running.master.kill()
    for worker in running.workers.values():
        worker.kill()


def taints_of(plane: ControlPlane) -> list[str]:
    return [taint["key"] for taint in plane.get_node(NODE)["spec"].get("taints", ())]


def test_a_pod_waits_for_the_labels_and_is_bound_at_once_after(
    cluster: ControlPlane,
    discovery: Discovery,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that selects a label, and one that any node suits; the worker's own pod tolerates the taint."""
    wants = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}
    tolerant = {"tolerations": [{"operator": "Equal", **STARTUP}]}
    apply(cluster, deployment("wants-h200", wants), deployment("anywhere", {}), daemon_set("worker", tolerant))
    eventually(lambda: placed(cluster).get("worker") == [NODE])
    eventually(lambda: len(placed(cluster)) == 3)
    eventually(lambda: "untolerated taint" in str(pods_of(cluster, "anywhere")[0]["status"]))
    assert placed(cluster) == {"wants-h200": [""], "anywhere": [""], "worker": [NODE]}
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    master = ["--master", f"http://localhost:{discovery.master.http_port}"]
    assert main(["explain", NODE, *master]) == 0
    out = capsys.readouterr().out
    assert f"{NODE} has 1 startup taint that nfd will remove\n" in out
    assert f"  {TEXT} stays for now: its worker has not reported since this master leads\n" in out
    assert main(["explain", NODE]) == 0
    out = capsys.readouterr().out
    assert "has not reported for this Node, so it is not labelled yet" in out
    assert f"{NODE} has 2 taints\n" in out
    version = now(cluster, "/api/v1/nodes")
    discovery.start_workers()
    with suppress(AssertionError):
        eventually(lambda: "" not in [node for nodes in placed(cluster).values() for node in nodes])
    assert placed(cluster) == {"wants-h200": [NODE], "anywhere": [NODE], "worker": [NODE]}
    assert taints_of(cluster) == ["dedicated"]
    released = [
        "nvidia.com/gpu.product" in event["object"]["metadata"].get("labels", {})
        for event in changes(cluster, "/api/v1/nodes", version)
        if len(event["object"]["spec"].get("taints", ())) < 2
    ]
    assert released
    assert all(released), "a taint was gone before the labels were there"
    assert main(["explain", NODE, *master]) == 0
    out = capsys.readouterr().out
    assert f"{NODE} has no startup taints that nfd will remove\n" in out
    assert f"  {TEXT} was removed once the Node was labelled\n" in out


def test_the_delay_between_labels_and_binding(cluster: ControlPlane, discovery: Discovery) -> None:
    """The scheduler binds a waiting pod within seconds of the report, without waiting for a heartbeat or a resync."""
    apply(cluster, deployment("anywhere", {}))
    eventually(lambda: placed(cluster) == {"anywhere": [""]})
    discovery.start_workers()
    began = time.monotonic()
    eventually(lambda: taints_of(cluster) == ["dedicated"])
    eventually(lambda: placed(cluster) == {"anywhere": [NODE]})
    assert time.monotonic() - began < 15


def test_one_that_is_set_again_later_stays(
    cluster: ControlPlane, discovery: Discovery, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for another master process."""
    discovery.start_workers()
    eventually(lambda: taints_of(cluster) == ["dedicated"])
    cluster.kubectl("taint", "node", NODE, TEXT)
    discovery.kill()
    discovery.start_master()
    discovery.start_workers()
    assert sorted(taints_of(cluster)) == ["dedicated", STARTUP["key"]]
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    assert main(["explain", NODE]) == 0
    out = capsys.readouterr().out
    assert f"  {TEXT} was removed once and set again later; nfd does not remove it again\n" in out
