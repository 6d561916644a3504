"""What nfd-gc and nfd-topology-updater may do is enough, and none of it is idle, with the rights that are shipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy.rendering import ROOT, Values, chart_objects, container_of, one, overlay, pod_of
from tests.e2e.conftest import MakeNode
from tests.e2e.programs import Program, eventually
from tests.e2e.release import API, Release
from tests.e2e.rights import Right, granted, user
from tests.topology import scene
from tests.topology.kubelet import Kubelet, configz
from tests.topology.machine import write_machine

CHART: Values = {
    "fullnameOverride": "nfd-beside",
    "namespaceOverride": "nfd-beside",
    **{name: {"enable": False} for name in ("master", "worker")},
    **{name: {"enable": True} for name in ("gc", "topologyUpdater")},
    "postDeleteCleanup": False,
}
DEFINITION = ROOT / "deploy/crds/topology/noderesourcetopologies.yaml"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
CONFIGZ = Right("", "", "nodes/configz", "get")
"""The kubelet asks the API server for it (Kubernetes documentation, "Kubelet authentication/authorization")."""
_numbers = count(1)


@pytest.fixture(params=["manifests", "chart"])
def release(request: pytest.FixtureRequest, control_plane: ControlPlane, definitions: None, tmp_path: Path) -> Release:
    control_plane.kubectl("apply", f"--filename={DEFINITION}")
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"--filename={DEFINITION}")
    objects = chart_objects(CHART) if request.param == "chart" else overlay("topologyupdater")
    made = Release(control_plane, objects, tmp_path)
    made.apply()
    return made


@contextmanager
def running(release: Release, kind: str, *flags: str, **variables: str) -> Iterator[Program]:
    """The only workload of that kind, as a process with its arguments and account."""
    workload, (port,) = one(release.objects, kind), free_ports(1)
    container = container_of(workload)
    (name,) = container["command"]
    words = (*container["args"], f"--port={port}", f"--kubeconfig={release.kubeconfig(workload)}", *flags)
    program = Program(name, words, release.folder / f"{name}.log", port, variables)
    program.start()
    try:
        yield program
        assert program.stop() == 0
    finally:
        program.kill()
    assert "Traceback" not in program.text()


def rights(release: Release, kind: str) -> tuple[str, set[Right]]:
    who = user(release.namespace, pod_of(one(release.objects, kind))["serviceAccountName"])
    return who, granted(release.objects)[who]


def test_collector(release: Release) -> None:
    """Objects of a Node that never was."""
    plane, gone, mark = release.plane, f"rights-gone-{next(_numbers)}", release.applied
    label = {"nfd.node.kubernetes.io/node-name": gone}
    feature = {"apiVersion": API, "kind": "NodeFeature", "metadata": {"name": gone, "labels": label}, "spec": {}}
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    plane.request("POST", f"/apis/{API}/namespaces/{release.namespace}/nodefeatures", feature)
    plane.request("POST", TOPOLOGIES, {**kind, "metadata": {"name": gone}, "zones": []})
    who, allowed = rights(release, "Deployment")
    with running(release, "Deployment"):
        eventually(lambda: allowed <= release.used(mark)[who])
    assert release.used(mark)[who] == allowed


def test_updater(release: Release, nodes: MakeNode, tmp_path: Path) -> None:
    """Its object is made, and changed when a pod comes; the kubelet has one of which the watch does not tell."""
    plane, node, mark = release.plane, nodes().name, release.applied
    who, allowed = rights(release, "DaemonSet")
    asked: set[Right] = set()

    def may_read(token: str) -> bool:
        if may_read_configuration(plane, token, node):
            asked.add(CONFIGZ)
        return CONFIGZ in asked

    def done() -> set[Right]:
        return release.used(mark)[who] | asked

    kubelet = Kubelet(tmp_path / "kubelet.sock")
    kubelet.pods = []
    kubelet.start()
    (tmp_path / "token").write_text(plane.service_account_token(who.rpartition(":")[2], release.namespace))
    write_machine(tmp_path / "root")
    pki = plane.ca_file.parent
    try:
        with configz({}, may_read, pki / "server.crt", pki / "server.key") as uri:
            flags = (
                *(f"--host-root={tmp_path / 'root'}", f"--podresources-socket={kubelet.socket}"),
                *(f"--kubelet-config-uri={uri}", f"--api-auth-token-file={tmp_path / 'token'}"),
            )
            variables = {"NODE_NAME": node, "KUBERNETES_NAMESPACE": release.namespace}
            with running(release, "DaemonSet", *flags, **variables) as updater:
                eventually(updater.ready)
                make_pod(plane, node, "elsewhere")
                kubelet.pods = [scene.pod(node, "elsewhere", cpu_ids=[5, 6])]
                make_pod(plane, node, "here", nodeName=node)
                eventually(lambda: allowed <= done() and len(updater.said("topology published")) == 2)
        assert done() == allowed
    finally:
        kubelet.stop()
        for path in (f"{TOPOLOGIES}/{node}", f"/api/v1/namespaces/{node}"):
            with suppress(ApiError):
                plane.request("DELETE", path)


def may_read_configuration(plane: ControlPlane, token: str, node: str) -> bool:
    """As a kubelet finds out: whose token it is, and what that one may do."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    caller = plane.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]["user"]
    wish = {"verb": "get", "resource": "nodes", "subresource": "configz", "name": node}
    spec = {"user": caller["username"], "groups": caller["groups"], "resourceAttributes": wish}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(plane.request("POST", path, review)["status"]["allowed"])


def make_pod(plane: ControlPlane, namespace: str, name: str, **where: str) -> None:
    """In a namespace of its own; without `nodeName` it is on no Node."""
    plane.service_account_token("default", namespace)
    asked = {"limits": {"cpu": "1", "memory": "1Gi"}}
    containers = [{"name": "main", "image": "example.invalid/none", "resources": asked}]
    spec = {"serviceAccountName": "default", "containers": containers, **where}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
