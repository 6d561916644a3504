"""Our own chart by Helm with --wait, roll-outs of every strategy, and drains: none of them hangs.

The pods are real masters and workers with the chart's arguments, rights and probes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import helm_python
import pytest

from tests.consumers.cluster import changes, now
from tests.consumers.fleet import FLEET, make
from tests.consumers.kubelet import Kubelet
from tests.consumers.running import nodes
from tests.consumers.table import F
from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import CHART, with_registry
from tests.e2e.programs import eventually

RELEASE, NAMESPACE = "nfd", "nfd-rollouts"
NAME = f"{RELEASE}-node-feature-discovery"
NODES = ("alder-lake", "milan-nic", "pi")
PATIENCE = 90
"""Seconds that Helm and kubectl may wait: several times what a roll-out takes, and less than for ever."""
PROBE = {"periodSeconds": 1, "initialDelaySeconds": 0}
"""Asked every second in place of every ten; what the chart says of liveness stays."""
STRATEGIES = {
    "maxUnavailable 1": {"maxUnavailable": 1, "maxSurge": 0},
    "maxSurge 1": {"maxUnavailable": 0, "maxSurge": 1},
    "both": {"maxUnavailable": 1, "maxSurge": 1},
}

Json = dict[str, Any]


@pytest.fixture(scope="module")
def kubelet(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    folder = tmp_path_factory.mktemp("rollouts")
    machines = {name: make(FLEET[name], folder / name) for name in NODES}
    flags = {name: built.flags for name, built in machines.items()}
    with nodes(cluster, machines), Kubelet(cluster, NAMESPACE, f"{NAME}-master", folder / "pods", flags) as running:
        yield running
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=60s")
    assert "Traceback" not in running.texts()


@pytest.fixture(scope="module")
def helm(cluster: ControlPlane, kubelet: Kubelet) -> Iterator[helm_python.Config]:
    with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace=NAMESPACE) as config:
        yield config


@pytest.fixture(scope="module")
def replicas(request: pytest.FixtureRequest, cluster: ControlPlane, helm: helm_python.Config) -> Iterator[int]:
    """A release with so many masters, installed with --wait, and uninstalled with --wait, which leaves no label."""
    number: int = request.param
    helm.install(str(CHART), RELEASE, values(number), namespace=NAMESPACE, create_namespace=True, **WAIT)
    yield number
    helm.uninstall(RELEASE, **WAIT)
    left = {key for name in NODES for key in cluster.get_node(name)["metadata"].get("labels", {})}
    assert not {key for key in left if key.startswith(F)}


WAIT: Json = {"wait": "watcher", "timeout": PATIENCE}
each_number = pytest.mark.parametrize("replicas", [1, 2], indirect=True)
two_masters = pytest.mark.parametrize("replicas", [2], indirect=True)


def values(replicas: int, strategy: Json | None = None, masters: str = "first", workers: str = "first") -> Json:
    """Another revision of masters or workers is another pod."""
    own = {
        "master": {
            "replicaCount": replicas,
            "podDisruptionBudget": {"enable": True},
            "updateStrategy": {"rollingUpdate": strategy or STRATEGIES["both"]},
            "annotations": {"revision": masters},
            "startupProbe": {**PROBE, "failureThreshold": 60},
            "readinessProbe": PROBE,
        },
        "worker": {"annotations": {"revision": workers}, "readinessProbe": PROBE},
    }
    return with_registry(own)


def get(plane: ControlPlane, kind: str, name: str) -> Json:
    return plane.request("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}/{name}")


def pods(plane: ControlPlane, role: str) -> list[Json]:
    return list(plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=role%3D{role}")["items"])


def labelled(plane: ControlPlane) -> bool:
    keys = (F + "kernel-version.full", F + "system-os_release.ID")
    return all(key in plane.get_node(name)["metadata"].get("labels", {}) for name in NODES for key in keys)


def all_ready(plane: ControlPlane, replicas: int) -> None:
    """What Helm waited for is so: as many Ready pods as wanted, all of them new, and a worker on each node."""
    deployment, daemon_set = get(plane, "deployments", f"{NAME}-master"), get(plane, "daemonsets", f"{NAME}-worker")
    assert deployment["status"]["updatedReplicas"] == deployment["status"]["availableReplicas"] == replicas
    assert daemon_set["status"]["updatedNumberScheduled"] == daemon_set["status"]["numberReady"] == len(NODES)


class Watched:
    """What happened between two moments: to the number of available masters, and to the labels of nodes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
        self._versions = {path: now(plane, path) for path in (self._deployments, "/api/v1/nodes")}
        self._keys = {name: plane.get_node(name)["metadata"]["labels"].keys() for name in NODES}

    def fewest_masters(self) -> int:
        """Ready masters at the worst moment."""
        states = changes(self._plane, self._deployments, self._versions[self._deployments])
        return min((one["object"]["status"].get("availableReplicas", 0) for one in states), default=10)

    def no_label_was_absent(self) -> bool:
        return all(
            one["object"]["metadata"]["labels"].keys() >= self._keys[one["object"]["metadata"]["name"]]
            for one in changes(self._plane, "/api/v1/nodes", self._versions["/api/v1/nodes"])
        )


