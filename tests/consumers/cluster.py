"""A cluster that schedules: kube-scheduler and kube-controller-manager beside API server and etcd, and its objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually

APPS = "/apis/apps/v1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"
CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "replicaset-controller",
    "job-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "taint-eviction-controller",
    "namespace-controller",
)
"""All that make or remove pods. Without a kubelet's heartbeats the node lifecycle controller has no place here."""

Json = dict[str, Any]


@contextmanager
def scheduling_cluster() -> Iterator[ControlPlane]:
    """A control plane of its own: controllers act on every object there is, those of other tests included."""
    with ControlPlane() as plane:
        plane.run("kube-controller-manager", f"--controllers={','.join(CONTROLLERS)}", "--concurrent-gc-syncs=2")
        plane.run("kube-scheduler")
        yield plane


def daemon_set(name: str, pod: Mapping[str, Any]) -> Json:
    return workload("DaemonSet", name, pod, {})


def deployment(name: str, pod: Mapping[str, Any], replicas: int = 1) -> Json:
    return workload("Deployment", name, pod, {"replicas": replicas})


def workload(kind: str, name: str, pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Json:
    labels = {"consumer": name}
    containers = [{"name": "main", "image": "example.invalid/none"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def apply(plane: ControlPlane, *objects: Json) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def pods_of(plane: ControlPlane, name: str) -> list[Json]:
    return list(plane.request("GET", f"{PODS}?labelSelector=consumer%3D{name}")["items"])


def placed(plane: ControlPlane) -> dict[str, list[str]]:
    """Consumer → the nodes that its pods are bound to, sorted; "" stands for a pod that is bound to none."""
    found: dict[str, list[str]] = {}
    for pod in plane.request("GET", PODS)["items"]:
        found.setdefault(pod["metadata"]["labels"]["consumer"], []).append(pod["spec"].get("nodeName", ""))
    return {name: sorted(nodes) for name, nodes in found.items()}


def counted(plane: ControlPlane, name: str) -> int | None:
    """How many nodes the DaemonSet controller wants pods on; None before it looked at the set."""
    status = plane.request("GET", f"{APPS}/daemonsets/{name}")["status"]
    return int(status["desiredNumberScheduled"]) if status.get("observedGeneration") else None


def now(plane: ControlPlane, path: str) -> str:
    """The resourceVersion of a list."""
    return str(plane.request("GET", f"{path}?limit=1")["metadata"]["resourceVersion"])


def changes(plane: ControlPlane, path: str, version: str) -> list[Json]:
    """The watch events of that list since the resourceVersion."""
    text = plane.text("GET", f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    events = [json.loads(line) for line in text.splitlines()]
    assert all(event["type"] in ("ADDED", "MODIFIED", "DELETED") for event in events), events
    return events


def clear(plane: ControlPlane) -> None:
    """Take all workloads and pods of this namespace away, as a kubelet would end them."""
    for kind in ("daemonsets", "deployments"):
        plane.request("DELETE", f"{APPS}/{kind}")

    def gone() -> bool:
        left = plane.request("GET", PODS)["items"]
        for pod in left:
            force(plane, pod["metadata"]["name"])
        return not left

    eventually(gone)


def remove(plane: ControlPlane, deployment: str) -> None:
    """A Deployment and its pods."""
    plane.request("DELETE", f"{APPS}/deployments/{deployment}")

    def gone() -> bool:
        for pod in (left := pods_of(plane, deployment)):
            force(plane, pod["metadata"]["name"])
        return not left

    eventually(gone)


def force(plane: ControlPlane, pod: str) -> None:
    try:
        plane.request("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")
    except ApiError as error:
        if error.status != 404:
            raise


def definitions(plane: ControlPlane) -> None:
    """The custom resources as they are shipped."""
    folder = Path(__file__).parents[2] / "deploy/crds"
    files = [f"--filename={file}" for file in sorted(folder.glob("nodefeature*.yaml"))]
    plane.kubectl("apply", *files)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
