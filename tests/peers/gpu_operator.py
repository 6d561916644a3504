"""The GPU operator as its chart installs it: its objects in the cluster, and its controller as a process of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import helm_python

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy.rendering import load, one
from tests.e2e.programs import Program, eventually
from tests.peers.programs import given

Json = dict[str, Any]
NAMESPACE = "gpu-operator"
HOOK = "helm.sh/hook"
DAEMONSETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RESOURCES = (
    "/apis/nvidia.com/v1/clusterpolicies",
    "/apis/nvidia.com/v1alpha1/gpuclusters",
    "/apis/nvidia.com/v1alpha1/nvidiadrivers",
)
INSIDE = """
mount -t tmpfs none /opt && mkdir /opt/gpu-operator && mount --bind "$1" /opt/gpu-operator && shift && exec "$@"
"""
"""Its manifests are at a fixed path, as in its image: a mount that no other process sees."""


@dataclass
class GpuOperator:
    """One release of the chart with these values."""

    plane: ControlPlane
    values: Mapping[str, Any]
    log: Path
    program: Program = field(init=False)
    metrics: int = field(init=False)

    def start(self) -> None:
        definitions(self.plane)
        objects = [item for item in rendered(self.values) if HOOK not in item["metadata"].get("annotations", {})]
        deployment = one(objects, "Deployment")
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        others = [item for item in objects if item is not deployment]
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": others})
        self.plane.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=listed)
        self._begin(deployment["spec"]["template"]["spec"])

    def _begin(self, pod: Json) -> None:
        """The container's arguments, variables and rights."""
        (container,) = pod["containers"]
        self.metrics, health = free_ports(2)
        token = self.plane.service_account_token(pod["serviceAccountName"], NAMESPACE)
        variables = {each["name"]: each.get("value", NAMESPACE) for each in container["env"]}
        variables["KUBECONFIG"] = str(self.plane.kubeconfig_for(token))
        words = ["--map-root-user", "--mount", "--", "sh", "-c", INSIDE, "sh", str(given("gpu-operator", "opt"))]
        words += [str(given("gpu-operator", "gpu-operator")), *container["args"]]
        words += [  # the namespace: outside of a pod it cannot read it from the mount of its account
            f"--leader-elect-namespace={NAMESPACE}",
            f"--metrics-bind-address=127.0.0.1:{self.metrics}",
            f"--health-probe-bind-address=127.0.0.1:{health}",
        ]
        self.program = Program("/usr/bin/unshare", tuple(words), self.log, health, variables)
        self.program.start()
        eventually(self.program.ready, 180)

    def stop(self) -> None:
        """Its process and its objects; the garbage collector removes what they own."""
        self.program.kill()
        for path in RESOURCES:
            with suppress(ApiError):
                for item in self.plane.request("GET", path)["items"]:
                    name = f"{path}/{item['metadata']['name']}"
                    self.plane.request("PATCH", name, {"metadata": {"finalizers": None}})
                    self.plane.request("DELETE", name)
        self.plane.request("DELETE", DAEMONSETS)
        eventually(self._empty, 180)

    def _empty(self) -> bool:
        pods = self.plane.request("GET", PODS)["items"]
        for pod in pods:
            with suppress(ApiError):
                self.plane.request("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        return not pods and not self.plane.request("GET", DAEMONSETS)["items"]

    def sample(self, name: str) -> float:
        """One of its own metrics."""
        link = Program("", (), self.log, self.metrics)
        return link.metric(f"gpu_operator_{name}")

    def daemon_sets(self) -> dict[str, tuple[dict[str, str], list[str]]]:
        """Name -> node selector, and the nodes of its pods."""
        pods = self.plane.request("GET", PODS)["items"]
        found = {}
        for item in self.plane.request("GET", DAEMONSETS)["items"]:
            uid, pod = item["metadata"]["uid"], item["spec"]["template"]["spec"]
            placed = sorted(node_of(each) for each in pods if owned(each, uid))
            found[item["metadata"]["name"]] = (pod.get("nodeSelector", {}), placed)
        return dict(sorted(found.items()))


def node_of(pod: Json) -> str:
    """Where the DaemonSet controller wants it, also while the scheduler waits for claims of devices."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def owned(item: Json, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))


def rendered(values: Mapping[str, Any]) -> list[Json]:
    """The chart's objects, without its copy of NFD.

    Its `validations.yaml` asks the cluster for DeviceClasses, which rendering without one cannot answer; the API server
    that the objects are applied to has them.
    """
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copytree(given("gpu-operator", "chart"), Path(folder, "chart"))
        (copied / "templates/validations.yaml").unlink()
        with helm_python.Chart.load(copied) as chart:
            files = chart.render({"nfd": {"enabled": False}, **values}, name="gpu-operator", namespace=NAMESPACE)
    return [item for name, text in files.items() if name.endswith(".yaml") for item in load(text)]


def definitions(plane: ControlPlane) -> None:
    files = [f"--filename={path}" for path in sorted(given("gpu-operator", "chart", "crds").glob("*.yaml"))]
    plane.kubectl("apply", "--server-side", *files)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)


OPENSHIFT = {
    "config.openshift.io": {"ClusterVersion": "clusterversions", "Proxy": "proxies"},
    "security.openshift.io": {"SecurityContextConstraints": "securitycontextconstraints"},
    "image.openshift.io": {"ImageStream": "imagestreams"},
    "monitoring.coreos.com": {"ServiceMonitor": "servicemonitors", "PrometheusRule": "prometheusrules"},
}
NAMESPACED = ("ImageStream", "ServiceMonitor", "PrometheusRule")


def openshift(plane: ControlPlane, toolkits: Mapping[str, str]) -> None:
    """The parts of OpenShift's API that the operator asks; `toolkits`: RHCOS release -> image of the driver toolkit."""
    for group, kinds in OPENSHIFT.items():
        for kind, plural in kinds.items():
            plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition(group, kind, plural)))
            plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", f"crd/{plural}.{group}")
    history = [{"state": "Completed", "version": "4.16.14"}]
    plane.create("/api/v1/namespaces", {"metadata": {"name": "openshift"}})
    tags = [{"name": name, "from": {"kind": "DockerImage", "name": image}} for name, image in toolkits.items()]
    items = [
        {
            "apiVersion": "config.openshift.io/v1",
            "kind": "ClusterVersion",
            "metadata": {"name": "version"},
            "status": {"history": history},
        },
        {"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {}},
        {
            "apiVersion": "image.openshift.io/v1",
            "kind": "ImageStream",
            "metadata": {"name": "driver-toolkit", "namespace": "openshift"},
            "spec": {"tags": tags},
        },
    ]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


def definition(group: str, kind: str, plural: str) -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if kind in NAMESPACED else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
