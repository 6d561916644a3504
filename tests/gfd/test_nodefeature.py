"""NodeFeature objects on a real API server."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from gfd.nodefeature import GROUP, NodeFeatureOutput
from nfd.errors import KubeError
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.proxy import Exchange, Fault, FaultProxy
from tests.faults.trouble import answer, cut, garbage
from tests.gfd.cases import Start, prepare, read_labels, run_process
from tests.gfd.machines import H100
from tests.gfd.test_agent import wait_for
from tests.nvml.asking import needs_compiler

CRD = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "crds" / "nodefeatures.yaml").read_text())
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/namespaces/default/nodefeatures"
PODS = "/api/v1/namespaces/default/pods"
NUMBERS = count(1)
LABELS = {"nvidia.com/gpu.count": "1", "nvidia.com/gpu.product": "NVIDIA-L4"}


async def no_pod(exchange: Exchange) -> web.StreamResponse:
    """A status of success, and JSON that is no object of Kubernetes."""
    return web.json_response({"error": "made up by the test"})


def status(plane: ControlPlane) -> int:
    """What a list of the objects ends with."""
    try:
        plane.request("GET", OBJECTS)
    except ApiError as error:
        return error.status
    return 200


@pytest.fixture
def nodefeatures(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the resource, which goes afterwards if this fixture made it."""
    ours = status(control_plane) != 200
    control_plane.create(CRDS, CRD)
    wait_for(lambda: status(control_plane) == 200, "the resource is served")
    yield control_plane
    if ours:
        control_plane.request("DELETE", f"{CRDS}/{CRD['metadata']['name']}")
        wait_for(lambda: status(control_plane) == 404, "the resource is gone")


def output(plane: ControlPlane, node: str, pod: str = "", kubeconfig: Path | None = None) -> NodeFeatureOutput:
    return NodeFeatureOutput(node, "default", pod, str(kubeconfig or plane.kubeconfig_for("admin")))


def get(plane: ControlPlane, node: str) -> dict[str, Any]:
    return plane.request("GET", f"{OBJECTS}/nvidia-features-for-{node}")


