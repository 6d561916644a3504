"""`nfd-gc` as a process on a real API server, with the rights that it is shipped with."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.gc.collector import KINDS, Collector, Kind, Metrics
from nfd.kube.client import connect
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program, eventually

ROOT = Path(__file__).parents[2]
NAMESPACE = "nfd-gc-tests"
FEATURES = f"/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/{NAMESPACE}/nodefeatures"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_numbers = count(1)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> ControlPlane:
    files = (ROOT / "deploy/crds/nodefeatures.yaml", ROOT / "deploy/crds/topology/noderesourcetopologies.yaml")
    names = [f"--filename={file}" for file in files]
    control_plane.kubectl("apply", *names)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
    control_plane.kubectl("create", "namespace", NAMESPACE)
    text = (ROOT / "deploy/kustomize/components/gc/rbac.yaml").read_text()
    objects = [{**one, "metadata": {**one["metadata"], "name": "nfd-gc-tests"}} for one in yaml.safe_load_all(text)]
    objects[0]["metadata"]["namespace"] = objects[2]["subjects"][0]["namespace"] = NAMESPACE
    objects[2]["roleRef"]["name"] = objects[2]["subjects"][0]["name"] = "nfd-gc-tests"
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    return control_plane


@pytest.fixture
def start(cluster: ControlPlane, tmp_path: Path) -> Iterator[Callable[..., Program]]:
    config = cluster.kubeconfig_for(cluster.service_account_token("nfd-gc-tests", NAMESPACE))
    programs: list[Program] = []

    def run(*flags: str) -> Program:
        (port,) = free_ports(1)
        words = (f"-kubeconfig={config}", f"-port={port}", *flags)
        program = Program("nfd-gc", words, tmp_path / f"gc{len(programs)}.log", port)
        programs.append(program)
        program.start()
        return program

    yield run
    for program in programs:
        program.kill()


@pytest.fixture
def name() -> str:
    return f"gc-node-{next(_numbers)}"


def add_objects(cluster: ControlPlane, node: str) -> None:
    labels = {"nfd.node.kubernetes.io/node-name": node}
    kinds = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature"}
    for suffix in ("", "-more"):
        cluster.request(
            "POST", FEATURES, {**kinds, "metadata": {"name": f"{node}{suffix}", "labels": labels}, "spec": {}}
        )
    kinds = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    cluster.request("POST", TOPOLOGIES, {**kinds, "metadata": {"name": node}, "zones": []})


def there(cluster: ControlPlane, node: str) -> set[str]:
    """What is left of a node's objects."""
    features = cluster.request("GET", FEATURES)["items"]
    topologies = cluster.request("GET", TOPOLOGIES)["items"]
    return {item["metadata"]["name"] for item in (*features, *topologies) if item["metadata"]["name"].startswith(node)}


def change(cluster: ControlPlane, path: str, body: Any) -> None:
    cluster.request("PATCH", path, body, content_type="application/merge-patch+json")


COLLECTIONS = {"NodeFeature": "nodefeatures", "NodeResourceTopology": "noderesourcetopologies"}


def logged(program: Program) -> list[Any]:
    return [json.loads(line) for line in program.log.read_text().splitlines() if line.startswith("{")]


def deleted(program: Program, kind: str) -> list[str]:
    lines = [line for line in logged(program) if line["event"] == "deleted the object of a deleted node"]
    return [line["path"] for line in lines if f"/{COLLECTIONS[kind]}/" in line["path"]]


def test_objects_of_nodes_that_are_gone_go_and_no_others(cluster: ControlPlane, start: Any, name: str) -> None:
    """By the sweep at the start, and by the event; what names no Node stays."""
    gone, alive = f"{name}-gone", f"{name}-alive"
    cluster.create_node(alive)
    add_objects(cluster, gone)
    add_objects(cluster, alive)
    stray = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": f"{name}-stray"},
        "spec": {},
    }
    cluster.request("POST", FEATURES, stray)
    program = start("-list-size=1")
    eventually(lambda: not there(cluster, gone))
    assert there(cluster, alive) == {alive, f"{alive}-more"}
    cluster.delete_node(alive)
    eventually(lambda: not there(cluster, alive))
    assert there(cluster, name) == {f"{name}-stray"}
    for kind, ours in (("NodeFeature", 4), ("NodeResourceTopology", 2)):
        assert sum(name in path for path in deleted(program, kind)) == ours
        # The cluster is one for all tests: what others left behind is deleted and counted too.
        metric = f'nfd_gc_objects_deleted_total{{kind="{kind}"}}'
        eventually(lambda kind=kind, metric=metric: program.metric(metric) == len(deleted(program, kind)))
    assert program.stop() == 0


def test_a_right_that_is_missing_is_said_and_counted(cluster: ControlPlane, start: Any, name: str) -> None:
    """It goes on: with the right back, the next sweep deletes."""
    add_objects(cluster, name)
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/nfd-gc-tests"
    rules = cluster.request("GET", role)["rules"]
    fewer = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]} for rule in rules]
    change(cluster, role, {"rules": fewer})
    try:
        program = start("-gc-interval=300ms")
        eventually(lambda: "cannot delete object" in program.log.read_text())
        assert program.metric('nfd_gc_object_delete_failures_total{kind="NodeFeature"}') > 0
        assert there(cluster, name) == {name, f"{name}-more"}
    finally:
        change(cluster, role, {"rules": rules})
    eventually(lambda: not there(cluster, name))
    assert any(line["event"] == "cannot delete object" and line["node"] == name for line in logged(program))


@pytest.mark.parametrize("flag", ["-gc-interval=0", "-gc-interval=soon", "-list-size=-1", "-port=70000", "-nothing"])
def test_a_flag_that_is_wrong_is_one_line(start: Any, flag: str) -> None:
    program = start(flag)
    assert program.wait(30) == 2
    (line,) = program.log.read_text().splitlines()
    assert line.startswith("nfd-gc: ")
    assert flag.lstrip("-").partition("=")[0] in line


async def test_a_kind_that_the_cluster_lacks_is_no_trouble(cluster: ControlPlane, name: str) -> None:
    add_objects(cluster, name)
    client = await connect(str(cluster.kubeconfig_for(cluster.service_account_token("nfd-gc-tests", NAMESPACE))))
    metrics = Metrics(kind.name for kind in KINDS)
    absent = Kind("Absent", "example.invalid/v1", "absents", namespaced=False)
    try:
        await Collector(client, metrics, 60.0, 0, (absent, *KINDS)).sweep()
    finally:
        await client.close()
    assert not there(cluster, name)
    assert metrics.failed == {kind.name: 0 for kind in KINDS}
