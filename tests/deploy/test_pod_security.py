"""Pod Security admission of a real API server, asked about every pod that we ship: what each level says of it.

All of it is `restricted` but for hostPath volumes, and for two users: gpu-feature-discovery writes as root does, and
nfd-topology-updater speaks to the kubelet on a socket that is root's.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import OVERLAYS, ROOT, Object, chart_objects, kustomized, load, overlay, pod_of

LEVELS = ("baseline", "restricted")
WORKLOADS = ("Deployment", "DaemonSet", "Job")
ON_HOST = {"baseline": {"hostPath volumes"}, "restricted": {"restricted volume types"}}
AS_ROOT: dict[str, set[str]] = {"baseline": set(), "restricted": {"runAsNonRoot != true", "runAsUser=0"}}
EVERYTHING = {"gpu": {"mode": "daemonset"}, "gc": {"enable": True}, "topologyUpdater": {"enable": True}}
_WHAT = re.compile(r"(?:^|, )([^,(]+?) \(")


@cache
def workloads() -> dict[str, Object]:
    """Each workload of chart and overlays, by where it comes from."""
    rendered = {
        "chart": chart_objects(EVERYTHING),
        "components": load(kustomized(ROOT / "tests/deploy/all-components")),
    }
    rendered |= {path.parent.name: overlay(path.parent.name) for path in OVERLAYS.glob("*/kustomization.yaml")}
    return {
        f"{place}-{each['metadata']['name']}": each
        for place, objects in sorted(rendered.items())
        for each in objects
        if each["kind"] in WORKLOADS
    }


@pytest.fixture(scope="module")
def namespaces(cluster: ControlPlane) -> None:
    """One for each level, which enforces it; and the container runtime that a pod of ours asks for."""
    runtime = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    cluster.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    for level in LEVELS:
        labels = {"pod-security.kubernetes.io/enforce": level}
        cluster.create("/api/v1/namespaces", {"metadata": {"name": f"level-{level}", "labels": labels}})


def complaints(cluster: ControlPlane, pod: Object, level: str) -> set[str]:
    """What the level has against the pod; empty if it is let in."""
    body = {"metadata": {"generateName": "asked-"}, "spec": pod}
    try:
        cluster.request("POST", f"/api/v1/namespaces/level-{level}/pods?dryRun=All&fieldValidation=Strict", body)
    except ApiError as error:
        _, found, reasons = str(error).partition(f'violates PodSecurity "{level}:latest": ')
        if not found:
            raise
        return set(_WHAT.findall(reasons))
    return set()


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", workloads())
def test_what_each_level_says(cluster: ControlPlane, level: str, name: str) -> None:
    pod = pod_of(workloads()[name])
    mounting = any("hostPath" in volume for volume in pod.get("volumes", ()))
    root = name.endswith(("gpu-feature-discovery", "topology-updater"))
    wanted = (ON_HOST[level] if mounting else set()) | (AS_ROOT[level] if root else set())
    assert complaints(cluster, pod, level) == wanted
    assert mounting == (root or name.endswith("-worker"))


def test_tokens_of_the_api_server_are_only_where_they_are_used() -> None:
    """By pod and by service account: workers and gpu-feature-discovery do not speak to the API server."""
    for name, workload in workloads().items():
        speaks = name.endswith(("-master", "-prune", "-gc", "-topology-updater"))
        assert pod_of(workload).get("automountServiceAccountToken", True) is speaks, name
    for objects in (chart_objects(EVERYTHING), overlay("gpu"), overlay("prune"), overlay("topologyupdater")):
        for account in (each for each in objects if each["kind"] == "ServiceAccount"):
            name = account["metadata"]["name"]
            speaks = not name.endswith(("worker", "gpu-feature-discovery"))
            assert account.get("automountServiceAccountToken", True) is speaks, name
