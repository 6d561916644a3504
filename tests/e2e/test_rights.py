"""What manifests and chart allow is enough, and none of it is idle, by the audit log of all that we can be made to do.

Masters, worker and prune job run with the arguments and service accounts of the rendered objects. The right of
`components/pod-lookup` is for clusters before Kubernetes 1.30 and stays out.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.deploy.rendering import chart_objects, one, overlay, pod_of
from tests.e2e.conftest import MakeNode
from tests.e2e.machines import Machine
from tests.e2e.nodes import OWNED, F, Node
from tests.e2e.programs import Program, eventually
from tests.e2e.release import API, ASKED, CHART, HOLDS, Release, custom_objects, grpc_port
from tests.e2e.rights import Right, granted, user

_numbers = count(1)


@pytest.fixture(params=["manifests", "chart"])
def release(
    request: pytest.FixtureRequest, control_plane: ControlPlane, definitions: None, tmp_path: Path
) -> Iterator[Release]:
    objects = chart_objects(CHART) if request.param == "chart" else [*overlay("ha"), *overlay("prune")]
    made = Release(control_plane, objects, tmp_path)
    made.apply()
    yield made
    stream = "".join(json.dumps(each) for each in custom_objects(made.namespace, ""))
    control_plane.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=stream)


@pytest.fixture
def masters(release: Release) -> Iterator[list[Program]]:
    """The leader, and a follower; both ready."""
    made = [release.master(number) for number in range(2)]
    for one_of_them in made:
        one_of_them.start()
        eventually(one_of_them.ready)
    eventually(lambda: made[0].metric("nfd_master_leading"))
    yield made
    for one_of_them in made:
        one_of_them.kill()
        assert "Traceback" not in one_of_them.text()


def test_every_right_is_used_and_none_is_missing(
    release: Release, masters: list[Program], machines: Callable[[str], Machine], nodes: MakeNode
) -> None:
    """Labels patch the Node, an extended resource its status, and after three conflicts the Node is asked for."""
    plane, machine, mark = release.plane, machines("raspberry-pi-4"), release.applied
    node, other = nodes(machine), nodes(labels={F + "cpu-a": "1"}, annotations={OWNED: "cpu-a"})
    made = "".join(json.dumps(each) for each in custom_objects(release.namespace, node.name))
    plane.kubectl("apply", "-f", "-", stdin=made)
    worker = release.worker(node, grpc_port(masters[0]), f"--replay={machine.root}")
    worker.start()
    try:
        eventually(lambda: node.labels.get(F + "ruled") == "yes")
        assert node.object()["status"]["capacity"]["vendor.io/n"] == "4"
        who = user(release.namespace, str(pod_of(one(release.objects, "Deployment"))["serviceAccountName"]))
        asked_for = Right("", "", "nodes", "get")
        with changing(plane, node), changing(plane, node):
            eventually(lambda: ruled_anew(plane) and asked_for in release.used(mark)[who])
        rest = granted(release.objects)[who]
        eventually(lambda: rest <= release.used(mark)[who])
    finally:
        worker.kill()
    assert [program.stop() for program in masters] == [0, 0]
    release.prune()
    assert not [key for key in (*node.labels, *other.labels) if key.startswith(F)]
    assert release.idle(mark) == {}
    assert release.beyond(mark) == {}


def ruled_anew(plane: ControlPlane) -> bool:
    """The rule asks for another value, and so the Node is to be written."""
    labels = {"ruled": "yes", "number": str(next(_numbers))}
    rules = [{"name": "r", **ASKED, "labels": labels, "matchFeatures": HOLDS}]
    plane.request("PATCH", f"/apis/{API}/nodefeaturerules/e2e-rights", {"spec": {"rules": rules}})
    return True


@contextmanager
def changing(plane: ControlPlane, node: Node) -> Iterator[None]:
    """Somebody else writes to the Node without pause: hundreds of versions a second."""
    over = threading.Event()

    def write() -> None:
        trust = ssl.create_default_context(cafile=str(plane.ca_file))
        link = http.client.HTTPSConnection("127.0.0.1", plane.ports.api, context=trust)
        headers = {"Authorization": f"Bearer {plane.token()}", "Content-Type": "application/merge-patch+json"}
        number = 0
        while not over.is_set():
            number += 1
            body = json.dumps({"metadata": {"annotations": {"somebody": str(number)}}})
            link.request("PATCH", f"/api/v1/nodes/{node.name}", body, headers)
            link.getresponse().read()
        link.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
