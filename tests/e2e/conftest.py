"""Masters and workers as processes on a real API server; the masters with the rights of deploy/kustomize/base alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.machines import Machine
from tests.e2e.nodes import ACCOUNT, NAMESPACE, Node
from tests.e2e.programs import Program, eventually, leads, port_of, reports

BASE = Path(__file__).parents[2] / "deploy/kustomize/base"
LEASE = BASE / "lease.yaml"
TIMES = "{leaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 300ms}}"
_numbers = count(1)

MakeMaster = Callable[..., Program]
MakeNode = Callable[..., Node]
StartWorker = Callable[..., Program]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What looks back at everything that was asked of the API server comes last."""
    items.sort(key=lambda item: item.path.name == "test_session_rights.py")


@pytest.fixture(scope="session")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """That of the master's service account, which may do what the shipped roles say and no more."""
    control_plane.kubectl("apply", "-f", str(BASE / "namespace.yaml"))
    for name in ("service-accounts.yaml", "certificates.yaml"):
        control_plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / name))
    control_plane.kubectl("apply", "-f", str(BASE / "rbac.yaml"))
    return control_plane.kubeconfig_for(control_plane.service_account_token(ACCOUNT, NAMESPACE))


@pytest.fixture(scope="module")
def definitions(control_plane: ControlPlane) -> None:
    """The custom resources as they are shipped; they stay."""
    files = [f"--filename={file}" for file in sorted((BASE.parents[1] / "crds").glob("nodefeature*.yaml"))]
    control_plane.kubectl("apply", *files)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)


@pytest.fixture(scope="module")
def masters(kubeconfig: Path, definitions: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeMaster]:
    """Starts a master with further flags, ready unless `wait` is false."""
    made: list[Program] = []

    def make(*flags: str, wait: bool = True) -> Program:
        port, http_port = free_ports(2)
        log = tmp_path_factory.mktemp("master") / "log"
        words = (f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={kubeconfig}", *flags)
        made.append(Program("nfd-master", words, log, http_port, {"KUBERNETES_NAMESPACE": NAMESPACE}))
        made[-1].start()
        if wait:
            eventually(made[-1].ready)
        return made[-1]

    yield make
    for master in made:
        master.kill()
        assert "Traceback" not in master.text()


@pytest.fixture(scope="module")
def master(masters: MakeMaster) -> Program:
    """The one that the tests of a module share."""
    return masters()


@pytest.fixture
def replicas(kubeconfig: Path, tmp_path: Path, control_plane: ControlPlane) -> Iterator[list[Program]]:
    """The leader, and a follower; both ready."""
    control_plane.kubectl("apply", "-n", NAMESPACE, "-f", str(LEASE))
    made: list[Program] = []
    for number in range(2):
        port, http_port = free_ports(2)
        words = (f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={kubeconfig}")
        words = (*words, "-enable-leader-election", f"-options={TIMES}")
        variables = {"KUBERNETES_NAMESPACE": NAMESPACE, "POD_NAME": f"master-{number}", "POD_IP": "127.0.0.1"}
        made.append(Program("nfd-master", words, tmp_path / f"master-{number}.log", http_port, variables))
        made[-1].start()
        eventually(made[-1].ready)
        eventually(lambda: sum(leads(one) for one in made) == 1)
    yield made
    for one in made:
        one.kill()
        assert "Traceback" not in one.text()


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[MakeNode]:
    """Makes Nodes with names of their own, as the kubelet of a machine would."""
    made: list[Node] = []

    def make(machine: Machine | None = None, **fields: dict[str, str]) -> Node:
        node = Node(control_plane, f"e2e-{next(_numbers)}")
        control_plane.create_node(node.name, boot_id=machine.boot_id if machine else "boot-1", **fields)
        made.append(node)
        return node

    yield make
    for node in made:
        with suppress(ApiError):
            control_plane.delete_node(node.name)


@pytest.fixture
def machines(tmp_path: Path) -> Callable[[str], Machine]:
    """Makes a copy of a recording."""
    return lambda recording: Machine.like(recording, tmp_path / f"machine-{next(_numbers)}")


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[StartWorker]:
    """Starts a worker for a Node; it has reported, to the master or to port `to`, when it is handed over."""
    made: list[Program] = []

    def start(node: Node, master: Program, *flags: str, to: int = 0, **variables: str) -> Program:
        (http_port,) = free_ports(1)
        server = f"localhost:{to or port_of(master)}"
        words = (f"--server={server}", f"--http-port={http_port}", "--config=", *flags)
        log = tmp_path / f"worker-{next(_numbers)}.log"
        made.append(Program("nfd-worker", words, log, http_port, {"NODE_NAME": node.name, **variables}))
        made[-1].start()
        eventually(lambda: reports(made[-1]))
        return made[-1]

    yield start
    for worker in made:
        worker.kill()
        assert "Traceback" not in worker.text()
