"""`python -m tests.docs.cluster FOLDER`: a cluster to try things on, until interrupted; its kubeconfig is in FOLDER.

etcd, kube-apiserver, scheduler and controller manager are real, and Helm installs the chart. The nodes are recorded
machines. What a kubelet does for the pods of the chart is done here: each is a process with the arguments, rights and
probes of the pod. Nothing runs other pods, so they stay Pending when they are bound to a node.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python

from tests.consumers.cluster import scheduling_cluster
from tests.consumers.kubelet import Kubelet
from tests.consumers.proxy import ServiceProxy
from tests.controlplane import objects
from tests.controlplane.build import BuildError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.controlplane.servers import StartError
from tests.deploy.rendering import CHART, Values
from tests.e2e.nodes import Node
from tests.e2e.programs import eventually
from tests.fleet20.machines import FleetNode, boot_id, build_machine, load_fleet

RELEASE, NAMESPACE = "nfd", "node-feature-discovery"
SERVICE = f"{RELEASE}-node-feature-discovery-master"
NODES = ("gpu-h200-1", "gpu-l4-1", "cpu-arm-1")
SHARED: dict[str, Any] = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}}
"""How the device plug-in of gpu-l4-1 shares its two GPUs."""
HTTP_PORT = 8081
"""Where `kubectl port-forward` puts the master's HTTP port in the guides."""
READY = "the cluster is ready; press Ctrl-C to stop it"
PROBE = {"periodSeconds": 1, "initialDelaySeconds": 0}
VALUES: Values = {
    "image": {"registry": "localhost"},
    "master": {
        "servePage": True,
        "serveReports": True,
        "clusterName": "example",
        "startupProbe": {**PROBE, "failureThreshold": 60},
        "readinessProbe": PROBE,
    },
    "worker": {"readinessProbe": PROBE},
}


@dataclass(frozen=True)
class Running:
    """The cluster, and where its master's HTTP port is."""

    plane: ControlPlane
    url: str


def main(folder: str) -> int:
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with labelled_cluster() as running:
            (place / "kubeconfig").write_text(running.plane.kubeconfig.read_text())
            print(f"page: {running.url}/page/\nreports: nfd plan --master {running.url}", flush=True)
            print(f"export KUBECONFIG={place.resolve() / 'kubeconfig'}\n{READY}", flush=True)
            signal.pause()
    except (BuildError, StartError, helm_python.HelmError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        (place / "kubeconfig").unlink(missing_ok=True)
    return 0


@contextmanager
def labelled_cluster() -> Iterator[Running]:
    """With our release installed, and the labels of its workers on the nodes."""
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        print("starting etcd, API server, scheduler and controller manager", flush=True)
        plane, folder = stack.enter_context(scheduling_cluster()), Path(temporary)
        print(f"kube-apiserver {plane.request('GET', '/version')['gitVersion']} at {plane.url}", flush=True)
        fleet = [one for one in load_fleet() if one.name in NODES]
        for one in fleet:
            add_node(plane, one)
        machines = {one.name: worker_flags(one, folder / one.name) for one in fleet}
        kubelet = stack.enter_context(Kubelet(plane, NAMESPACE, SERVICE, folder / "pods", machines))
        pages = ServiceProxy(plane, NAMESPACE, SERVICE, lambda pod: kubelet.port_of(pod, "http"), page_port())
        stack.callback(pages.stop)
        install(plane)
        for name in NODES:
            print(f"node {name} has {len(eventually(Node(plane, name).owned, 60))} labels", flush=True)
        yield Running(plane, f"http://localhost:{pages.port}")


def install(plane: ControlPlane) -> None:
    """By Helm, until all pods are Ready. Raises: HelmError."""
    print(f"installing the chart as release {RELEASE} in namespace {NAMESPACE}", flush=True)
    with helm_python.Config(kubeconfig_path=plane.kubeconfig, namespace=NAMESPACE) as helm:
        options: dict[str, Any] = {"create_namespace": True, "wait": "watcher", "timeout": 120}
        helm.install(str(CHART), RELEASE, VALUES, namespace=NAMESPACE, **options)


def page_port() -> int:
    """HTTP_PORT, if it is free, else any."""
    with suppress(OSError), socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", HTTP_PORT))
        return HTTP_PORT
    return free_ports(1)[0]


def add_node(plane: ControlPlane, member: FleetNode) -> None:
    """A Node as its kubelet and its device plug-in make it."""
    labels = {"kubernetes.io/hostname": member.name, "kubernetes.io/arch": member.arch, "kubernetes.io/os": "linux"}
    plane.create_node(member.name, labels, boot_id=boot_id(member))
    status = objects.node_status(boot_id(member))["status"]
    room = status["capacity"] | {key: str(amount) for key, amount in member.offered.items()}
    plane.request("PATCH", f"/api/v1/nodes/{member.name}/status", {"status": {"capacity": room, "allocatable": room}})


def worker_flags(member: FleetNode, folder: Path) -> tuple[str, ...]:
    """The recorded machine, and how its GPUs are shared."""
    folder.mkdir()
    replay = f"--replay={build_machine(member, folder / 'machine')}"
    if member.name != "gpu-l4-1":
        return (replay,)
    return replay, f"--options={json.dumps({'sources': {'nvidia': {'sharing': SHARED}}})}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
