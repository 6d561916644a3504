"""The chart: what it renders for which values, and that every API server and every old values file takes it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from gfd.config_manager import read_settings
from nfd.config.flags import parse
from nfd.config.load import load
from nfd.host import PLUGIN_D
from nfd.master.node.startup_taints import parse_startup_taint
from nfd.sources.system import LABELLED
from nfd.worker.config import model
from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import (
    CHART,
    ROOT,
    Values,
    chart_objects,
    container_of,
    notes,
    one,
    overlay,
    pod_of,
    values_in,
)
from tests.deploy.settings import SETTINGS, STARTUP_TAINTS

POOL: Values = {"master": {"nodeLabelSelector": "pool in (a,b)"}}
VERSIONS = ("1.27", kubernetes_validate.latest_version())
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
FOREIGN = ("monitoring.coreos.com", "cert-manager.io")


@cache
def check_schemas(text: str) -> None:
    """Most settings change few objects: each text is checked once."""
    for version in VERSIONS:
        kubernetes_validate.validate(json.loads(text), version, strict=True)


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS)
def test_every_object_is_valid(cluster: ControlPlane, values: Values) -> None:
    """Against the schemas of old and new Kubernetes, and for an API server that refuses fields it does not know."""
    objects = chart_objects(values)
    for each in objects:
        empty = [path for path, value in values_in(each) if value is None]
        assert not empty, f"{each['kind']} has empty keys: {empty}"
        if each["apiVersion"].partition("/")[0] not in FOREIGN:
            check_schemas(json.dumps(each))
    if objects:
        stream = "\n---\n".join(map(json.dumps, objects))
        cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "--server-side", "-f", "-", stdin=stream)


def test_lint_finds_nothing() -> None:
    report = helm_python.lint(CHART, strict=True)
    serious = [message for message in report["messages"] if message["severity"] > 1]
    assert (serious, report["errors"]) == ([], [])


def test_definitions_are_those_of_deploy_crds() -> None:
    topologies = "noderesourcetopologies.yaml"
    assert (CHART / "files" / topologies).read_text() == (ROOT / "deploy/crds/topology" / topologies).read_text()
    ours = {path.name: path.read_text() for path in (CHART / "crds").iterdir()}
    assert ours == {path.name: path.read_text() for path in (ROOT / "deploy/crds").glob("node*.yaml")}


@pytest.mark.parametrize(
    ("values", "kind", "name", "flags"),
    [
        (
            {},
            "Deployment",
            "master",
            {
                "--enable-leader-election",
                "--snapshot-file=/var/lib/nfd-master/reports",
                "--replication-token-file=/var/run/secrets/tokens/nfd-master-replication",
            },
        ),
        (
            {"master": {"instance": "blue"}},
            "Deployment",
            "master",
            {"--enable-leader-election", "--lease-name=nfd-node-feature-discovery-master"},
        ),
        (SETTINGS["no-auth"], "Deployment", "master", {"--auth=none", "--insecure"}),
        (
            SETTINGS["tls"],
            "Deployment",
            "master",
            {"--auth=token", "--worker-accounts=nfd-node-feature-discovery-worker"},
        ),
        (
            SETTINGS["many-flags"],
            "Deployment",
            "master",
            {
                "--port=9090",
                "--instance=blue",
                "--extra-label-ns=a.io,b.io",
                "--deny-label-ns=*.c.io",
                "--resource-labels=a.io/n",
                "--enable-taints",
                "--resync-period=2h",
                "--nfd-api-parallelism=20",
                "--feature-gates=DisableAutoPrefix=false,NodeFeatureGroupAPI=true",
                "-v=1",
            },
        ),
        (
            SETTINGS["many-flags"],
            "DaemonSet",
            "worker",
            {"--server=nfd-node-feature-discovery-master:12000", "--http-port=8080"},
        ),
        ({"worker": {"metricsPort": 9100}}, "DaemonSet", "worker", {"--http-port=9100"}),
        ({"master": {"metricsPort": 9100}}, "Deployment", "master", {"--http-port=9100"}),
        ({"master": {"instance": "blue"}}, "Job", "prune", {"--prune", "--instance=blue"}),
        (POOL, "Job", "prune", {"--prune", "--node-selector=pool in (a,b)"}),
        (
            SETTINGS["many-flags"],
            "Job",
            "prune",
            {
                "--prune",
                "--delete-secret",
                "--namespace=node-feature-discovery",
                "--certificate-objects=nfd-node-feature-discovery-master-ca",
                "--extra-label-ns=a.io,b.io",
                "--deny-label-ns=*.c.io",
                "--enable-taints",
                "--feature-gates=DisableAutoPrefix=false,NodeFeatureGroupAPI=true",
            },
        ),
        (
            {"master": {"config": {"noPublish": True, "restrictions": {"disableLabels": True}}}},
            "Job",
            "prune",
            {'--options={"restrictions":{"disableLabels":true}}'},
        ),
        (POOL, "Deployment", "master", {"--node-selector=pool in (a,b)"}),
        ({"master": {"nodeConditions": True}}, "Deployment", "master", {"--node-conditions"}),
        (
            {"startupTaints": [*STARTUP_TAINTS, {"key": "a.io/b", "value": False, "effect": "NoSchedule"}]},
            "Deployment",
            "master",
            {
                "--startup-taints=nfd.node.kubernetes.io/unlabelled:NoSchedule,startup.example.com/gpu=wait:NoExecute,"
                "a.io/b=false:NoSchedule"
            },
        ),
        ({"gc": {"enable": True, "interval": "5m"}}, "Deployment", "gc", {"--gc-interval=5m", "--port=8080"}),
        (
            SETTINGS["topology-updater-files"],
            "DaemonSet",
            "topology-updater",
            {
                "--sleep-interval=0s",
                "--watch-namespace=mine",
                "--pods-fingerprint=false",
                "--kubelet-state-dir=/kubelet-state",
                "--kubelet-config-uri=file:///kubelet-config",
                "--podresources-socket=/host/var/lib/kubelet/pod-resources/pods.sock",
            },
        ),
        (SETTINGS["gpu-daemonset"], "DaemonSet", "gpu-feature-discovery", {"--mig-strategy=mixed"}),
        (
            {"gpu": {"mode": "daemonset", "xidEvents": True, "xidList": [79, 48]}},
            "DaemonSet",
            "gpu-feature-discovery",
            {"--xid-events", "--xid-list=79,48"},
        ),
    ],
)
def test_values_become_flags(values: Values, kind: str, name: str, flags: set[str]) -> None:
    assert flags <= set(container_of(one(chart_objects(values), kind, name))["args"])


@pytest.mark.parametrize(
    ("values", "verbs"),
    [
        ({}, ["get", "list", "watch", "update"]),
        (SETTINGS["no-auth"], ["get", "update"]),
        (SETTINGS["tls"], ["get", "update"]),
        (SETTINGS["mtls-alone"], ["get", "update"]),
    ],
    ids=["default", "no auth", "tls", "mtls"],
)
def test_the_epoch_reaches_workers_whatever_auth_says(values: Values, verbs: list[str]) -> None:
    """The ConfigMap exists, the master may write it and no other, and workers mount it as far as it exists."""
    objects = chart_objects(values)
    name = one(objects, "ConfigMap", "-master-ca")["metadata"]["name"]
    (rule,) = [each for each in one(objects, "Role", "-master")["rules"] if "configmaps" in each["resources"]]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], verbs)
    worker = one(objects, "DaemonSet", "-worker")
    assert "--epoch-file=/etc/nfd-master-ca/epoch" in container_of(worker)["args"]
    (mount,) = [each for each in container_of(worker)["volumeMounts"] if each["name"] == "nfd-master-ca"]
    assert mount == {"name": "nfd-master-ca", "mountPath": "/etc/nfd-master-ca", "readOnly": True}
    (volume,) = [each for each in pod_of(worker)["volumes"] if each["name"] == "nfd-master-ca"]
    assert volume["configMap"] == {"name": name, "optional": True}


@pytest.mark.parametrize("values", [{}, SETTINGS["no-auth"], SETTINGS["tls"]], ids=["default", "no auth", "tls"])
def test_the_key_of_proofs_has_its_secret_whatever_auth_says(values: Values) -> None:
    """The master may fill it, the job that prunes read and delete it, by its name; and it is there until then."""
    objects = chart_objects(values)
    name = "nfd-node-feature-discovery-master-ca"
    assert one(objects, "Secret")["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert f"--certificate-objects={name}" in container_of(one(objects, "Deployment", "master"))["args"]
    for role, verbs in (("master", ["get", "list", "watch", "update"]), ("prune", ["get", "delete"])):
        (rule,) = (rule for rule in one(objects, "Role", role)["rules"] if "secrets" in rule["resources"])
        assert (rule["resourceNames"], rule["verbs"]) == ([name], verbs)
    kept = chart_objects(values | {"postDeleteCleanup": False})
    assert "annotations" not in one(kept, "Secret")["metadata"], "nobody would delete it"


def test_ports_follow_the_values() -> None:
    """What a container listens on, what probes and policies name, and what the flag says are one number."""
    worker = container_of(one(chart_objects({"worker": {"port": 8080}}), "DaemonSet", "worker"))
    assert worker["ports"] == [{"name": "http", "containerPort": 8080}]
    assert worker["livenessProbe"]["httpGet"]["port"] == "http"


def test_a_components_own_priority_class_comes_first() -> None:
    objects = chart_objects(SETTINGS["priority-classes"])
    assert pod_of(one(objects, "DaemonSet", "worker"))["priorityClassName"] == "mine"
    assert pod_of(one(objects, "Deployment", "master"))["priorityClassName"] == "all"


def test_images() -> None:
    objects = chart_objects(SETTINGS["images"])
    assert container_of(one(objects, "DaemonSet", "worker"))["image"] == "registry.example.com/team/nfd-worker:2.1"
    assert container_of(one(objects, "Deployment", "master"))["image"] == "registry.example.com/team/nfd-master:2.0"
    old = chart_objects({"image": {"repository": "old.example.com/nfd/node-feature-discovery", "tag": "v0.16.0"}})
    assert container_of(one(old, "Deployment", "master"))["image"] == f"registry.example.com/nfd-master:{VERSION}"


def test_a_registry_is_required() -> None:
    """Unless each repository names one; a slash at either end is not doubled."""
    with pytest.raises(helm_python.HelmError, match=r"image\.registry is empty: set it to the registry"):
        chart_objects({"image": {"registry": ""}})
    slashes = {"image": {"registry": "r.example.com/team/"}, "worker": {"image": {"repository": "/nfd-worker"}}}
    found = container_of(one(chart_objects(slashes), "DaemonSet", "worker"))["image"]
    assert found == f"r.example.com/team/nfd-worker:{VERSION}"
    own = {name: {"image": {"repository": f"r.example.com/{name}"}} for name in ("master", "worker", "gpu")}
    found = container_of(one(chart_objects({"image": {"registry": ""}, **own}), "DaemonSet", "worker"))["image"]
    assert found == f"r.example.com/worker:{VERSION}"


def test_long_names_keep_their_suffix() -> None:
    """Two components never get the same name, however long the release's is."""
    objects = chart_objects(SETTINGS["names"] | SETTINGS["gpu-daemonset"])
    names = {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert len(names) == len(objects)
    assert all(len(name) <= 63 for _, name in names)


def test_one_replica_can_be_drained() -> None:
    budget = one(chart_objects({"master": {"podDisruptionBudget": {"enable": True}}}), "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("mode", ["worker", "daemonset", "off"])
def test_gpus_are_read_in_one_place(mode: str) -> None:
    objects = chart_objects(
        {"gpu": {"mode": mode}, "worker": {"config": {"core": {"featureSources": ["cpu", "nvidia"]}}}}
    )
    config = one(objects, "ConfigMap", "worker-conf")["data"]["nfd-worker.conf"]
    assert ("- -nvidia" in config) is (mode != "worker")
    variables = {each["name"]: each.get("value") for each in container_of(one(objects, "DaemonSet", "worker"))["env"]}
    assert variables.get("NVIDIA_VISIBLE_DEVICES") == (None if mode == "worker" else "void")
    assert any(each["metadata"]["name"].endswith("gpu-feature-discovery") for each in objects) is (mode == "daemonset")


OLD: dict[str, tuple[Values, set[str]]] = {
    "0.12": ({"nodeFeatureRule": {"createCRD": True}, "enableNodeFeatureApi": False}, {"nodeFeatureRule"}),
    "0.13": ({"topologyGC": {"enable": True, "interval": "1h"}}, {"topologyGC"}),
    "0.16": (
        {
            "image": {"repository": "old.example.com/nfd/node-feature-discovery", "tag": "v0.16.6"},
            "enableNodeFeatureApi": True,
            "featureGates": {"NodeFeatureAPI": True},
            "master": {
                "featureApi": "x",
                "crdController": True,
                "resourceLabels": ["vendor.io/n"],
                "metricsPort": 8081,
                "service": {"type": "ClusterIP", "port": 8080},
                "resources": {"limits": {"cpu": "300m", "memory": "4Gi"}},
            },
            "worker": {"metricsPort": 8081, "tolerations": [{"operator": "Exists"}]},
            "tls": {"enable": True, "certManager": True},
            "gc": {"enable": True, "replicaCount": 1},
        },
        {"image.repository", "enableNodeFeatureApi", "featureGates.NodeFeatureAPI", "master.featureApi"},
    ),
    "0.17": (
        {
            "master": {"healthPort": 8082, "livenessProbe": {"grpc": {"port": 8082}, "initialDelaySeconds": 10}},
            "worker": {"healthPort": 8082, "readinessProbe": {"grpc": {"port": 8082}, "failureThreshold": 10}},
        },
        {"master.healthPort", "master.livenessProbe.grpc", "worker.healthPort", "worker.readinessProbe.grpc"},
    ),
    "0.19": (
        {
            "master": {"port": 8080, "crdController": False, "hostUsers": None},
            "worker": {"port": 8080, "ownerRefs": ["pod"], "rbac": {"create": True}},
            "topologyUpdater": {"enable": True},
        },
        {"master.crdController", "worker.ownerRefs", "worker.rbac"},
    ),
    "gpu-operator": (
        {
            "priorityClassName": "system-node-critical",
            "gc": {"enable": True, "serviceAccount": {"create": False, "name": "node-feature-discovery"}},
            "worker": {
                "serviceAccount": {"name": "node-feature-discovery", "create": False},
                "config": {"sources": {"pci": {"deviceLabelFields": ["vendor"]}}},
            },
            "master": {"serviceAccount": {"name": "node-feature-discovery", "create": True}},
        },
        set(),
    ),
}


@pytest.mark.parametrize(("values", "gone"), OLD.values(), ids=OLD)
def test_values_of_old_releases_are_accepted_and_what_is_gone_is_said(
    cluster: ControlPlane, values: Values, gone: set[str]
) -> None:
    text = notes(values)
    assert {line.split(":")[0].removeprefix("* ") for line in text.splitlines() if line.startswith("* ")} == gone
    test_every_object_is_valid(cluster, values)


def test_nothing_is_said_about_values_that_work() -> None:
    assert "have no effect" not in notes()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"master": {"replicaCount": "2"}}, "replicaCount"),
        ({"worker": {"tolerations": {}}}, "tolerations"),
        ({"gpu": {"mode": "both"}}, "mode"),
        ({"featureGates": {"NodeFeatureGroupAPI": "yes"}}, "NodeFeatureGroupAPI"),
        ({"workers": {}}, "workers"),
        ({"worker": {"toleration": []}}, "toleration"),
        ({"master": {"auth": "mtls"}}, "tls.enable"),
    ],
)
def test_a_mistake_in_the_values_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(helm_python.HelmError, match=named):
        chart_objects(values)


