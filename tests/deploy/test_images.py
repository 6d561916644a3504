"""The images under the conditions of their pods: built from the Dockerfiles, started as the manifests say."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.controlplane.build import cache_root
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy import images
from tests.deploy.images import Images
from tests.deploy.pods import Pod, workload_of
from tests.deploy.rendering import OVERLAYS, overlay

MB = 1_000_000
BUDGETS = {"nfd-worker": 90 * MB, "nfd-master": 160 * MB}
"""Above the base."""
FEATURE = "feature.node.kubernetes.io/from-a-file"


@pytest.fixture(scope="module")
def store() -> Images:
    if problem := images.obstacle():
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    return Images(cache_root().with_name("nfd-images"))


@pytest.fixture(scope="module")
def roots(store: Images) -> Iterator[dict[str, Path]]:
    """The files of both images by program, and of the base."""
    with ExitStack() as stack:
        mounted = {name: stack.enter_context(store.mounted(store.build(name))) for name in BUDGETS}
        yield {**mounted, "base": stack.enter_context(store.mounted(store.base()))}


@pytest.mark.parametrize("program", BUDGETS)
def test_size(roots: dict[str, Path], program: str) -> None:
    assert images.size_of(roots[program]) - images.size_of(roots["base"]) < BUDGETS[program]


@pytest.mark.parametrize("program", BUDGETS)
def test_bill_of_materials(roots: dict[str, Path], program: str) -> None:
    bill = json.loads((roots[program] / "opt/nfd/sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert {"grpcio", "pydantic", "nfd-gfd"} <= {each["name"] for each in bill["components"]}


@pytest.mark.parametrize("program", BUDGETS)
def test_byte_code_is_compiled_in(roots: dict[str, Path], program: str) -> None:
    """Nothing can be written at run time, and compiling at each start costs 14 MiB and half the time."""
    (packages,) = (roots[program] / "opt/nfd/lib").glob("python3.*/site-packages")
    for name in ("nfd", "gfd", "grpc", "pydantic", "yaml"):
        for source in (packages / name).rglob("*.py"):
            assert list(source.parent.glob(f"__pycache__/{source.stem}.*.pyc")), source


@pytest.fixture
def pods(
    cluster: ControlPlane, store: Images, roots: dict[str, Path], node_name: str, tmp_path: Path
) -> Iterator[Callable[..., Pod]]:
    """Starts the pod of a program on a node that has one feature file; it is ready when it is handed over."""
    cluster.kubectl("apply", "-k", str(OVERLAYS / "default"))
    cluster.create_node(node_name)
    features = tmp_path / "features.d"
    features.mkdir()
    (features / "mine").write_text("from-a-file=yes\n")
    tmp_path.chmod(0o755)
    objects = overlay("default")
    with ExitStack() as stack:

        def start(program: str, ports: dict[str, int], entrypoint: tuple[str, ...] = (), uid: int | None = None) -> Pod:
            pod = Pod(
                cluster,
                objects,
                workload_of(objects, program),
                node_name,
                tmp_path / program,
                ports,
                {"features-d": features},
                uid,
            )
            pod.start(store.config(f"localhost/{program}"), roots[program], entrypoint)
            stack.callback(pod.stop)
            return pod

        yield start


def ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def test_a_node_is_labelled(cluster: ControlPlane, pods: Callable[..., Pod], node_name: str) -> None:
    """Token, certificates, RBAC and mounts as shipped; no shell, ldconfig or compiler in reach."""
    grpc, master_http, worker_http = free_ports(3)
    master = pods("nfd-master", {"--port": grpc, "--http-port": master_http})
    worker = pods("nfd-worker", {"--server": grpc, "--http-port": worker_http})

    def labelled() -> bool:
        worker.refresh()
        return FEATURE in cluster.get_node(node_name)["metadata"].get("labels", {})

    try:
        cluster.wait(lambda: ready(master_http), 30, "the master")
        cluster.wait(labelled, 30, "the node's labels")
    finally:
        print(master.text(), worker.text())
    labels = cluster.get_node(node_name)["metadata"]["labels"]
    for key in ("cpu-model.vendor_id", "kernel-version.full", "system-os_release.ID"):
        assert labels.get(f"feature.node.kubernetes.io/{key}"), f"no {key} among {sorted(labels)}"
    assert (worker.stop(), master.stop()) == (0, 0)
    for pod in (worker, master):
        assert "Traceback" not in pod.text()
    assert "kernel events cannot be heard" not in worker.text()


def test_any_user_will_do(pods: Callable[..., Pod]) -> None:
    """As OpenShift gives one: from the namespace's range, in group 0."""
    pod = pods("nfd-worker", {}, ("/opt/nfd/bin/nfd", "discover", "-o", "labels"), 1000660000)
    assert pod.wait() == 0, pod.text()
    assert FEATURE in pod.text()
