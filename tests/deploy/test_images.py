"""The images under the conditions of their pods: built from the Dockerfiles, started as the manifests say."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy import contents, images
from tests.deploy.images import Images
from tests.deploy.pods import Pod, workload_of
from tests.deploy.rendering import OVERLAYS, one, overlay
from tests.gfd.machines import H100
from tests.nvml.library import build

MB = 1_000_000
BUDGETS = {"nfd-worker": 90 * MB, "nfd-master": 160 * MB, "nfd-gfd": 160 * MB}
"""Above the base."""
IMAGES = {"gpu-feature-discovery": "nfd-gfd"}
"""Where the image is not called as the workload."""
FEATURE = "feature.node.kubernetes.io/from-a-file"


@pytest.fixture(scope="module")
def roots(store: Images) -> Iterator[dict[str, Path]]:
    """The files of each image, and of the base."""
    with ExitStack() as stack:
        mounted = {name: stack.enter_context(store.mounted(store.build(name))) for name in BUDGETS}
        yield {**mounted, "base": stack.enter_context(store.mounted(store.base()))}


@pytest.mark.parametrize("program", BUDGETS)
def test_size(roots: dict[str, Path], program: str) -> None:
    assert images.size_of(roots[program]) - images.size_of(roots["base"]) < BUDGETS[program]


@pytest.mark.parametrize("program", BUDGETS)
def test_bill_of_materials(roots: dict[str, Path], program: str) -> None:
    """It was validated when it was written: `--validate` in the Dockerfile makes the build fail otherwise."""
    assert contents.bill(roots[program]) == contents.distributions(roots[program])
    assert {"grpcio", "pydantic", "nfd-gfd"} <= contents.distributions(roots[program]).keys()


@pytest.mark.parametrize("program", BUDGETS)
def test_byte_code_is_compiled_in(roots: dict[str, Path], program: str) -> None:
    """Nothing can be written at run time, and compiling at each start costs 14 MiB and half the time."""
    assert contents.uncompiled(roots[program]) == []
    assert contents.uncompiled_of_python(roots[program]) == []


Start = Callable[..., Pod]


@pytest.fixture
def pods(
    cluster: ControlPlane, store: Images, roots: dict[str, Path], node_name: str, tmp_path: Path
) -> Iterator[Start]:
    """Starts a workload's pod, of an image, on a node that has one feature file."""
    cluster.kubectl("apply", "-k", str(OVERLAYS / "default"))
    cluster.create_node(node_name)
    features = tmp_path / "features.d"
    features.mkdir()
    (features / "mine").write_text("from-a-file=yes\n")
    tmp_path.chmod(0o755)
    objects = [*overlay("default"), one(overlay("gpu"), "DaemonSet", "gpu-feature-discovery")]
    with ExitStack() as stack:

        def start(workload: str, ports: dict[str, int], entrypoint: tuple[str, ...] = (), **fields: Any) -> Pod:
            image = IMAGES.get(workload, workload)
            pod = Pod(
                cluster,
                objects,
                workload_of(objects, workload),
                node_name,
                tmp_path / workload,
                ports,
                {"features-d": features},
                **fields,
            )
            pod.start(store.config(f"localhost/{image}"), roots[image], entrypoint)
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


def test_a_node_is_labelled(cluster: ControlPlane, pods: Start, node_name: str) -> None:
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
    assert "kernel events are not available" not in worker.text()


def test_any_user_will_do(pods: Start) -> None:
    """As OpenShift gives one: from the namespace's range, in group 0."""
    pod = pods("nfd-worker", {}, ("/opt/nfd/bin/nfd", "discover", "-o", "labels"), uid=1000660000)
    assert pod.wait() == 0, pod.text()
    assert FEATURE in pod.text()


def test_gpus_are_written_by_their_own_pod(cluster: ControlPlane, pods: Start, tmp_path: Path) -> None:
    """Root without a capability, and a driver that the container runtime puts there."""
    driver = build({"devices": [H100]}, tmp_path / "driver")
    pod = pods("gpu-feature-discovery", {}, driver=driver)
    file = tmp_path / "features.d/gfd"
    try:
        cluster.wait(file.exists, 30, "the feature file")
        found = dict(line.split("=", 1) for line in file.read_text().splitlines())
        assert found["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert file.stat().st_mode & 0o777 == 0o644
    finally:
        print(pod.text())
    assert pod.stop() == 0
    assert file.exists(), "labels stay while the pod is away"


def test_the_confinement_is_in_force(pods: Start) -> None:
    """What the kernel says of a process in the worker's pod (proc_pid_status(5)): mode 2 is a seccomp filter."""
    pod = pods("nfd-worker", {}, ("/opt/nfd/bin/python", "-c", "print(open('/proc/self/status').read())"))
    assert pod.wait() == 0, pod.text()
    found = dict(line.split(":\t", 1) for line in pod.text().splitlines() if ":\t" in line)
    assert (found["Seccomp"], found["NoNewPrivs"], int(found["CapBnd"], 16)) == ("2", "1", 0)
    assert set(found["Uid"].split()) == {"65534"}
