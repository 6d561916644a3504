"""The manifests: rendered by kustomize, taken by a real API server, no wider than promised, in step with the chart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfd.options import parse_options
from nfd.host import CUSTOM_D
from nfd.master.security.authentication import AUDIENCE, MASTERS_AUDIENCE
from nfd.rules.parse import parse_custom_text
from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import (
    OVERLAYS,
    REGISTRY,
    ROOT,
    Object,
    chart_objects,
    container_of,
    kustomized,
    load,
    one,
    overlay,
    pod_of,
    values_in,
)

NAMES = sorted(path.parent.name for path in OVERLAYS.glob("*/kustomization.yaml"))
ALL_COMPONENTS = ROOT / "tests/deploy/all-components"
WORKLOADS = ("Deployment", "DaemonSet", "Job")
WRITES_FEATURES = "gpu-feature-discovery"
"""The one whose job it is to write on the host, so it may be root there, without capabilities."""
ROOT_USERS = (WRITES_FEATURES, "nfd-topology-updater")
"""And the one that speaks to the kubelet, on a socket that is root's."""


def workloads(objects: list[Object]) -> list[Object]:
    return [each for each in objects if each["kind"] in WORKLOADS]


@pytest.mark.parametrize("name", NAMES)
def test_the_api_server_takes_every_object(cluster: ControlPlane, name: str) -> None:
    """Fields it does not know are errors; the second time nothing changes.

    kubectl always sends the selector of a PodDisruptionBudget again, and then calls it configured.
    """
    apply = ("apply", "--validate=strict", "-k", str(OVERLAYS / name))
    cluster.kubectl(*apply)
    stream = "\n---\n".join(json.dumps(each) for each in overlay(name))
    cluster.kubectl("get", "-f", "-", stdin=stream)
    changed = [line for line in cluster.kubectl(*apply).splitlines() if not line.endswith(" unchanged")]
    assert [line for line in changed if not line.startswith("poddisruptionbudget.policy/")] == []


@pytest.mark.parametrize("name", NAMES)
def test_pods_are_restricted_but_for_read_only_host_mounts(name: str) -> None:
    for workload in workloads(overlay(name)):
        pod, container = pod_of(workload), container_of(workload)
        writer = workload["metadata"]["name"] == WRITES_FEATURES
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert not pod.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context.get("runAsNonRoot", False) is (workload["metadata"]["name"] not in ROOT_USERS)
        host = {volume["name"] for volume in pod.get("volumes", ()) if "hostPath" in volume}
        writable = {each["name"] for each in container.get("volumeMounts", ()) if not each.get("readOnly")}
        leads = workload["metadata"]["name"] == "nfd-master" and workload["kind"] == "Deployment"
        assert writable == ({"features-d"} if writer else {"state"} if leads else set())
        assert writer or not host & writable


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_empty_or_unnamed(name: str) -> None:
    """No empty keys, and patches that add to `containers[0]` hit the container they mean."""
    for each in overlay(name):
        assert [path for path, value in values_in(each) if value is None] == []
    for workload in workloads(overlay(name)):
        assert container_of(workload)["name"] == workload["metadata"]["name"]


def test_the_workers_token_is_for_the_master_alone() -> None:
    worker = pod_of(one(load(kustomized(ROOT / "deploy/kustomize/base")), "DaemonSet"))
    assert worker["automountServiceAccountToken"] is False
    projected = [source for each in worker["volumes"] for source in each.get("projected", {}).get("sources", ())]
    assert [source["serviceAccountToken"]["audience"] for source in projected] == [AUDIENCE]


def test_masters_have_a_token_for_each_other_and_a_place_for_their_reports() -> None:
    """One token, for masters alone, and a folder that no other pod sees."""
    workload = one(load(kustomized(ROOT / "deploy/kustomize/base")), "Deployment")
    volumes, mounts = pod_of(workload)["volumes"], container_of(workload)["volumeMounts"]
    projected = [source for each in volumes for source in each.get("projected", {}).get("sources", ())]
    (token,) = (source["serviceAccountToken"] for source in projected)
    assert token["audience"] == MASTERS_AUDIENCE
    places = {each["name"]: each["mountPath"] for each in mounts}
    assert f"--replication-token-file={places['token']}/{token['path']}" in container_of(workload)["args"]
    assert f"--snapshot-file={places['state']}/reports" in container_of(workload)["args"]
    assert next(each for each in volumes if each["name"] == "state").keys() == {"name", "emptyDir"}


