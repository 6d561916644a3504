"""A release as processes: masters, a worker and the prune job with the arguments and accounts of rendered objects."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.children import run
from tests.controlplane.api import ApiError
from tests.controlplane.audit import Mark
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports, without_proxy
from tests.deploy.rendering import Object, Values, container_of, one, pod_of
from tests.e2e.nodes import Node
from tests.e2e.programs import SCRIPTS, Program, eventually
from tests.e2e.rights import KINDS, Right, granted, used

API = "nfd.k8s-sigs.io/v1alpha1"
HOLDS = [{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}]
ASKED = {"labels": {"ruled": "yes"}, "extendedResources": {"vendor.io/n": "4"}}
SWIFT: Values = {"leaderElection": {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "300ms"}}
"""A master's options that make it lead soon; all else as installed."""
ALONE: Values = {
    **SWIFT,
    "restrictions": {"nodeFeatureNamespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "nfd-rights"}}},
}
CHART: Values = {
    "fullnameOverride": "nfd-rights",
    "namespaceOverride": "nfd-rights",
    "master": {"replicaCount": 2},
}


def custom_objects(namespace: str, node: str) -> list[Object]:
    """A rule, a group and somebody's features of the node."""
    inside = {"name": "e2e-rights", "namespace": namespace}
    told = {"labels": {"told": "yes"}, "features": {"flags": {}, "attributes": {}, "instances": {}}}
    return [
        {
            "apiVersion": API,
            "kind": "NodeFeatureRule",
            "metadata": {"name": "e2e-rights"},
            "spec": {"rules": [{"name": "r", **ASKED, "matchFeatures": HOLDS}]},
        },
        {
            "apiVersion": API,
            "kind": "NodeFeatureGroup",
            "metadata": inside,
            "spec": {"featureGroupRules": [{"name": "r", "matchFeatures": HOLDS}]},
        },
        {
            "apiVersion": API,
            "kind": "NodeFeature",
            "metadata": {**inside, "labels": {"nfd.node.kubernetes.io/node-name": node}},
            "spec": told,
        },
    ]


@dataclass
class Release:
    """What was rendered, and the part of it that was applied."""

    plane: ControlPlane
    objects: list[Object]
    folder: Path
    applied: Mark = 0
    options: Values = field(default_factory=lambda: ALONE)
    """Of the masters: by default they take no objects of other tests' namespaces."""

    @property
    def namespace(self) -> str:
        return str(one(self.objects, "DaemonSet")["metadata"]["namespace"])

    @property
    def worker_account(self) -> str:
        return str(pod_of(one(self.objects, "DaemonSet"))["serviceAccountName"])

    def apply(self, kinds: Collection[str] = KINDS) -> None:
        """As on a fresh cluster: Secret and ConfigMap are empty, and there is no Lease."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/nfd-master.nfd.kubernetes.io"
        for path in (lease, *self._certificates()):
            with suppress(ApiError):
                self.plane.request("DELETE", path)
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        stream = "\n---\n".join(json.dumps(each) for each in self.objects if each["kind"] in kinds)
        self.applied = self.plane.mark()
        self.plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=stream)

    def _certificates(self) -> list[str]:
        """The paths of Secret and ConfigMap; none where no master is among the objects."""
        names = [each["metadata"]["name"] for each in self.objects if each["kind"] == "Secret"]
        inside = f"/api/v1/namespaces/{self.namespace}"
        return [f"{inside}/{kind}/{name}" for name in names for kind in ("secrets", "configmaps")]

    def kubeconfig(self, workload: Object) -> Path:
        account = pod_of(workload)["serviceAccountName"]
        return self.plane.kubeconfig_for(self.plane.service_account_token(account, self.namespace))

    def master(self, number: int, node: str = "") -> Program:
        """One of the replicas, not yet started; on a Node of its own unless one is given."""
        workload, (port, http_port) = one(self.objects, "Deployment"), free_ports(2)
        flags = (
            *container_of(workload)["args"],
            *(f"--port={port}", f"--http-port={http_port}", "--config=", f"--options={json.dumps(self.options)}"),
            *(f"--kubeconfig={self.kubeconfig(workload)}", f"--namespace={self.namespace}"),
            "--feature-gates=NodeFeatureGroupAPI=true",
        )
        flags = (*flags, f"--replication-token-file={self._master_token(number, node)}")
        flags = (*flags, f"--snapshot-file={self.folder / f'reports-{number}'}")
        variables = {"POD_NAME": f"master-{number}", "POD_IP": "127.0.0.1"}
        return Program("nfd-master", flags, self.folder / f"master-{number}.log", http_port, variables)

    def _master_token(self, number: int, node: str) -> Path:
        """What the projected volume holds."""
        name = node or f"of-{self.namespace}-master-{number}"
        self.plane.create("/api/v1/nodes", {"metadata": {"name": name}})
        account = str(pod_of(one(self.objects, "Deployment"))["serviceAccountName"])
        path = self.folder / f"replication-{number}"
        path.write_text(
            self.plane.service_account_token(account, self.namespace, audience="nfd-master-replication", node=name)
        )
        return path

    def worker(self, node: Node, port: int, *more: str) -> Program:
        """Not yet started; its mounts are files in our folder."""
        (http_port,) = free_ports(1)
        args = container_of(one(self.objects, "DaemonSet"))["args"]
        server = next(word for word in args if word.startswith("--server=")).removeprefix("--server=")
        token = self.plane.service_account_token(
            self.worker_account, self.namespace, audience="nfd-master", node=node.name
        )
        path = self._certificates()[1]
        eventually(lambda: self.plane.request("GET", path).get("data"))
        (self.folder / "ca.crt").write_text(self.plane.request("GET", path)["data"]["ca.crt"])
        (self.folder / "token").write_text(token)
        flags = (
            *args,
            *(f"--server=localhost:{port}", f"--server-name-override={server.partition(':')[0]}"),
            *(f"--server-ca-file={self.folder / 'ca.crt'}", f"--token-file={self.folder / 'token'}"),
            *("--config=", f"--http-port={http_port}", *more),
        )
        return Program("nfd-worker", flags, self.folder / "worker.log", http_port, {"NODE_NAME": node.name})

    def prune(self) -> None:
        job = one(self.objects, "Job")
        command = [str(SCRIPTS / "nfd-master"), *container_of(job)["args"], f"--namespace={self.namespace}"]
        command.append(f"--kubeconfig={self.kubeconfig(job)}")
        run(command, env=without_proxy(), timeout=60)

    def used(self, since: Mark) -> dict[str, set[Right]]:
        """By account; nothing was refused for want of a right."""
        events = [one for one in self.plane.audit(since) if one.user in granted(self.objects)]
        assert [event for event in events if (event.code == 401 or event.forbidden) and not event.early] == []
        return {who: used(events, who, rights) for who, rights in granted(self.objects).items()}

    def idle(self, since: Mark) -> dict[str, set[Right]]:
        """By account, the rights that nobody made use of; {} if there is none."""
        found = self.used(since)
        return {who: left for who, rights in granted(self.objects).items() if (left := rights - found[who])}

    def beyond(self, since: Mark) -> dict[str, set[Right]]:
        """By account, what it did without a right of ours; {} if nothing."""
        allowed = granted(self.objects)
        return {who: left for who, rights in self.used(since).items() if (left := rights - allowed[who])}


def grpc_port(master: Program) -> int:
    """Ours, which stands behind that of the manifest."""
    return int([flag for flag in master.flags if flag.startswith("--port=")][-1].removeprefix("--port="))
