"""Every value of NFD's chart (NFD documentation, "Chart parameters") has an effect, or the notes say it has none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import helm_python
import pytest
import yaml

from tests.config.test_render import uncommented
from tests.deploy.rendering import ROOT, Values, chart_objects, notes

PROBE = {
    "initialDelaySeconds": 7,
    "timeoutSeconds": 7,
    "periodSeconds": 7,
    "failureThreshold": 7,
    "successThreshold": 1,
}
CONTEXT = {"runAsUser": 1234}
TOP: Values = {
    "image": {"repository": "old.example.com/nfd", "pullPolicy": "Always", "tag": "9"},
    "imagePullSecrets": [{"name": "pull"}],
    "global": {"imagePullSecrets": [{"name": "pull"}]},
    "nameOverride": "mine",
    "fullnameOverride": "mine",
    "namespaceOverride": "mine",
    "featureGates": {"NodeFeatureGroupAPI": True},
    "checksumValuesOnly": True,
    "priorityClassName": "mine",
    "postDeleteCleanup": False,
    "prometheus": {"enable": True, "scrapeInterval": "99s", "labels": {"mine": "yes"}},
}
COMMON: Values = {
    "enable": False,
    "extraArgs": ["-v=1"],
    "extraEnvs": [{"name": "A", "value": "b"}],
    "hostNetwork": True,
    "hostUsers": False,
    "dnsPolicy": "Default",
    "port": 9999,
    "podSecurityContext": {"fsGroup": 2000},
    "securityContext": CONTEXT,
    "initContainers": [{"name": "first", "image": "busybox:1"}],
    "serviceAccount": {"create": False, "annotations": {"mine": "yes"}, "name": "mine"},
    "rbac": {"create": False},
    "resources": {"limits": {"memory": "77Mi"}},
    "nodeSelector": {"mine": "yes"},
    "tolerations": [{"operator": "Exists"}],
    "annotations": {"mine": "yes"},
    "labels": {"mine": "yes"},
    "affinity": {"podAntiAffinity": {}},
    "revisionHistoryLimit": 3,
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 53}]}], "ingress": [{"ports": [{"port": 9}]}]},
}
BUDGET = {
    "enable": True,
    "minAvailable": "50%",
    "maxUnavailable": "50%",
    "unhealthyPodEvictionPolicy": "IfHealthyBudget",
}
BLOCKS: dict[str, Values] = {
    "master": {
        **COMMON,
        "config": {"extraLabelNs": ["mine.io"]},
        "instance": "blue",
        "resyncPeriod": "2h",
        "denyLabelNs": ["mine.io"],
        "extraLabelNs": ["mine.io"],
        "enableTaints": True,
        "nfdApiParallelism": 20,
        "deploymentAnnotations": {"mine": "yes"},
        "replicaCount": 3,
        "startupProbe": {"failureThreshold": 7},
        "podDisruptionBudget": BUDGET,
        "resourceLabels": ["mine.io/n"],
        "service": {"type": "NodePort", "port": 12000},
        "metricsPort": 9998,
        "healthPort": 8082,
        "crdController": False,
        "featureApi": "yes",
        "featureRulesController": False,
    },
    "worker": {
        **COMMON,
        "config": {"core": {"sleepInterval": "5m"}},
        "ownerRefs": ["pod"],
        "daemonsetAnnotations": {"mine": "yes"},
        "mountUsrSrc": True,
        "priorityClassName": "mine",
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "50%"}},
        "metricsPort": 9998,
        "healthPort": 8082,
    },
    "gc": {
        **COMMON,
        "enable": True,
        "interval": "2h",
        "replicaCount": 2,
        "deploymentAnnotations": {"mine": "yes"},
        "podDisruptionBudget": BUDGET,
        "metricsPort": 9998,
        "healthPort": 8082,
    },
    "topologyUpdater": {
        **COMMON,
        "enable": True,
        "createCRDs": True,
        "config": {"excludeList": {"*": ["memory"]}},
        "kubeletConfigPath": "/var/lib/kubelet/config.yaml",
        "kubeletPodResourcesSockPath": "/var/lib/kubelet/pod-resources/kubelet.sock",
        "updateInterval": "99s",
        "watchNamespace": "mine",
        "kubeletStateDir": "/var/lib/mine",
        "podSetFingerprint": False,
        "metricsPort": 9998,
        "healthPort": 8082,
        "daemonsetAnnotations": {"mine": "yes"},
    },
    "tls": {
        "enable": True,
        "certManager": True,
        "certManagerCertificate": {"issuerKind": "ClusterIssuer", "issuerName": "mine"},
    },
}
BESIDE: dict[str, Any] = {
    "master.networkPolicy.enabled": True,
    "worker.networkPolicy.enabled": True,
    "gc.networkPolicy.enabled": True,
    "topologyUpdater.networkPolicy.enabled": True,
    "gc.podDisruptionBudget.enable": True,
    "master.podDisruptionBudget.enable": True,
    "prometheus.enable": True,
    "topologyUpdater.enable": True,
    "gc.enable": True,
    "tls.enable": True,
    "tls.certManager": True,
    "tls.certManagerCertificate.issuerName": "other",
    "tls.certManagerCertificate.issuerKind": "Issuer",
}
"""Switches of blocks: set beside whatever else stands in the block."""
OPEN = ("annotations", "labels", "resources", "nodeSelector", "config", "securityContext", "podSecurityContext")
OPEN += ("affinity", "updateStrategy", "featureGates", "deploymentAnnotations", "daemonsetAnnotations")
"""Mappings whose keys are the user's."""


