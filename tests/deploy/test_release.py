"""A release on a real API server, from install to uninstall: helm does what the documentation tells a person to do."""

from __future__ import annotations

import base64
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path

import helm_python
import pytest

from tests.children import run
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import without_proxy
from tests.deploy.rendering import CHART, Object, with_registry

RELEASE = "nfd"
RELEASED_IN = "released"
NAME = "nfd-node-feature-discovery"
INSIDE = f"/api/v1/namespaces/{RELEASED_IN}"
JOB = f"/apis/batch/v1/namespaces/{RELEASED_IN}/jobs/{NAME}-prune"
LABEL = "feature.node.kubernetes.io/cpu-model.vendor_id"
FILLED = base64.b64encode(b"filled by the master").decode()


@pytest.fixture(scope="module")
def helm(cluster: ControlPlane) -> Iterator[helm_python.Config]:
    with helm_python.Config(kubeconfig_path=cluster.kubeconfig, namespace=RELEASED_IN) as config:
        yield config


@pytest.fixture
def labelled(cluster: ControlPlane, node_name: str) -> str:
    """A node that a master has labelled, as its annotation says."""
    ours = {"nfd.node.kubernetes.io/feature-labels": "cpu-model.vendor_id"}
    cluster.create_node(node_name, {LABEL: "Intel", "mine": "yes"}, ours)
    return node_name


def exists(cluster: ControlPlane, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def test_from_install_to_uninstall(cluster: ControlPlane, helm: helm_python.Config, labelled: str) -> None:
    first = helm.install(CHART, RELEASE, with_registry({"worker": {"port": 9000}}), create_namespace=True)
    assert (first["revision"], first["status"]) == (1, "deployed")
    for kind in ("secrets", "configmaps"):
        value = FILLED if kind == "secrets" else "filled"
        cluster.request("PATCH", f"{INSIDE}/{kind}/{NAME}-master-ca", {"data": {"ca.crt": value}})

    cluster.kubectl("apply", "-f", str(CHART / "crds"))
    changed = with_registry({"worker": {"port": 9001}, "master": {"replicaCount": 2}})
    second = helm.upgrade(CHART, RELEASE, changed)
    assert (second["revision"], second["status"]) == (2, "deployed")
    assert cluster.request("GET", f"{INSIDE}/secrets/{NAME}-master-ca")["data"] == {"ca.crt": FILLED}
    assert cluster.request("GET", f"{INSIDE}/configmaps/{NAME}-master-ca")["data"] == {"ca.crt": "filled"}

    problems: list[Exception] = []
    uninstall = threading.Thread(target=remove, args=(helm, problems), daemon=True)
    uninstall.start()
    cluster.wait(lambda: exists(cluster, JOB), 30, "the job that prunes")
    run_as_its_pod_would(cluster, cluster.request("GET", JOB))
    uninstall.join(60)
    assert (problems, uninstall.is_alive()) == ([], False)
    node = cluster.get_node(labelled)
    assert node["metadata"]["labels"] == {"mine": "yes"}
    left = cluster.kubectl(
        "get", "all,cm,secret,sa,role,rolebinding,clusterrole,clusterrolebinding", "-A", "-o", "name"
    )
    assert [line for line in left.splitlines() if NAME in line] == []
    assert "nodefeaturerules.nfd.k8s-sigs.io" in cluster.kubectl("get", "crd", "-o", "name")


def remove(helm: helm_python.Config, problems: list[Exception]) -> None:
    try:
        helm.uninstall(RELEASE, timeout=60, wait="hookOnly")
    except helm_python.HelmError as error:
        problems.append(error)


def run_as_its_pod_would(cluster: ControlPlane, job: Object) -> None:
    """The job's program with its arguments and its service account's rights, and then what its controller notes."""
    pod = job["spec"]["template"]["spec"]
    token = cluster.service_account_token(pod["serviceAccountName"], RELEASED_IN)
    program = Path(sysconfig.get_path("scripts")) / "nfd-master"
    command = [str(program), *pod["containers"][0]["args"], f"--kubeconfig={cluster.kubeconfig_for(token)}"]
    run(command, env=without_proxy(), timeout=60)
    now = job["metadata"]["creationTimestamp"]
    done = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": done}
    cluster.request("PATCH", f"{JOB}/status", {"status": status})