TAINT_KEYS = [
    "nfd", "a.io/b", "readiness.k8s.io/nfd", "startup-taint.cluster-autoscaler.kubernetes.io/nfd", "k8s.io/nfd",
    "x.readiness.k8s.io/nfd", "node.kubernetes.io/nfd", "kubernetes.io/nfd", "x.k8s.io/nfd", "notkubernetes.io/nfd",
    "nfd.node.kubernetes.io/nfd", "edge.nfd.node.kubernetes.io/nfd", "xnfd.node.kubernetes.io/nfd",
    "feature.node.kubernetes.io/nfd", "profile.node.kubernetes.io/nfd", "a.io/b/c", "A.io/b", "a..io/b", "/b", "a.io/",
    "a.io/-b", "a.io/b_", "a.io/b c", f"a.io/{'x' * 63}", f"a.io/{'x' * 64}", f"{'x.' * 126}x/b", f"{'x.' * 127}x/b",
]  # fmt: skip


@pytest.mark.parametrize(
    "taint",
    [
        *({"key": key, "value": "pending", "effect": "NoSchedule"} for key in TAINT_KEYS),
        *({"key": "a.io/b", "value": value, "effect": "NoExecute"} for value in ("", True, 1, "a b", "a,b", "x" * 64)),
    ],
    ids=str,
)
def test_a_startup_taint_that_the_master_refuses_is_refused(taint: dict[str, Any]) -> None:
    """By the same rules, so that no master ends at its start."""
    value = taint["value"]
    written = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        parse_startup_taint(f"{taint['key']}{f'={written}' if written else ''}:{taint['effect']}")
    except ValueError:
        with pytest.raises(helm_python.HelmError, match="startupTaints: key "):
            chart_objects({"startupTaints": [taint]})
    else:
        assert chart_objects({"startupTaints": [taint]})


