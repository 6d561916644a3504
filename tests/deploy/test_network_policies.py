"""Network policies: of chart and component alike, for pods that are there, over ports that they have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.rendering import ROOT, Object, chart_objects, container_of, kustomized, load, one, overlay

ON: Object = {"enable": True, "networkPolicy": {"enabled": True}}
VALUES: Object = {
    **dict.fromkeys(("master", "worker", "gc", "topologyUpdater"), ON),
    "gpu": {"mode": "daemonset", "networkPolicy": {"enabled": True}},
}
APPS = {
    "master": "nfd-master",
    "worker": "nfd-worker",
    "gc": "nfd-gc",
    "topology-updater": "nfd-topology-updater",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "prune": "nfd-prune",
}
"""The chart's label `role` → the manifests' label `app`."""
KINDS = {"nfd-master": "Deployment", "nfd-gc": "Deployment", "nfd-prune": "Job"}
"""The others are DaemonSets."""


@pytest.fixture(scope="module")
def component() -> dict[str, Object]:
    """Policies of the manifests by app."""
    objects = load(kustomized(ROOT / "tests/deploy/all-components"))
    policies = [each for each in objects if each["kind"] == "NetworkPolicy"]
    return {each["spec"]["podSelector"]["matchLabels"]["app"]: each for each in policies}


@pytest.fixture(scope="module")
def chart() -> dict[str, Object]:
    """The chart's, by the same names."""
    policies = [each for each in chart_objects(VALUES) if each["kind"] == "NetworkPolicy"]
    return {APPS[each["spec"]["podSelector"]["matchLabels"]["role"]]: each for each in policies}


def test_every_pod_has_one(component: dict[str, Object], chart: dict[str, Object]) -> None:
    assert component.keys() == chart.keys() == set(APPS.values())
    assert not [each for each in chart_objects() if each["kind"] == "NetworkPolicy"]


@pytest.mark.parametrize("app", APPS.values())
def test_chart_and_component_let_through_the_same(
    component: dict[str, Object], chart: dict[str, Object], app: str
) -> None:
    for way in ("ingress", "egress"):
        ours, theirs = (policies[app]["spec"].get(way) or [] for policies in (component, chart))
        assert list(map(let_through, ours)) == list(map(let_through, theirs))
    assert component[app]["spec"]["policyTypes"] == chart[app]["spec"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("app", APPS.values())
def test_they_are_for_pods_with_such_ports(component: dict[str, Object], app: str) -> None:
    objects = [*load(kustomized(ROOT / "tests/deploy/all-components")), *overlay("gpu"), *overlay("prune")]
    workload = next(
        each for each in objects if each["kind"] == KINDS.get(app, "DaemonSet") and each["metadata"]["name"] == app
    )
    assert workload["spec"]["template"]["metadata"]["labels"]["app"] == app
    named = {port["port"] for rule in component[app]["spec"].get("ingress", ()) for port in rule["ports"]}
    assert named == {port["name"] for port in container_of(workload).get("ports", ())}


def test_the_prune_job_s_comes_and_goes_with_it(chart: dict[str, Object]) -> None:
    """After an uninstall nothing else of the release is left; an API server on another port is the master's too."""
    job = one(chart_objects(VALUES), "Job")
    assert chart["nfd-prune"]["metadata"]["annotations"] == job["metadata"]["annotations"]
    selected = chart["nfd-prune"]["spec"]["podSelector"]["matchLabels"].items()
    assert selected <= job["spec"]["template"]["metadata"]["labels"].items()
    elsewhere = [{"ports": [{"protocol": "TCP", "port": 8443}]}]
    values = {**VALUES, "master": {**ON, "networkPolicy": {"enabled": True, "egress": elsewhere}}}
    policy = next(each for each in chart_objects(values) if each["metadata"]["name"].endswith("prune-network-policy"))
    assert policy["spec"]["egress"] == elsewhere


def let_through(rule: Object) -> tuple[set[str], list[tuple[str, Any]]]:
    """Whose pods, by app (nobody in particular: all), and which ports."""
    peers: set[str] = set()
    for peer in (*rule.get("from", ()), *rule.get("to", ())):
        selector = peer["podSelector"]
        for expression in selector.get("matchExpressions", ()):
            peers.update(expression["values"])
        if labels := selector.get("matchLabels"):
            peers.add(labels.get("app") or APPS[labels["role"]])
    return peers, [(port["protocol"], port["port"]) for port in rule["ports"]]
