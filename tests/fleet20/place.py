"""The recorded fleet on a control plane: Nodes and Pods as kubelets, device plug-ins and users would make them, one
nfd-master as a process, and the reports of a worker for each machine."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from nfd.cli.machine import config_of, plan_with
from nfd.host.replay import Replay
from nfd.rpc.client import Reporter
from nfd.runtime.signals import Signals
from nfd.worker.agent import Agent, WorkerSettings
from tests.controlplane import objects
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program, eventually, port_of
from tests.fleet20.machines import FleetNode, boot_id, build_machine, load_fleet

DEPLOY = Path(__file__).parents[2] / "deploy"
BASE = DEPLOY / "kustomize/base"
MASTER_NAMESPACE, MASTER_ACCOUNT = "node-feature-discovery", "nfd-master"
NAMESPACE = "fleet20"
MARK, SETUP = "example.com/fleet", "example.com/setup"
"""Labels: one that all of its nodes have, and one that some nodes with the same worker configuration share."""
MASTER_CONFIG = "nfd-master.conf"
SELECTOR = f"{MARK}=twenty"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
Json = dict[str, Any]


@dataclass
class FleetPlace:
    """`folder` holds a machine and a worker's configuration for each node."""

    plane: ControlPlane
    folder: Path
    master: Program
    nodes: Sequence[FleetNode] = field(default_factory=load_fleet)

    def machine(self, name: str) -> Path:
        return self.folder / "machines" / name

    def config(self, name: str) -> Path:
        return self.folder / f"{name}.conf"

    def report(self, name: str, config: Path | None = None) -> None:
        """What the node's worker does when it starts: one scan, one report over real gRPC."""
        args = Namespace(config=str(config or self.config(name)), sources=None)

        def settings() -> WorkerSettings:
            found, _ = config_of(args)
            return WorkerSettings(plan_with(found, args.sources), unpublished=found.core.no_publish_features)

        host = Replay(self.machine(name), {})
        send = Reporter(f"127.0.0.1:{port_of(self.master)}").send
        with closing(Signals()) as signals:
            assert Agent(host, name, settings(), signals, send, settings, live=False).run_once(30)

    def node(self, name: str) -> Json:
        return self.plane.get_node(name)


@contextmanager
def fleet_on(
    plane: ControlPlane, folder: Path, *flags: str, nodes: Sequence[FleetNode] | None = None
) -> Iterator[FleetPlace]:
    """Everything in place and labelled, and gone again afterwards; `flags` are the master's."""
    with running_master(plane, folder, *flags) as master:
        place = FleetPlace(plane, folder, master, load_fleet() if nodes is None else nodes)
        try:
            for node in place.nodes:
                build_machine(node, place.machine(node.name))
                place.config(node.name).write_text(yaml.safe_dump(node.worker_config))
                _create(plane, node)
            for node in place.nodes:
                if node.worker:
                    place.report(node.name)
            yield place
        finally:
            _clear(plane, place.nodes)


@contextmanager
def running_master(plane: ControlPlane, folder: Path, *flags: str) -> Iterator[Program]:
    """A master with the rights of deploy/kustomize/base alone."""
    files = [f"--filename={file}" for file in sorted((DEPLOY / "crds").glob("nodefeature*.yaml"))]
    plane.kubectl("apply", "-f", str(BASE / "namespace.yaml"))
    for name in ("service-accounts.yaml", "certificates.yaml"):
        plane.kubectl("apply", "-n", MASTER_NAMESPACE, "-f", str(BASE / name))
    reports = DEPLOY / "kustomize/components/reports/rbac.yaml"
    plane.kubectl("apply", "-f", str(BASE / "rbac.yaml"), "-f", str(reports), *files)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
    token = plane.service_account_token(MASTER_ACCOUNT, MASTER_NAMESPACE)
    port, http_port = free_ports(2)
    kubeconfig, config = plane.kubeconfig_for(token), folder / MASTER_CONFIG
    config.touch()
    words = (f"-port={port}", f"-http-port={http_port}", f"-config={config}", f"-kubeconfig={kubeconfig}")
    log = folder / "master.log"
    variables = {"KUBERNETES_NAMESPACE": MASTER_NAMESPACE}
    master = Program("nfd-master", (*words, *flags), log, http_port, variables)
    master.start()
    try:
        eventually(master.ready)
        yield master
    finally:
        master.stop()
        assert "Traceback" not in master.text()


def _create(plane: ControlPlane, node: FleetNode) -> None:
    """A Node as its kubelet registers it, what its device plug-in offers, and its pods."""
    labels = {"kubernetes.io/hostname": node.name, "kubernetes.io/arch": node.arch, "kubernetes.io/os": "linux"}
    plane.create_node(node.name, labels | {MARK: "twenty", SETUP: node.setup}, boot_id=boot_id(node))
    spec: Json = {"taints": list(node.taints) or None, "unschedulable": node.unschedulable or None}
    plane.request("PATCH", f"/api/v1/nodes/{node.name}", {"spec": spec})
    status = objects.node_status(boot_id(node))["status"]
    offered = {key: str(amount) for key, amount in node.offered.items()}
    capacity = offered | {key: str(amount) for key, amount in node.capacity.items()}
    ready = {"type": "Ready", "status": "True" if node.ready else "Unknown"}
    body = {"capacity": capacity, "allocatable": offered, "conditions": [*status["conditions"][1:], ready]}
    plane.request("PATCH", f"/api/v1/nodes/{node.name}/status", {"status": body})
    plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for number, wanted in enumerate(node.pods):
        plane.request("POST", PODS, _pod(f"{node.name}-{number}", node, wanted))
    if node.pods:
        name = f"{node.name}-done"
        plane.request("POST", PODS, _pod(name, node, node.pods[0]))
        plane.request("PATCH", f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})


def _pod(name: str, node: FleetNode, wanted: Mapping[str, int]) -> Json:
    """`mig` stands for the first MIG profile that the node offers, `gpu` for what gpushare's extender notes."""
    amounts = {key: str(amount) for key, amount in wanted.items() if "/" in key}
    if "mig" in wanted:
        amounts[next(iter(node.offered))] = str(wanted["mig"])
    pod = objects.pod(name, "default", node.name)
    pod["metadata"]["annotations"] = {"ALIYUN_COM_GPU_MEM_IDX": str(wanted["gpu"])} if "gpu" in wanted else {}
    pod["spec"]["containers"][0]["resources"] = {"limits": amounts}
    pod["spec"]["automountServiceAccountToken"] = False
    return pod


def _clear(plane: ControlPlane, nodes: Sequence[FleetNode]) -> None:
    now = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
    with suppress(ApiError):
        plane.request("DELETE", PODS, now)
    for node in nodes:
        with suppress(ApiError):
            plane.delete_node(node.name)