def test_gfd_enabled_of_the_device_plugins_chart() -> None:
    assert chart_objects({"gfd": {"enabled": False}}) == chart_objects({"gpu": {"mode": "off"}})
    assert chart_objects({"gfd": {"enabled": True}}) == chart_objects()
    with pytest.raises(helm_python.HelmError, match="contradict each other"):
        chart_objects({"gfd": {"enabled": True}, "gpu": {"mode": "off"}})


def test_configurations_of_the_device_plugin_in_the_worker() -> None:
    """Mounted where the source reads them; default and fallbacks are options of the source."""
    objects = chart_objects(SETTINGS["plugin-configs"])
    (given,) = (each for each in objects if each["metadata"]["name"].endswith("device-plugin-configs"))
    assert {name: yaml.safe_load(text)["version"] for name, text in given["data"].items()} == {"a": "v1", "b": "v1"}
    worker = one(objects, "DaemonSet", "worker")
    (mount,) = (each for each in container_of(worker)["volumeMounts"] if each["name"] == "device-plugin-configs")
    assert mount == {"name": "device-plugin-configs", "mountPath": f"/{PLUGIN_D}", "readOnly": True}
    variables = environment(container_of(worker))
    parsed = parse("nfd-worker", [], model=model(), env_prefix="NFD_WORKER", environment=variables)
    chosen = load(model(), parsed.layers).config.sources.nvidia.node_configs
    assert (chosen.default, chosen.fallback_strategies) == ("a", ("named", "single"))
    with pytest.raises(helm_python.HelmError, match="not both"):
        chart_objects({"config": {"name": "mine", "map": {"a": ""}}})


