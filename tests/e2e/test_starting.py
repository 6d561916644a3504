"""A master that cannot start says so in one line and ends, so that whoever runs it sees it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.e2e.programs import Program


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens, on IPv4."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("flag", "further", "reason"),
    [
        ("-port", (), "cannot listen on localhost:{port}: the port is in use"),
        ("-port", ("--insecure",), "cannot listen on [::]:{port}: the port is in use"),
        ("-http-port", (), "HTTP port {port}: "),
    ],
)
def test_a_port_that_is_in_use(flag: str, further: tuple[str, ...], reason: str, taken: int, tmp_path: Path) -> None:
    """Also where another address of the same name would be free: workers might come to the other one."""
    ports = dict(zip(("-port", "-http-port"), free_ports(2), strict=True)) | {flag: taken}
    words = (f"-node-store=file:{tmp_path}", "-config=", *(f"{name}={port}" for name, port in ports.items()), *further)
    master = Program("nfd-master", words, tmp_path / "log")
    master.start()
    assert master.wait() == 1
    lines = [line for line in master.text().splitlines() if '"level": "info"' not in line]
    assert len(lines) == 1, lines
    said = json.loads(lines[0])
    assert (said["level"], said["event"]) == ("error", "stopping")
    assert said["error"].startswith(reason.format(port=taken))


@pytest.fixture
def lonely(control_plane: ControlPlane, kubeconfig: Path) -> Iterator[Path]:
    """The kubeconfig of an account with the master's ClusterRole, and no Role besides."""
    token = control_plane.service_account_token("lonely", "no-lease")
    account = ("--clusterrole=nfd-master", "--serviceaccount=no-lease:lonely")
    control_plane.kubectl("create", "clusterrolebinding", "lonely", *account)
    yield control_plane.kubeconfig_for(token)
    control_plane.kubectl("delete", "clusterrolebinding", "lonely")


def test_no_right_to_the_lease(lonely: Path, tmp_path: Path) -> None:
    """The flag is set and the Role is not: after ten seconds of trying the process ends and names the right."""
    port, http_port = free_ports(2)
    words = (f"-port={port}", f"-http-port={http_port}", "-config=", f"-kubeconfig={lonely}")
    words = (*words, "-enable-leader-election", "--namespace=no-lease")
    master = Program("nfd-master", words, tmp_path / "log", http_port)
    master.start()
    assert master.wait(40) == 1
    (said,) = master.said("stopping")
    for word in ("403", "leases", "no-lease", "nfd-master.nfd.kubernetes.io"):
        assert word in said["error"]
    assert len(master.said("cannot renew lease; trying again")) == 1
    assert "Traceback" not in master.text()
