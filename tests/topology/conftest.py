"""An updater as a process, between a kubelet's socket, files of a machine, and a real API server, with the rights that
it is shipped with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program
from tests.topology.kubelet import Kubelet
from tests.topology.machine import write_machine
from tests.topology.scene import ASKED, pods

ROOT = Path(__file__).parents[2]
NAMESPACE = "nfd-topology-tests"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
NAME = "nfd-topology-tests"
_numbers = count(1)

Start = Callable[..., Program]


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """With the definition, and the account and rights that are shipped, under a name of our own."""
    crd = f"--filename={ROOT / 'deploy/crds/topology/noderesourcetopologies.yaml'}"
    control_plane.kubectl("apply", crd)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", crd)
    control_plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    text = (ROOT / "deploy/kustomize/components/topology-updater/rbac.yaml").read_text()
    account, role, binding = ({**one, "metadata": {"name": NAME}} for one in yaml.safe_load_all(text))
    account["metadata"]["namespace"] = binding["subjects"][0]["namespace"] = NAMESPACE
    binding["roleRef"]["name"] = binding["subjects"][0]["name"] = NAME
    own = [rule for rule in role["rules"] if rule["resources"] == ["namespaces"]]
    own[0]["resourceNames"] = [NAMESPACE]
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([account, role, binding]))
    return control_plane


@pytest.fixture
def node(cluster: ControlPlane) -> Iterator[str]:
    """A Node with the pods of the scene on it, in namespaces of its own."""
    name = f"topology-{next(_numbers)}"
    cluster.create_node(name)
    for namespace in (name, f"{name}-other"):
        cluster.service_account_token("default", namespace)
    for held in pods(name, f"{name}-other"):
        create_pod(cluster, name, held.namespace, held.name)
    yield name
    cluster.delete_node(name)
    for path in (f"{TOPOLOGIES}/{name}", f"/api/v1/namespaces/{name}", f"/api/v1/namespaces/{name}-other"):
        delete(cluster, path)


@pytest.fixture
def kubelet(tmp_path: Path, node: str) -> Iterator[Kubelet]:
    """It knows the pods of that node."""
    kubelet = Kubelet(tmp_path / "kubelet.sock")
    kubelet.pods = pods(node, f"{node}-other")
    kubelet.start()
    yield kubelet
    kubelet.stop()


@pytest.fixture
def start(cluster: ControlPlane, node: str, kubelet: Kubelet, tmp_path: Path) -> Iterator[Start]:
    """Starts an updater for that node; `flags` come after those that it needs."""
    config = cluster.kubeconfig_for(cluster.service_account_token(NAME, NAMESPACE))
    write_machine(tmp_path / "root")
    (tmp_path / "state/device-plugins").mkdir(parents=True)
    (tmp_path / "kubelet.yaml").write_text("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n")
    programs: list[Program] = []

    def run(*flags: str) -> Program:
        (port,) = free_ports(1)
        words = (
            f"-kubeconfig={config}",
            f"-port={port}",
            f"-host-root={tmp_path / 'root'}",
            f"-podresources-socket={kubelet.socket}",
            f"--kubelet-config-uri=file://{tmp_path / 'kubelet.yaml'}",
            f"--kubelet-state-dir={tmp_path / 'state'}",
            *flags,
        )
        variables = {"NODE_NAME": node, "KUBERNETES_NAMESPACE": NAMESPACE}
        log = tmp_path / f"updater{len(programs)}.log"
        programs.append(Program("nfd-topology-updater", words, log, port, variables))
        programs[-1].start()
        return programs[-1]

    yield run
    for program in programs:
        program.kill()
        assert "Traceback" not in program.text()


def create_pod(cluster: ControlPlane, node: str, namespace: str, name: str) -> None:
    requests, limits = ASKED[name]
    main = {"name": "main", "image": "example.invalid/none", "resources": {"requests": requests, "limits": limits}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeName": node, "serviceAccountName": "default", "containers": [main]},
    }
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def find(cluster: ControlPlane, node: str) -> dict[str, Any]:
    """The object of that node; empty if there is none."""
    try:
        return cluster.request("GET", f"{TOPOLOGIES}/{node}")
    except ApiError as error:
        if error.status != 404:
            raise
        return {}


def delete(cluster: ControlPlane, path: str) -> None:
    try:
        cluster.request("DELETE", path)
    except ApiError as error:
        if error.status != 404:
            raise