def test_configurations_of_the_device_plugin_beside_gpu_feature_discovery() -> None:
    """One process links the first configuration, another follows the label."""
    objects = chart_objects(SETTINGS["plugin-configs-daemonset"])
    pod = pod_of(one(objects, "DaemonSet", "gpu-feature-discovery"))
    assert pod["shareProcessNamespace"]
    assert [each["name"] for each in pod["initContainers"]] == ["a", "config-manager-init"]
    managers = [pod["initContainers"][1], pod["containers"][1]]
    settings = [read_settings({"NODE_NAME": "n", **environment(each)}) for each in managers]
    assert [(each.oneshot, each.send_signal) for each in settings] == [(True, False), (False, True)]
    for each in settings:
        assert (each.default, each.fallbacks, each.process) == ("a", ("named", "single"), "gpu-feature-discovery")
        assert f"--config-file={each.target}" in pod["containers"][0]["args"]
    assert not [word for word in pod["containers"][0]["args"] if "mig-strategy" in word], "it would hide the file's"
    role = one(objects, "ClusterRole", "gpu-feature-discovery")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "watch"]}]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_the_notes_say_which_mig_strategy_users_of_the_operator_need() -> None:
    assert "with the operator, set gpu.migStrategy=single" in " ".join(notes().split())
    for values in ({"gpu": {"migStrategy": "mixed"}}, {"gfd": {"enabled": False}}, SETTINGS["plugin-configs"]):
        assert "MIG" not in notes(values)