@each_number
def test_install_waits_until_all_are_ready(cluster: ControlPlane, replicas: int) -> None:
    all_ready(cluster, replicas)
    eventually(lambda: labelled(cluster))


@pytest.mark.parametrize("replicas", [1], indirect=True)
def test_one_master_is_replaced_by_surge(cluster: ControlPlane, helm: helm_python.Config, replicas: int) -> None:
    """The new one must get Ready while the old one is: nothing else ends the old one."""
    roll_out(cluster, helm, replicas, "maxSurge 1")


@two_masters
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_roll_out_of_masters_ends(name: str, cluster: ControlPlane, helm: helm_python.Config, replicas: int) -> None:
    roll_out(cluster, helm, replicas, name)


def roll_out(plane: ControlPlane, helm: helm_python.Config, replicas: int, name: str) -> None:
    """`helm upgrade --wait`: all pods are new, a master is Ready at every moment, and no label goes."""
    eventually(lambda: labelled(plane))
    watched, before = Watched(plane), {one["metadata"]["uid"] for one in pods(plane, "master")}
    helm.upgrade(str(CHART), RELEASE, values(replicas, STRATEGIES[name], masters=name), **WAIT)
    all_ready(plane, replicas)
    eventually(lambda: not before & {one["metadata"]["uid"] for one in pods(plane, "master")})
    assert watched.fewest_masters() >= 1
    assert watched.no_label_was_absent()


@two_masters
def test_a_mistaken_upgrade_is_rolled_back(cluster: ControlPlane, helm: helm_python.Config, replicas: int) -> None:
    """`helm rollback --wait`, workers included; masters that cannot start have kept an old one in its place."""
    eventually(lambda: labelled(cluster))
    watched, broken = Watched(cluster), values(replicas, workers="mistaken")
    broken["master"]["extraArgs"] = ["--no-such-flag"]
    with pytest.raises(helm_python.HelmError, match="not ready"):
        helm.upgrade(str(CHART), RELEASE, broken, wait="watcher", timeout=20)
    helm.rollback(RELEASE, **WAIT)
    all_ready(cluster, replicas)
    assert {one["metadata"]["annotations"]["revision"] for one in pods(cluster, "worker")} == {"first"}
    assert watched.fewest_masters() >= 1
    assert watched.no_label_was_absent()


@each_number
def test_every_node_can_be_drained(cluster: ControlPlane, replicas: int) -> None:
    """One after the other, against the disruption budget; of two masters one is Ready at every moment."""
    eventually(lambda: labelled(cluster))
    watched = Watched(cluster)
    for name in NODES:
        drain(cluster, name)
        assert name not in {one["spec"].get("nodeName") for one in pods(cluster, "master")}
        cluster.kubectl("uncordon", name)
    cluster.kubectl("rollout", "status", "-n", NAMESPACE, f"deployment/{NAME}-master", f"--timeout={PATIENCE}s")
    assert watched.fewest_masters() >= replicas - 1
    assert watched.no_label_was_absent()


def drain(plane: ControlPlane, *names: str) -> None:
    words = ("--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={PATIENCE}s")
    plane.kubectl("drain", *words, *names)


@two_masters
def test_two_nodes_can_be_drained_at_once(cluster: ControlPlane, replicas: int) -> None:
    """Both masters move to the third node, one after the other as the budget says."""
    watched = Watched(cluster)
    drain(cluster, *NODES[:2])
    assert {one["spec"].get("nodeName") for one in pods(cluster, "master")} == {NODES[2]}
    cluster.kubectl("uncordon", *NODES[:2])
    assert watched.fewest_masters() >= replicas - 1
    assert watched.no_label_was_absent()