def test_create_update_and_leave_alone(nodefeatures: ControlPlane) -> None:
    one = output(nodefeatures, "n1")
    assert one.is_served()
    assert one.read() == {}
    assert one.write(LABELS)
    made = get(nodefeatures, "n1")
    assert made["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "n1"}
    assert made["spec"] == {"features": {"flags": {}, "attributes": {}, "instances": {}}, "labels": LABELS}
    assert not one.write(LABELS)
    assert get(nodefeatures, "n1")["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert one.write({**LABELS, "nvidia.com/gpu.state": "degraded"})
    assert one.read()["nvidia.com/gpu.state"] == "degraded"
    one.remove()
    one.remove()
    assert one.read() == {}


def make_pod(nodefeatures: ControlPlane, name: str) -> list[dict[str, Any]]:
    """A pod of a DaemonSet of that name; what owns its NodeFeature."""
    template = {"metadata": {"labels": {"app": "gfd"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"app": "gfd"}}, "template": template}
    sets = "/apis/apps/v1/namespaces/default/daemonsets"
    owner = nodefeatures.request("POST", sets, {"metadata": {"name": name}, "spec": spec})["metadata"]["uid"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": owner, "controller": True}
    nodefeatures.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": f"{name}-x", "ownerReferences": [reference]}, "spec": template["spec"]}
    uid = nodefeatures.request("POST", PODS, pod)["metadata"]["uid"]
    return [reference, {"apiVersion": "v1", "kind": "Pod", "name": f"{name}-x", "uid": uid}]


def test_the_daemon_set_owns_it(nodefeatures: ControlPlane) -> None:
    wanted = make_pod(nodefeatures, "gfd")
    assert output(nodefeatures, "n2", "gfd-x").write(LABELS)
    assert get(nodefeatures, "n2")["metadata"]["ownerReferences"] == wanted
    assert not output(nodefeatures, "n2", "gfd-x").write(LABELS)
    assert output(nodefeatures, "n2").write(LABELS), "without a pod there is no owner"
    assert "ownerReferences" not in get(nodefeatures, "n2")["metadata"]


@pytest.mark.parametrize("trouble", [answer(500), answer(403), answer(404), answer(429), cut, garbage, no_pod])
def test_a_failed_read_of_the_pod_takes_no_owner_away(nodefeatures: ControlPlane, trouble: Fault) -> None:
    """What was there stays, and the next pass tries again, with no more than one warning of a kind."""
    name = f"pod-{next(NUMBERS)}"
    wanted = make_pod(nodefeatures, name)
    with FaultProxy(nodefeatures) as proxy:
        before = output(nodefeatures, name, f"{name}-x")
        assert before.write(LABELS)
        one = output(nodefeatures, name, f"{name}-x", proxy.kubeconfig())
        with proxy.inject(trouble, method="GET", path="/pods/") as rule:
            assert not one.write(LABELS), "nothing differs"
            assert one.write({**LABELS, "nvidia.com/gpu.count": "2"})
        assert rule.hits >= 2
        assert get(nodefeatures, name)["metadata"]["ownerReferences"] == wanted


def test_an_owner_that_is_not_known_at_first_is_added_later(nodefeatures: ControlPlane) -> None:
    wanted = make_pod(nodefeatures, "late")
    with FaultProxy(nodefeatures) as proxy:
        one = output(nodefeatures, "late", "late-x", proxy.kubeconfig())
        with proxy.inject(answer(503), method="GET", path="/pods/"):
            assert one.write(LABELS)
        assert "ownerReferences" not in get(nodefeatures, "late")["metadata"]
        assert one.write(LABELS)
    assert get(nodefeatures, "late")["metadata"]["ownerReferences"] == wanted


def test_an_answer_that_is_no_node_feature_is_trouble(nodefeatures: ControlPlane) -> None:
    """Taken for an object without labels, it would take away what a new process has to hold."""
    assert output(nodefeatures, "odd").write(LABELS)
    with FaultProxy(nodefeatures) as proxy, proxy.inject(no_pod, method="GET", path="/nodefeatures/"):
        one = output(nodefeatures, "odd", kubeconfig=proxy.kubeconfig())
        with pytest.raises(KubeError, match="not a NodeFeature"):
            one.read()
    assert output(nodefeatures, "odd").read() == LABELS


def cluster_start(plane: ControlPlane, folder: Path, *flags: str, kubeconfig: Path | None = None) -> Start:
    case = {"machine": {"devices": [H100]}, "plain": True, "flags": ["--oneshot", "-o", "{OUT}", *flags]}
    start = prepare(case, folder)
    env = {"NODE_NAME": "n3", "KUBECONFIG": str(kubeconfig or plane.kubeconfig_for("admin"))}
    return Start(start.argv, {**start.environment, **env}, start.out)


@needs_compiler
def test_the_program_writes_an_object_by_default(nodefeatures: ControlPlane, tmp_path: Path) -> None:
    start = cluster_start(nodefeatures, tmp_path)
    outcome = run_process(start)
    assert outcome.code == 0, outcome.stderr
    assert get(nodefeatures, "n3")["spec"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert not start.out.exists()
    assert run_process(Start([*start.argv, "--cleanup"], start.environment, start.out)).code == 0
    with pytest.raises(ApiError):
        get(nodefeatures, "n3")


@needs_compiler
def test_without_the_resource_it_writes_the_file_and_says_so(control_plane: ControlPlane, tmp_path: Path) -> None:
    with FaultProxy(control_plane) as proxy, proxy.inject(answer(404), path=f"/apis/{GROUP}"):
        start = cluster_start(control_plane, tmp_path, kubeconfig=proxy.kubeconfig())
        outcome = run_process(start)
    assert outcome.code == 0, outcome.stderr
    assert "has no NodeFeature API" in outcome.stderr
    assert read_labels(start.out.read_text())["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"


@needs_compiler
@pytest.mark.parametrize(("flag", "word"), [("--node-name=", "NODE_NAME"), ("--namespace=", "NAMESPACE")])
def test_names_are_needed(flag: str, word: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    outcome = run_process(cluster_start(control_plane, tmp_path, flag))
    assert outcome.code == 1
    assert word in outcome.stderr


def test_a_lost_race_is_tried_again(nodefeatures: ControlPlane) -> None:
    """Two writers at once, each reading first."""
    one = output(nodefeatures, "n4")

    async def both() -> list[bool]:
        writes = (asyncio.to_thread(one.write, {**LABELS, "nvidia.com/gpu.count": str(n)}) for n in range(2))
        return await asyncio.gather(*writes)

    assert any(asyncio.run(both()))
    assert one.read()["nvidia.com/gpu.product"] == "NVIDIA-L4"