def test_gpus_are_read_in_one_place() -> None:
    objects = overlay("gpu")
    worker = {each["name"]: each.get("value") for each in container_of(one(objects, "DaemonSet", "nfd-worker"))["env"]}
    assert worker["NFD_WORKER_CORE_FEATURE_SOURCES"] == "all,-nvidia"
    labels = one(objects, "DaemonSet", WRITES_FEATURES)["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app": "gpu-feature-discovery", "role": "gpu-feature-discovery"}


@pytest.mark.parametrize("strategy", ["single", "mixed"])
def test_overlays_with_a_mig_strategy(strategy: str) -> None:
    args = container_of(one(overlay(f"gpu-mig-{strategy}"), "DaemonSet", WRITES_FEATURES))["args"]
    assert parse_options(args, {}).load().config.flags.mig_strategy == strategy


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        (None, 3),
        ({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}, "podAntiAffinity": {}}, 1),
    ],
    ids=["default", "without a term"],
)
def test_pods_with_xid_events_leave_paused_nodes(affinity: dict[str, Any] | None, terms: int) -> None:
    """NVIDIA/mig-parted and NVIDIA/k8s-driver-manager pause GPU feature discovery by these values of the label."""
    values = {"mode": "daemonset", **({"affinity": affinity} if affinity else {})}
    usual, pausable = (
        pod_of(one(chart_objects({"gpu": values | {"xidEvents": on}}), "DaemonSet", WRITES_FEATURES))["affinity"]
        for on in (False, True)
    )
    required = pausable["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    added = [term["matchExpressions"].pop() for term in required]
    mig, driver = "paused-for-mig-change", "paused-for-driver-upgrade"
    paused = ["false", mig, driver, f"{mig}_{driver}"]
    assert (
        added == [{"key": "nvidia.com/gpu.deploy.gpu-feature-discovery", "operator": "NotIn", "values": paused}] * terms
    )
    if affinity is None:
        assert pausable == usual


def test_the_gpu_job_is_gpu_feature_discovery_run_once() -> None:
    job, daemon = one(overlay("gpu-job"), "Job"), one(overlay("gpu"), "DaemonSet", WRITES_FEATURES)
    once, always = container_of(job), container_of(daemon)
    assert once.pop("args") == [*always.pop("args"), "--oneshot"]
    assert once == always
    assert pod_of(job)["nodeSelector"] == {"kubernetes.io/hostname": "NODE_NAME"}


def test_custom_rules_are_mounted_where_the_worker_reads_them() -> None:
    objects = overlay("custom-rules")
    (mount,) = (
        each for each in container_of(one(objects, "DaemonSet"))["volumeMounts"] if each["name"] == "custom-rules"
    )
    assert mount["mountPath"] == f"/{CUSTOM_D}"
    (text,) = next(each["data"] for each in objects if each["metadata"]["name"].startswith("custom-rules-")).values()
    (rule,) = parse_custom_text(text).rules
    assert (rule.name, rule.mistakes) == ("my disk encryption", ())


def test_the_job_is_the_daemonset_run_once() -> None:
    job, daemon = one(overlay("default-job"), "Job"), one(overlay("default"), "DaemonSet")
    once, always = container_of(job), container_of(daemon)
    assert once.pop("args") == [*always.pop("args"), "--oneshot"]
    assert {**once, "livenessProbe": always["livenessProbe"], "readinessProbe": always["readinessProbe"]} == always
    assert pod_of(job)["volumes"] == pod_of(daemon)["volumes"]
    assert not [each for each in overlay("default-job") if each["kind"] == "DaemonSet"]


def test_prune_may_do_with_nodes_what_the_master_may() -> None:
    """By name, wherever the rule stands in the role."""

    def on_nodes(role: Object) -> dict[str, list[str]]:
        return {
            name: rule["verbs"] for rule in role["rules"] for name in rule["resources"] if "nodes" in name.split("/")
        }

    assert on_nodes(one(overlay("prune"), "ClusterRole", "nfd-prune")) == on_nodes(
        one(overlay("default"), "ClusterRole", "nfd-master")
    )
    assert one(overlay("prune"), "Namespace") == one(overlay("default"), "Namespace")


def test_components(cluster: ControlPlane) -> None:
    """All at once, granting what the chart grants with the same choices."""
    cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", str(ALL_COMPONENTS))
    objects = load(kustomized(ALL_COMPONENTS))
    assert {path.name for path in (ROOT / "deploy/kustomize/components").iterdir()} == {
        Path(each).name for each in yaml.safe_load((ALL_COMPONENTS / "kustomization.yaml").read_text())["components"]
    }
    assert {"--enable-leader-election", "--serve-page", "--page-dra"} <= set(
        container_of(one(objects, "Deployment", "nfd-master"))["args"]
    )
    served = {"serveReports": True, "servePage": True, "pageDra": True}
    master = {**RELEASE["master"], **served, "replicaCount": 2, "rbac": {"lookUpPods": True}}
    assert rights(chart_objects({**RELEASE, **BESIDE, "master": master, "postDeleteCleanup": False})) == rights(objects)


def normal(workload: Object, ours: dict[str, str]) -> Object:
    """A pod without what a release names after itself: `ours` maps names of the chart to those of the manifests."""
    text = json.dumps(pod_of(workload)).replace(f'"{REGISTRY}/', '"')
    for theirs, name in ours.items():
        text = text.replace(f'"{theirs}"', f'"{name}"')
    pod: Object = json.loads(re.sub(r'"(nfd-\w+):[^"]+"', r'"\1"', text))
    (container,) = pod["containers"]
    container["args"] = sorted(container["args"])
    for key, parts in (("volumes", pod), ("volumeMounts", container)):
        parts[key] = sorted(parts.get(key, ()), key=lambda each: str(each["name"]))
    for volume in pod["volumes"]:
        volume.get("configMap", {}).pop("optional", None)
        volume.get("configMap", {}).pop("name", None)
    return pod


RELEASE: dict[str, Any] = {
    "fullnameOverride": "nfd",
    "master": {"serviceAccount": {"name": "nfd-master"}},
    "gpu": {"serviceAccount": {"name": "gpu-feature-discovery"}},
}
BESIDE: dict[str, Any] = {
    "gc": {"enable": True, "serviceAccount": {"name": "nfd-gc"}},
    "topologyUpdater": {"enable": True, "serviceAccount": {"name": "nfd-topology-updater"}},
}
WITH_XID_EVENTS = {"runtimeClassName": "nvidia", "xidEvents": True}
OF_A_RELEASE = ("--worker-accounts=nfd-worker", "--service-name=nfd-master", "--certificate-objects=nfd-master-ca")
"""Flags of the chart alone: they say what are the defaults where the release is called as the manifests are."""


@pytest.mark.parametrize(
    ("name", "kind", "theirs", "ours", "values"),
    [
        ("topologyupdater", "Deployment", "gc", "nfd-gc", {}),
        ("topologyupdater", "DaemonSet", "topology-updater", "nfd-topology-updater", {}),
        ("default", "Deployment", "master", "nfd-master", {}),
        ("default", "DaemonSet", "worker", "nfd-worker", {}),
        ("gpu", "DaemonSet", "gpu-feature-discovery", "gpu-feature-discovery", {"runtimeClassName": "nvidia"}),
        (ALL_COMPONENTS, "DaemonSet", "gpu-feature-discovery", "gpu-feature-discovery", WITH_XID_EVENTS),
    ],
)
def test_chart_and_manifests_run_the_same_pods(
    name: str | Path, kind: str, theirs: str, ours: str, values: dict[str, Any]
) -> None:
    """Whoever changes one changes both."""
    release = {**RELEASE, **BESIDE, "gpu": {**RELEASE["gpu"], **values, "mode": "daemonset" if values else "worker"}}
    chart = normal(one(chart_objects(release), kind, theirs), {theirs: ours})
    manifest = normal(one(load(kustomized(OVERLAYS / name)), kind, ours), {})
    (container,) = chart["containers"]
    container["args"] = [word for word in container["args"] if word not in OF_A_RELEASE]
    if values:
        chart["dnsPolicy"] = manifest.get("dnsPolicy", "ClusterFirst")
        manifest["dnsPolicy"] = chart["dnsPolicy"]
    assert chart == manifest


def rights(objects: list[Object]) -> set[str]:
    """Every rule of every role, whatever the role is called, under its role's kind."""
    text = {
        json.dumps([each["kind"], rule], sort_keys=True)
        for each in objects
        if each["kind"] in ("ClusterRole", "Role")
        for rule in each["rules"]
    }
    return {each.replace("nfd-master-ca", "CA") for each in text}


def test_chart_and_manifests_grant_the_same_rights() -> None:
    assert rights(chart_objects({**RELEASE, "postDeleteCleanup": False})) == rights(overlay("default"))