def paths(tree: Values, before: str = "") -> Iterator[tuple[str, Any]]:
    """Path and sample of every value."""
    for key, value in tree.items():
        path = f"{before}{key}"
        if isinstance(value, dict) and key not in OPEN:
            yield from paths(value, f"{path}.")
        else:
            yield path, value


def nested(values: dict[str, Any]) -> Values:
    """A values file, of paths."""
    tree: Values = {}
    for path, value in values.items():
        *blocks, last = path.split(".")
        place = tree
        for block in blocks:
            place = place.setdefault(block, {})
        place[last] = value
    return tree


@cache
def rendered(switches: tuple[tuple[str, Any], ...]) -> str:
    return str(chart_objects(nested(dict(switches))))


def switches_of(path: str) -> dict[str, Any]:
    """What the value needs beside it."""
    found = {one: value for one, value in BESIDE.items() if path.startswith(one[: one.rindex(".") + 1])}
    return {one: value for one, value in found.items() if one != path}


ALL = dict(paths({**TOP, **BLOCKS}))


@pytest.mark.parametrize("path", ALL)
def test_a_value_has_an_effect_or_the_notes_say_that_it_has_none(path: str) -> None:
    switches = switches_of(path)
    values = nested({**switches, path: ALL[path]})
    told = [line.removeprefix("* ").partition(":")[0] for line in notes(values).splitlines() if line.startswith("* ")]
    without = {one.removesuffix(".enable") for one in told}
    if not any(path == one or path.startswith(f"{one}.") for one in without):
        assert str(chart_objects(values)) != rendered(tuple(switches.items())), f"{path} changes nothing"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"worker": {"config": {"core": {"slepInterval": "60s"}}}},
            "'/worker/config/core'.*'slepInterval' not allowed",
        ),
        ({"worker": {"config": {"sources": {"pci": {"deviceClassWhitelist": [200]}}}}}, "got number, want string"),
        ({"master": {"config": {"enableTaint": True}}}, "'/master/config'.*'enableTaint' not allowed"),
        ({"topologyUpdater": {"config": {"excludeLst": {}}}}, "'/topologyUpdater/config'.*'excludeLst' not allowed"),
    ],
)
def test_configurations_are_checked_by_the_schemas_of_the_programs(values: Values, problem: str) -> None:
    with pytest.raises(helm_python.HelmError, match=problem):
        chart_objects(values)


def test_configurations_of_nfd_are_valid() -> None:
    """Every option with its default, keys of former releases, and a plug-in's source."""
    worker, master = (
        yaml.safe_load(uncommented((ROOT / f"deploy/examples/nfd-{name}.conf").read_text()))
        for name in ("worker", "master")
    )
    former = {"sources": {"local": {"hooksEnabled": True}, "of-a-plug-in": {"x": 1}}, "core": {"klog": {"v": 4}}}
    for config in (worker, former, {}, None):
        chart_objects({"worker": {"config": config}})
    for config in (master, {"restrictions": {"disableTaints": True}}, {"klog": {"v": "4"}}, None):
        chart_objects({"master": {"config": config}})
