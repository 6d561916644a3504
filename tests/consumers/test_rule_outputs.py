"""Extended resources and taints that rules bring are what the scheduler and the taint eviction controller act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.consumers.cluster import apply, clear, counted, daemon_set, deployment, force, placed, pods_of
from tests.consumers.fleet import FLEET, make
from tests.consumers.running import Discovery, nodes, prepare
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually

DESKTOP, BOARD = "alder-lake", "pi"
RESOURCE = "vendor.example/dongle"
TAINT = "feature.node.kubernetes.io/slow"
SELECTS = {DESKTOP: {"system-os_release.ID": "arch"}, BOARD: {"system-os_release.ID": "debian"}}
TOLERANT = {"tolerations": [{"key": TAINT, "operator": "Exists"}]}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def discovery(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    folder = tmp_path_factory.mktemp("two")
    machines = {name: make(FLEET[name], folder / name) for name in SELECTS}
    running = prepare(cluster, folder, machines, "-enable-taints")
    with nodes(cluster, machines):
        running.start_master()
        running.start_workers()
        yield running
        running.kill()


@pytest.fixture
def rule(cluster: ControlPlane, discovery: Discovery) -> Iterator[str]:
    """The name of a rule; it is gone after the test, and with it what it brought, and all pods."""
    yield "output"
    clear(cluster)
    cluster.kubectl("delete", "--ignore-not-found", "nodefeaturerule", "output")
    eventually(lambda: not any(taints_of(cluster, name) for name in SELECTS))
    eventually(lambda: RESOURCE not in cluster.get_node(DESKTOP)["status"]["capacity"])


def on(node: str) -> Json:
    """Where a pod for that node may run."""
    return {"nodeSelector": {f"feature.node.kubernetes.io/{key}": value for key, value in SELECTS[node].items()}}


def feature_rule(name: str, node: str, **output: Any) -> Json:
    """That output, for the node with its operating system."""
    ((_, system),) = SELECTS[node].items()
    term = {"feature": "system.osrelease", "matchExpressions": {"ID": {"op": "In", "value": [system]}}}
    spec = {"rules": [{"name": name, "matchFeatures": [term], **output}]}
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureRule",
        "metadata": {"name": name},
        "spec": spec,
    }


def taint(effect: str) -> Json:
    return {"taints": [{"key": TAINT, "value": "true", "effect": effect}]}


def taints_of(plane: ControlPlane, node: str) -> list[str]:
    return [one["effect"] for one in plane.get_node(node)["spec"].get("taints", ()) if one["key"] == TAINT]


def asking(number: int) -> Json:
    """A pod that wants so many dongles."""
    limits = {"limits": {RESOURCE: str(number)}}
    return {"containers": [{"name": "main", "image": "example.invalid/none", "resources": limits}]}


def are_placed(plane: ControlPlane, wanted: dict[str, list[str]]) -> None:
    with suppress(AssertionError):
        eventually(lambda: placed(plane) == wanted)
    assert placed(plane) == wanted


def test_an_extended_resource_is_given_out_as_often_as_the_rule_says(cluster: ControlPlane, rule: str) -> None:
    """Two of three pods get one; the third when the rule says three."""
    apply(cluster, deployment("dongles", asking(1), replicas=3))
    apply(cluster, feature_rule(rule, DESKTOP, extendedResources={RESOURCE: "2"}))
    are_placed(cluster, {"dongles": ["", DESKTOP, DESKTOP]})
    (waiting,) = [pod for pod in pods_of(cluster, "dongles") if "nodeName" not in pod["spec"]]
    eventually(lambda: f"Insufficient {RESOURCE}" in told(cluster, waiting["metadata"]["name"]))
    apply(cluster, feature_rule(rule, DESKTOP, extendedResources={RESOURCE: "3"}))
    are_placed(cluster, {"dongles": [DESKTOP] * 3})


def told(plane: ControlPlane, pod: str) -> str:
    """The scheduler's message in the pod's condition."""
    status = plane.request("GET", f"/api/v1/namespaces/default/pods/{pod}")["status"]
    return " ".join(str(one.get("message", "")) for one in status.get("conditions", ()))


def test_no_schedule_keeps_new_pods_away_and_lets_the_old_ones_be(cluster: ControlPlane, rule: str) -> None:
    apply(cluster, deployment("before", on(BOARD)))
    are_placed(cluster, {"before": [BOARD]})
    apply(cluster, feature_rule(rule, BOARD, **taint("NoSchedule")))
    eventually(lambda: taints_of(cluster, BOARD) == ["NoSchedule"])
    apply(cluster, deployment("after", on(BOARD)), deployment("tolerant", on(BOARD) | TOLERANT))
    are_placed(cluster, {"before": [BOARD], "after": [""], "tolerant": [BOARD]})
    eventually(lambda: "untolerated taint" in told(cluster, pods_of(cluster, "after")[0]["metadata"]["name"]))
    cluster.kubectl("delete", "nodefeaturerule", rule)
    are_placed(cluster, {"before": [BOARD], "after": [BOARD], "tolerant": [BOARD]})


def test_no_execute_evicts_who_does_not_tolerate_it(cluster: ControlPlane, rule: str) -> None:
    """A Deployment's pod waits for the taint to go; a DaemonSet's tolerates it or ends."""
    apply(cluster, deployment("evicted", on(BOARD)), daemon_set("tolerant", on(BOARD) | TOLERANT))
    are_placed(cluster, {"evicted": [BOARD], "tolerant": [BOARD]})
    (old,) = [pod["metadata"]["name"] for pod in pods_of(cluster, "evicted")]
    apply(cluster, feature_rule(rule, BOARD, **taint("NoExecute")))
    eventually(
        lambda: (
            "deletionTimestamp"
            in next(pod for pod in pods_of(cluster, "evicted") if pod["metadata"]["name"] == old)["metadata"]
        )
    )
    force(cluster, old)
    are_placed(cluster, {"evicted": [""], "tolerant": [BOARD]})
    assert not any("deletionTimestamp" in pod["metadata"] for pod in pods_of(cluster, "tolerant"))
    assert counted(cluster, "tolerant") == 1
    cluster.kubectl("delete", "nodefeaturerule", rule)
    are_placed(cluster, {"evicted": [BOARD], "tolerant": [BOARD]})


def test_a_taint_of_ours_stays_while_we_are_restarted(cluster: ControlPlane, discovery: Discovery, rule: str) -> None:
    """A pod that it keeps away must not slip in."""
    apply(cluster, feature_rule(rule, BOARD, **taint("NoSchedule"), extendedResources={RESOURCE: "1"}))
    eventually(lambda: taints_of(cluster, BOARD) == ["NoSchedule"])
    apply(cluster, deployment("kept-out", on(BOARD)))
    discovery.master.kill()
    discovery.workers[BOARD].kill()
    discovery.start_master()
    discovery.start_workers(BOARD)
    assert placed(cluster) == {"kept-out": [""]}
    assert taints_of(cluster, BOARD) == ["NoSchedule"]
    assert cluster.get_node(BOARD)["status"]["allocatable"][RESOURCE] == "1"
