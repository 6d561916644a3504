"""The API server with as many Nodes as wanted, each as its kubelet keeps it, and a worker's pod on each of them."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp

from bench.fleet.machines import boot_id, node_name
from nfd.names import API_VERSION
from tests.controlplane import objects
from tests.controlplane.cluster import ControlPlane

BASE = Path(__file__).parents[2] / "deploy/kustomize/base"
NAMESPACE = "node-feature-discovery"
AUDIENCE = "nfd-master"
HEARTBEAT = 300.0
"""Seconds between two status updates of a kubelet (kubelet configuration, nodeStatusReportFrequency)."""
IMAGES = 30
SETUP_AT_ONCE = 24
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Json = dict[str, Any]


class Link:
    """Requests with nothing between them and the server: one session, as many connections as are wanted at once."""

    def __init__(self, plane: ControlPlane, at_once: int) -> None:
        trust = ssl.create_default_context(cafile=str(plane.ca_file))
        connector = aiohttp.TCPConnector(limit=at_once, ssl=trust)
        headers = {"Authorization": f"Bearer {plane.token()}"}
        self.url = plane.url
        self.session = aiohttp.ClientSession(connector=connector, headers=headers)

    async def send(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **more: str
    ) -> bytes:
        headers = {"Content-Type": kind, **more}
        async with self.session.request(method, self.url + path, data=body, headers=headers) as answer:
            data = await answer.read()
            if answer.status >= 400 and answer.status != 409:
                raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
            return data

    async def close(self) -> None:
        await self.session.close()


async def each(numbers: Iterable[int], at_once: int, work: Callable[[int], Awaitable[object]]) -> None:
    """Do it for all, that many at a time."""
    waiting = iter(numbers)

    async def take() -> None:
        for number in waiting:
            await work(number)

    await asyncio.gather(*(take() for _ in range(at_once)))


async def populate(plane: ControlPlane, numbers: range, tokens: Path | None) -> None:
    """Create the Nodes and, with `tokens`, a worker's pod on each, whose token is appended to that file."""
    link = Link(plane, SETUP_AT_ONCE)
    inside = f"/api/v1/namespaces/{NAMESPACE}"

    async def create(number: int) -> None:
        await link.send("POST", "/api/v1/nodes?fieldManager=kubelet", json.dumps(node(number)).encode())
        if tokens is None:
            return
        name = f"nfd-worker-{number}"
        await link.send(
            "POST", f"{inside}/pods", json.dumps(objects.pod(name, "nfd-worker", node_name(number))).encode()
        )
        wish = json.dumps(objects.token_request(AUDIENCE, name, 7200)).encode()
        answer = json.loads(await link.send("POST", f"{inside}/serviceaccounts/nfd-worker/token", wish))
        lines.append(f"{number} {answer['status']['token']}\n")

    lines: list[str] = []
    await each(numbers, SETUP_AT_ONCE, create)
    if tokens is not None:
        with tokens.open("a") as file:
            file.writelines(lines)
    await link.close()


def prepare(plane: ControlPlane) -> Path:
    """Definitions, accounts and rights as they are shipped; the master's kubeconfig."""
    crds = [f"--filename={file}" for file in sorted((BASE.parents[1] / "crds").glob("nodefeature*.yaml"))]
    plane.kubectl("apply", *crds)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *crds)
    plane.kubectl("apply", "-f", str(BASE / "namespace.yaml"))
    for name in ("service-accounts.yaml", "rbac.yaml", "callers.yaml", "certificates.yaml"):
        plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / name))
    plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / "lease.yaml"))
    return plane.kubeconfig_for(plane.service_account_token("nfd-master", NAMESPACE))


def rule_object(name: str, *rules: Json) -> Json:
    """A NodeFeatureRule."""
    return {"apiVersion": API_VERSION, "kind": "NodeFeatureRule", "metadata": {"name": name}, "spec": {"rules": rules}}


def count_conditions(plane: ControlPlane, kind: str) -> int:
    """How many Nodes have a condition of that type."""
    found, rest = 0, ""
    while True:
        page = plane.request("GET", f"/api/v1/nodes?limit=500{f'&continue={rest}' if rest else ''}")
        found += sum(any(one["type"] == kind for one in node["status"]["conditions"]) for node in page["items"])
        if not (rest := page["metadata"].get("continue", "")):
            return found


async def heartbeats(plane: ControlPlane, count: Callable[[], int], period: float = HEARTBEAT) -> None:
    """Every kubelet tells every so often that its node is still well. Until cancelled."""
    link, number = Link(plane, 4), 0
    try:
        while True:
            nodes = count()
            await asyncio.sleep(period / max(nodes, 1))
            if nodes:
                number = (number + 1) % nodes
                body = json.dumps({"status": {"conditions": conditions()}}).encode()
                await link.send(
                    "PATCH", f"/api/v1/nodes/{node_name(number)}/status?fieldManager=kubelet", body, STRATEGIC
                )
    finally:
        await link.close()


def conditions() -> list[Json]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pressure = [(f"{what}Pressure", "False") for what in ("Memory", "Disk", "PID")]
    return [
        {"type": kind, "status": status, "reason": f"Kubelet{kind}", "message": f"kubelet: {kind} is {status}",
         "lastHeartbeatTime": now, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind, status in [*pressure, ("Ready", "True")]
    ]  # fmt: skip


def node(number: int) -> Json:
    """A Node as a kubelet and a cloud provider leave it."""
    name = node_name(number)
    room = {
        "cpu": "64",
        "memory": "263921088Ki",
        "pods": "110",
        "ephemeral-storage": "1048064000Ki",
        "hugepages-2Mi": "0",
    }
    info = {
        "machineID": f"{number:032x}", "systemUUID": boot_id(number), "bootID": boot_id(number),
        "kernelVersion": "6.8.0-45-generic", "osImage": "Ubuntu 24.04 LTS", "containerRuntimeVersion": "containerd://1.7.22",
        "kubeletVersion": "v1.36.0", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
    }  # fmt: skip
    team = "registry.example/team"
    images = [{"names": [f"{team}/image-{one}@sha256:{one:064x}", f"{team}/image-{one}:v1.{one}"], "sizeBytes": 10**8}
              for one in range(IMAGES)]  # fmt: skip
    labels = {
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "m7.16xlarge",
        "topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": f"region-1{'abc'[number % 3]}",
    }  # fmt: skip
    notes = {"volumes.kubernetes.io/controller-managed-attach-detach": "true", "node.alpha.kubernetes.io/ttl": "0"}
    status = {
        "capacity": room, "allocatable": room, "conditions": conditions(), "nodeInfo": info, "images": images,
        "addresses": [{"type": "InternalIP", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"},
                      {"type": "Hostname", "address": name}],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels, "annotations": notes},
            "spec": {"providerID": f"cloud:///{name}"}, "status": status}  # fmt: skip
