"""Pods of the software that reads our labels get to the right nodes, and stay there whatever happens to us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.consumers import operators
from tests.consumers.cluster import (
    PODS,
    apply,
    changes,
    clear,
    counted,
    daemon_set,
    deployment,
    now,
    placed,
    pods_of,
    remove,
)
from tests.consumers.fleet import FLEET, GPU_NODES, make
from tests.consumers.running import Discovery, nodes, prepare
from tests.consumers.table import CONSUMERS, Consumer, Term
from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import chart_objects, one, pod_of
from tests.e2e.programs import eventually
from tests.nvml.asking import needs_compiler

RULES = Path(__file__).with_name("rules.yaml")
OWN = "our-gpu-feature-discovery"

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def discovery(cluster: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Discovery]:
    """Every consumer's DaemonSet is there before the first label is; the nodes are labelled by our programs alone."""
    folder = tmp_path_factory.mktemp("fleet")
    machines = {name: make(member, folder / name) for name, member in FLEET.items()}
    cluster.kubectl("apply", "-f", str(RULES))
    apply(cluster, *(daemon_set(one.name, one.pod()) for one in CONSUMERS), daemon_set(OWN, own_pod()))
    running = prepare(cluster, folder, machines)
    with nodes(cluster, machines):
        for name in (*(one.name for one in CONSUMERS), OWN):
            eventually(lambda name=name: counted(cluster, name) == 0)  # type: ignore[misc]
        running.start_master()
        running.start_workers()
        with suppress(AssertionError):  # the first test says what is not in place
            eventually(lambda: operators_have_acted(cluster), 60)
        yield running
        running.kill()
        clear(cluster)
    cluster.kubectl("delete", "--ignore-not-found", "-f", str(RULES))


def own_pod() -> dict[str, object]:
    """Where the chart's own gpu-feature-discovery may run."""
    spec = pod_of(one(chart_objects({"gpu": {"mode": "daemonset"}}), "DaemonSet", "gpu-feature-discovery"))
    return {key: spec[key] for key in ("affinity", "tolerations")}


def labels_of(plane: ControlPlane) -> dict[str, dict[str, str]]:
    return {
        one["metadata"]["name"]: one["metadata"]["labels"] for one in plane.request("GET", "/api/v1/nodes")["items"]
    }


def operators_act(plane: ControlPlane) -> None:
    """Other people's controllers label nodes after what they read there."""
    for name, labels in labels_of(plane).items():
        plane.request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": operators.decide(labels)}})


def operators_have_acted(plane: ControlPlane) -> bool:
    """They act again on each change: a worker's first report may be without GPUs, which take longer to read."""
    operators_act(plane)
    return placed(plane) == wanted()


def wanted() -> dict[str, list[str]]:
    return {one.name: sorted(one.nodes) for one in CONSUMERS} | {OWN: sorted(GPU_NODES | {"carmel"})}


def test_every_consumer_has_a_pod_on_each_of_its_nodes_and_on_no_other(
    cluster: ControlPlane, discovery: Discovery
) -> None:
    all_in_place(cluster)


def all_in_place(plane: ControlPlane) -> None:
    with suppress(AssertionError):
        eventually(lambda: placed(plane) == wanted())
    assert placed(plane) == wanted()


@pytest.mark.parametrize("consumer", CONSUMERS, ids=lambda one: one.name)
def test_the_labels_it_selects_by_are_on_its_nodes(
    consumer: Consumer, cluster: ControlPlane, discovery: Discovery
) -> None:
    """Each key of a selector; of alternatives, one that holds."""
    labels = labels_of(cluster)
    for node in consumer.nodes:
        assert consumer.selector.items() <= labels[node].items()
        assert not consumer.terms or any(holds(term, labels[node]) for term in consumer.terms), labels[node]