def test_openshift_labels_three_more_fields_of_os_release() -> None:
    """By default if the cluster has OpenShift's API; the overlay says the same. What the values list counts."""
    (conf,) = (
        each["data"] for each in chart_objects(SETTINGS["openshift"]) if "worker-conf" in each["metadata"]["name"]
    )
    sources = yaml.safe_load(conf["nfd-worker.conf"])["sources"]
    assert sources == {"system": {"osReleaseLabels": [*LABELLED, *MORE]}, "pci": {}}
    overlaid = environment(container_of(one(overlay("openshift"), "DaemonSet", "nfd-worker")))
    assert overlaid["NFD_WORKER_SOURCES_SYSTEM_OS_RELEASE_LABELS"] == ",".join((*LABELLED, *MORE))
    parsed = parse("nfd-worker", [], model=model(), env_prefix="NFD_WORKER", environment=overlaid)
    assert load(model(), parsed.layers).config.sources.system.os_release_labels == (*LABELLED, *MORE)
    own = {"sources": {"system": {"osReleaseLabels": ["ID"]}}}
    assert "OSTREE_VERSION" not in str(chart_objects({"openshift": {"enabled": True}, "worker": {"config": own}}))
    assert "OSTREE_VERSION" not in str(chart_objects())


MORE = ("OSTREE_VERSION", "RHEL_VERSION", "OPENSHIFT_VERSION")


def test_workers_tolerate_the_taint_of_gpu_nodes_startup_taints_and_what_is_asked_for() -> None:
    def tolerations(values: Values, name: str = "worker") -> Any:
        return pod_of(one(chart_objects(values), "DaemonSet", name)).get("tolerations")

    gpus = {"key": "nvidia.com/gpu", "operator": "Exists"}
    exact = [{"operator": "Equal", "value": "", **taint} for taint in STARTUP_TAINTS]
    assert tolerations({}) == [gpus]
    assert pod_of(one(overlay("default"), "DaemonSet"))["tolerations"] == [gpus]
    assert tolerations(SETTINGS["startup-taints"]) == [gpus, *exact]
    assert tolerations(SETTINGS["startup-taints"], "gpu-feature-discovery") == [
        {**gpus, "effect": "NoSchedule"},
        *exact,
    ]
    master = pod_of(one(chart_objects(SETTINGS["startup-taints"]), "Deployment"))
    assert [each for each in exact if each not in master["tolerations"]] == []
    assert tolerations(SETTINGS["tolerate-all"]) == [{"operator": "Exists", "effect": "NoSchedule"}]
    assert tolerations({"worker": {"tolerations": []}}) is None
