"""A single master that is lost with all it knew, with the rights of the manifests: the next one asks its worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nfd.report_request import ENTRY, parse
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.process import free_ports
from tests.deploy.rendering import chart_objects, container_of, one, overlay
from tests.deploy.settings import SETTINGS
from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine
from tests.e2e.nodes import F, Node
from tests.e2e.programs import Program, eventually, leads, reports
from tests.e2e.release import CHART, Release, grpc_port

WITHOUT_AUTH = {**CHART, "master": {**CHART["master"], **SETTINGS["no-auth"]["master"]}}


@pytest.fixture(params=["manifests", "chart", "chart without authentication"])
def release(request: pytest.FixtureRequest, control_plane: ControlPlane, definitions: None, tmp_path: Path) -> Release:
    charts = {"chart": CHART, "chart without authentication": WITHOUT_AUTH}
    objects = [*overlay("default")] if request.param == "manifests" else chart_objects(charts[request.param])
    made = Release(control_plane, objects, tmp_path)
    made.apply()
    return made


@pytest.fixture
def started() -> Iterator[Callable[[Program], Program]]:
    made: list[Program] = []

    def start(program: Program) -> Program:
        made.append(program)
        program.start()
        return program

    yield start
    for program in made:
        program.kill()
        assert "Traceback" not in program.text()


def config_map(release: Release) -> str:
    name = one(release.objects, "Secret")["metadata"]["name"]
    return f"/api/v1/namespaces/{release.namespace}/configmaps/{name}"


def worker_of(release: Release, node: Node, port: int, *more: str) -> Program:
    """With a token as far as the release has one."""
    args = container_of(one(release.objects, "DaemonSet"))["args"]
    assert f"--epoch-file=/etc/nfd-master-ca/{ENTRY}" in args
    if any(word.startswith("--token-file") for word in args):
        return release.worker(node, port, *more)
    (http_port,) = free_ports(1)
    words = (*args, f"--server=localhost:{port}", "--config=", f"--http-port={http_port}", *more)
    return Program("nfd-worker", words, release.folder / "worker.log", http_port, {"NODE_NAME": node.name})


def test_the_next_master_asks_and_the_worker_reports_early(
    release: Release,
    machines: Callable[[str], Machine],
    nodes: MakeNode,
    started: Callable[[Program], Program],
    control_plane: ControlPlane,
) -> None:
    """Its timer and its heartbeat are a minute and more away. No label changes, and no right is missing."""
    machine, mount = machines("raspberry-pi-4"), release.folder / "mount"
    mount.mkdir()
    node, first = nodes(machine), started(release.master(0))
    eventually(lambda: first.ready() and leads(first))
    worker = started(
        worker_of(release, node, grpc_port(first), f"--host-root={machine.root}", f"--epoch-file={mount / ENTRY}")
    )
    eventually(lambda: node.labels.get(F + "system-os_release.ID") and reports(worker) == 1)
    labels, version = node.labels, node.version
    first.kill()
    (release.folder / "reports-0").unlink(missing_ok=True)
    second = started(Program(first.name, first.flags, release.folder / "second.log", first.http_port, first.variables))
    found = eventually(
        lambda: parse((control_plane.request("GET", config_map(release)).get("data") or {}).get(ENTRY, ""))
    )
    assert found.spread == 1
    eventually(lambda: second.metric("nfd_master_report_requests_total") == 1)
    assert second.metric("nfd_master_reports_known") == 0
    (mount / ENTRY).write_text(str(found))  # as the kubelet does
    eventually(lambda: second.metric("nfd_master_reports_known") == 1, 10)
    eventually(lambda: worker.metric("nfd_worker_early_reports_total") == 1)  # counted when it is answered
    assert (node.labels, node.states(version)) == (labels, [])
    assert release.beyond(release.applied) == {}
    assert second.said("workers are asked to report")[0]["nodes"] == 1