def holds(term: Term, labels: dict[str, str]) -> bool:
    """As Kubernetes' documentation says of matchExpressions; `Gt` reads integers."""
    said: dict[str, Callable[[str, tuple[str, ...]], bool]] = {
        "In": lambda key, values: labels.get(key) in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
        "Gt": lambda key, values: labels.get(key, "").isdecimal() and int(labels[key]) > int(values[0]),
    }
    return all(said[operator](key, values) for key, operator, values in term)


def test_a_deployment_lands_on_the_node_with_the_product(cluster: ControlPlane, discovery: Discovery) -> None:
    """Three replicas that ask for one; and one that asks for a product which no node has waits."""
    apply(
        cluster,
        deployment("training", {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H200"}}, replicas=3),
        deployment("waiting", {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-B200"}}),
    )
    try:
        eventually(lambda: placed(cluster).get("training") == ["h200"] * 3)
        eventually(lambda: [why_not(pod) for pod in pods_of(cluster, "waiting")] == ["Unschedulable"])
        assert placed(cluster)["waiting"] == [""]
    finally:
        remove(cluster, "training")
        remove(cluster, "waiting")


def why_not(pod: dict[str, object]) -> str:
    """The reason of its condition PodScheduled, "" if there is none."""
    conditions = pod["status"].get("conditions", ())  # type: ignore[attr-defined]
    return next((str(one["reason"]) for one in conditions if one["type"] == "PodScheduled" and "reason" in one), "")


def test_pods_stay_while_we_are_restarted(cluster: ControlPlane, discovery: Discovery) -> None:
    """Killed and stopped, both sides in any order, half of the workers away under a new master.

    No pod is deleted, made or marked for deletion; and at no moment would an operator have read anything else.
    """
    all_in_place(cluster)
    decided = {name: operators.decide(labels) for name, labels in labels_of(cluster).items()}
    keys = {name: labels.keys() for name, labels in labels_of(cluster).items()}
    pods, nodes_then = now(cluster, PODS), now(cluster, "/api/v1/nodes")

    half = sorted(discovery.workers)[::2]
    for name in half:
        discovery.workers[name].kill()
    discovery.master.kill()
    discovery.start_master()
    discovery.start_workers(*half)

    for worker in discovery.workers.values():
        worker.kill()
    assert discovery.master.stop() == 0
    for worker in discovery.workers.values():
        worker.start()
    discovery.start_master()
    eventually(lambda: discovery.master.metric("nfd_master_reports_total") >= len(discovery.workers), 60)

    assert [one["object"]["metadata"]["name"] for one in changes(cluster, PODS, pods)] == []
    for event in changes(cluster, "/api/v1/nodes", nodes_then):
        name, labels = event["object"]["metadata"]["name"], event["object"]["metadata"]["labels"]
        assert (event["type"], operators.decide(labels)) == ("MODIFIED", decided[name])
        assert labels.keys() >= keys[name]
    assert placed(cluster) == wanted()


def test_pods_end_when_a_rule_takes_the_label_away(cluster: ControlPlane, discovery: Discovery) -> None:
    """The counter-check: these controllers do end pods once a label goes. The worker is away, the rule decides."""
    version = now(cluster, PODS)
    discovery.workers["milan-nic"].kill()
    cluster.kubectl("delete", "-f", str(RULES))
    ended = {"milan-nic": {"network-operator-ofed-driver", "network-operator-rdma-device-plugin"}}
    with suppress(AssertionError):
        eventually(lambda: marked(cluster, version) == ended)
    assert marked(cluster, version) == ended


def marked(plane: ControlPlane, version: str) -> dict[str, set[str]]:
    """Node → the consumers whose pods there were told to end since that version."""
    found: dict[str, set[str]] = {}
    for event in changes(plane, PODS, version):
        pod = event["object"]
        if event["type"] == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            found.setdefault(pod["spec"]["nodeName"], set()).add(pod["metadata"]["labels"]["consumer"])
    return found
