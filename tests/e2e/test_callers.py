"""Worker and master as the manifests start them: tokens, and certificates of the master's making."""

from __future__ import annotations

import base64
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.e2e.conftest import BASE, MakeMaster, MakeNode, StartWorker
from tests.e2e.nodes import NAMESPACE, F, Node
from tests.e2e.programs import Program, eventually, port_of

INSIDE = f"/api/v1/namespaces/{NAMESPACE}"


class Mounts:
    """What a kubelet mounts into a worker's pod: the bundle's ConfigMap, and the pod's own token."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.ca = folder / "ca.crt"
        self.token = folder / "token"

    def fill(self, node: Node, audience: str = "nfd-master") -> None:
        found: dict[str, Any] = self.plane.request("GET", f"{INSIDE}/configmaps/nfd-master-ca")
        self.ca.write_text(found["data"]["ca.crt"])
        self.token.write_text(
            self.plane.service_account_token("nfd-worker", NAMESPACE, audience=audience, node=node.name)
        )

    @property
    def flags(self) -> tuple[str, ...]:
        return f"--server-ca-file={self.ca}", f"--token-file={self.token}"


@pytest.fixture
def secure(control_plane: ControlPlane, masters: MakeMaster) -> Program:
    """A master with the shipped flags and rights; Secret and ConfigMap are as shipped, empty."""
    for name in ("callers.yaml", "certificates.yaml"):
        control_plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / name))
    return masters("--auth=token", f"--namespace={NAMESPACE}", "--service-name=localhost")


@pytest.fixture
def mounts(control_plane: ControlPlane, tmp_path: Path) -> Mounts:
    return Mounts(control_plane, tmp_path)


def test_worker_of_the_node_is_taken_and_another_is_not(
    secure: Program, nodes: MakeNode, workers: StartWorker, mounts: Mounts, tmp_path: Path
) -> None:
    ours, theirs = nodes(), nodes()
    mounts.fill(ours)
    workers(ours, secure, *mounts.flags)
    eventually(lambda: ours.labels.get(F + "kernel-version.full"))
    mark = theirs.plane.mark()
    liar = Program("nfd-worker", worker_flags(secure, mounts), tmp_path / "liar.log", 0, {"NODE_NAME": theirs.name})
    liar.start()
    assert liar.wait(60) == 1
    (said,) = liar.said("report not accepted; trying again")
    assert "PERMISSION_DENIED" in said["error"]
    (logged,) = secure.said("report rejected")
    assert logged["node"] == theirs.name
    assert ours.name in logged["error"]
    assert theirs.writes(mark) == []


def worker_flags(master: Program, mounts: Mounts) -> tuple[str, ...]:
    return (f"--server=localhost:{port_of(master)}", "--http-port=0", "--config=", "--oneshot", *mounts.flags)


def test_applying_the_manifests_again_leaves_the_authority(secure: Program, control_plane: ControlPlane) -> None:
    before = control_plane.request("GET", f"{INSIDE}/secrets/nfd-master-ca")["data"]
    control_plane.kubectl("apply", "-n", NAMESPACE, "-f", str(BASE / "certificates.yaml"))
    assert control_plane.request("GET", f"{INSIDE}/secrets/nfd-master-ca")["data"] == before
    assert any(base64.b64decode(value).startswith(b"-----BEGIN PRIVATE KEY") for value in before.values())


def test_plain_text_is_heard_on_loopback_alone(masters: MakeMaster) -> None:
    """Without a word about security there is none, and so nobody else can come; HTTP is for the kubelet's probes."""
    master = masters()
    assert listening(port_of(master)) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert listening(master.http_port) & {"0.0.0.0", "::"}


def listening(port: int) -> set[str]:
    """Addresses on which somebody listens on that TCP port. Reads: /proc/net/tcp, tcp6 (proc(5))."""
    found = set()
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, _, number = local.partition(":")
            if state == "0A" and int(number, 16) == port:
                words = [bytes.fromhex(address[n : n + 8])[::-1] for n in range(0, len(address), 8)]
                found.add(socket.inet_ntop(family, b"".join(words)))
    return found


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--auth=mtls",), "--auth=mtls needs"),
        (("--auth=sometimes",), "is not one of token, mtls, none"),
        (("--auth=token", "--node-store=file:x"), "needs an API server"),
    ],
)
def test_flags_that_cannot_be(flags: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    master = Program("nfd-master", ("-config=", *flags), tmp_path / "log")
    master.start()
    assert master.wait() == 2
    assert reason in master.text()
