"""NFD of a release as its manifests run it; 0.16 also with its old protocol, without objects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.controlplane.api import ApiError, Json
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.nodes import NAMESPACE, Node
from tests.e2e.programs import Program, eventually
from tests.peers import programs
from tests.peers.conftest import Start

GROUP = "/apis/nfd.k8s-sigs.io/v1alpha1"
OBJECTS = f"{GROUP}/namespaces/{NAMESPACE}/nodefeatures"
RULES = f"{GROUP}/nodefeaturerules"
TERM = {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}
PHASE = "vendor.io/phase"
EVERYTHING: dict[str, Any] = {
    "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
    "kind": "NodeFeatureRule",
    "metadata": {"name": "take-over"},
    "spec": {
        "rules": [
            {
                "name": "all kinds of keys",
                "labels": {"vendor.io/both": "yes"},
                "annotations": {"vendor.io/note": "some text"},
                "extendedResources": {"vendor.io/things": "3"},
                "taints": [{"key": "vendor.io/taint", "value": "yes", "effect": "PreferNoSchedule"}],
                "matchFeatures": [TERM],
            }
        ]
    },
}
"""Both products evaluate it, so every kind of key is on the Nodes."""


def options(phase: int) -> str:
    """For the workers of both: a label says which worker reported last."""
    rule = {"name": "phase", "labels": {PHASE: str(phase)}, "matchFeatures": [TERM]}
    return "-options=" + json.dumps({"core": {"sleepInterval": "10s"}, "sources": {"custom": [rule]}})


@dataclass
class Nfd:
    """One master and the workers of some Nodes."""

    release: str
    old: bool
    start: Start
    plane: ControlPlane
    own: str
    """The Node of the master's pod."""
    port: int = field(init=False)
    master: Program = field(init=False)
    workers: dict[str, Program] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.port,) = free_ports(1)

    @property
    def name(self) -> str:
        version = programs.nfd_version(self.release)
        return f"NFD {version}, gRPC" if self.old else f"NFD {version}"

    def start_master(self) -> None:
        port = self.port if self.old else free_ports(1)[0]
        flags = ["-config=/none", "-enable-taints", f"-kubeconfig={self.plane.kubeconfig}", f"-port={port}"]
        if self.release == "0.16":
            flags += [f"-enable-nodefeature-api={str(not self.old).lower()}", "-metrics=0", "-grpc-health=0"]
        self.master = self.start(programs.nfd(self.release, "nfd-master"), *flags, NODE_NAME=self.own)

    def start_worker(self, node: Node, phase: int) -> None:
        flags = ["-config=/none", f"-kubeconfig={self.plane.kubeconfig}", options(phase)]
        if self.release == "0.16":
            flags += [f"-enable-nodefeature-api={str(not self.old).lower()}", f"-server=localhost:{self.port}"]
            flags += ["-metrics=0", "-grpc-health=0"]
        else:
            flags += [f"-port={free_ports(1)[0]}", "-owner-refs="]
        self.workers[node.name] = self.start(programs.nfd(self.release, "nfd-worker"), *flags, NODE_NAME=node.name)

    def restart_workers(self) -> None:
        """What a kubelet does with those that ended, as 0.16 does when no master answers."""
        for worker in self.workers.values():
            if not worker.alive():
                worker.start()

    def reported(self, node: Node, phase: int) -> None:
        """Wait until the master has written what that worker found.

        0.16 writes a taint in a second try: its first has an outdated Node and is an error, with which a worker of the
        old protocol ends.
        """

        def done() -> bool:
            self.restart_workers()
            found = node.object()
            return found["metadata"]["labels"].get(PHASE) == str(phase) and bool(found["spec"].get("taints"))

        eventually(done, 120)

    def stop_worker(self, node: Node) -> None:
        """Its object is removed, as the garbage collector does when the worker's pod is gone."""
        stop(self.workers.pop(node.name))
        for name in self.objects(node):
            patiently(self.plane, "DELETE", f"{OBJECTS}/{name}")

    def objects(self, node: Node) -> list[str]:
        items = patiently(self.plane, "GET", OBJECTS)["items"]
        return [one["metadata"]["name"] for one in items if one["metadata"]["name"] == node.name]

    def go_back(self, *nodes: Node) -> None:
        """docs/migrating.md: the master after every Node has its object."""
        if not self.old:
            for node in nodes:
                eventually(partial(self.objects, node), 60)
        self.start_master()


def patiently(plane: ControlPlane, method: str, path: str, body: Json | None = None) -> Json:
    """The answer; a server answers 429 for a moment after it got a definition."""

    def answer() -> Json | None:
        try:
            return plane.request(method, path, body)
        except ApiError as error:
            if error.status != 429:
                raise
            return None

    found = eventually(answer, 60)
    assert found is not None
    return found


def stop(program: Program) -> None:
    if program.alive():
        program.stop()
