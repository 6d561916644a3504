"""Guests on a real API server. `make vm` runs everything here; `make test` boots one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count

import pytest

from tests.controlplane.build import user_cache
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy import images
from tests.deploy.images import Images
from tests.deploy.pods import workload_of
from tests.deploy.rendering import OVERLAYS, overlay
from tests.e2e.nodes import ACCOUNT, NAMESPACE, Node
from tests.e2e.programs import Program, eventually, port_of
from tests.vm import disks
from tests.vm.disks import Disks
from tests.vm.guest import SETTINGS, Guest
from tests.vm.machine import Hardware, Machine
from tests.vm.pod import GuestPod, config_of, disk_of
from tests.vm.table import PAGE, Table, machines, steps

collect_ignore = [] if os.environ.get("NFD_VM") else ["test_matrix.py", "test_life.py"]
_numbers = count(1)
Boot = Callable[..., AbstractContextManager[Guest]]

_tables = {"machines": machines(), "steps": steps()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, table in _tables.items():
        if table.rows:
            terminalreporter.section(name)
            terminalreporter.write_line("\n".join(table.lines()))
    if config.getoption("--update-expected"):
        for table in _tables.values():
            PAGE.write_text(table.entered(PAGE.read_text()))


@pytest.fixture(scope="session")
def machine_table() -> Table:
    """What is seen of machines, which is printed when the tests are over."""
    return _tables["machines"]


@pytest.fixture(scope="session")
def step_table() -> Table:
    """What is seen of what happens to one."""
    return _tables["steps"]


@pytest.fixture(scope="session")
def store() -> Images:
    if problem := images.obstacle() or disks.obstacle():
        if os.environ.get("CI") == "true":
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    return Images(user_cache() / "nfd-images")


@pytest.fixture(scope="session")
def master(store: Images, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """With the rights, the certificates and the callers that the manifests give it."""
    control_plane.kubectl("apply", "-k", str(OVERLAYS / "default"))
    kubeconfig = control_plane.kubeconfig_for(control_plane.service_account_token(ACCOUNT, NAMESPACE))
    port, http_port = free_ports(2)
    words = (
        *(f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={kubeconfig}"),
        *("--auth=token", f"--namespace={NAMESPACE}", "--service-name=nfd-master"),
    )
    log = tmp_path_factory.mktemp("master") / "log"
    program = Program("nfd-master", words, log, http_port, {"KUBERNETES_NAMESPACE": NAMESPACE})
    program.start()
    eventually(program.ready)
    yield program
    program.kill()
    assert "Traceback" not in program.text()


@pytest.fixture(scope="session")
def boot(store: Images, master: Program, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Boot:
    """Boots a machine for a `with` block; its worker has reported when it is handed over."""
    objects = overlay("default")
    workload = workload_of(objects, "nfd-worker")

    @contextmanager
    def start(hardware: Hardware, prepare: str = "true") -> Iterator[Guest]:
        arch = Disks(hardware.flavour).arch
        disk = disk_of(store, arch)
        node = Node(control_plane, f"vm-{next(_numbers)}")
        folder = tmp_path_factory.mktemp(node.name)
        control_plane.create_node(node.name)
        settings = json.dumps(SETTINGS)
        pod = GuestPod(control_plane, objects, workload, node.name, folder / "pod", {}, settings=settings)
        try:
            seed = pod.seed(config_of(store, arch))
            with Machine(hardware, disk, folder, port_of(master), seed) as machine:
                guest = Guest(machine, node, pod, prepare)
                guest.start_worker()
                yield guest
        finally:
            control_plane.delete_node(node.name)

    return start
