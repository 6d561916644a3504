"""A task of the master that fails unforeseen: it is named, counted and starts again, and everything else goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd import failures, tasks
from nfd.failures import COUNTS
from nfd.kube.connect import connect
from nfd.kube.lease import Lease, Timing
from nfd.master.authority import Timing as Rotation
from nfd.master.certificates import Certificates
from nfd.master.leadership import Phase
from nfd.master.reconcile import Settings
from nfd.master.service import Options, Service
from nfd.store.base import Node, Patch
from nfd.store.file import FileStore
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import NAMESPACE
from tests.faults.proxy import FaultProxy
from tests.master.conftest import BOOT, Worker, send
from tests.master.places import PROOF, Folder, labels_of, until

F = "feature.node.kubernetes.io/"
ODD = [RecursionError, MemoryError, KeyError, OSError]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BACKOFF", (0.05, 0.1))
    failures._told.clear()


class Clock:
    """It goes right, but for one task, in which it fails `times` times."""

    def __init__(self, task: str, kind: type[Exception], right: Callable[[], float], times: int = 3) -> None:
        self.task, self.kind, self.right, self.left = task, kind, right, times
        self.before = COUNTS[task]

    def __call__(self) -> float:
        current = asyncio.current_task()
        if self.left and current is not None and current.get_name() == self.task:
            self.left -= 1
            raise self.kind("made by the test")
        return self.right()

    async def over(self) -> None:
        """The task has failed as often as it was to, and is counted."""
        await until(lambda: COUNTS[self.task] == self.before + 3)


def named(caplog: pytest.LogCaptureFixture, task: str) -> bool:
    """Whether the log tells of it, with a traceback."""
    lines = [one for one in caplog.records if getattr(one, "fields", {}).get("task") == task]
    return any(one.exc_info for one in lines)


@pytest.mark.parametrize("kind", ODD)
async def test_chores(kind: type[Exception], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Reports are taken meanwhile, and what is due by time comes after."""
    place, clock = Folder(tmp_path), Clock("chores", kind, time.monotonic)
    place.create("n1", {}, {}, BOOT)
    options = Options("127.0.0.1", 0, 0, resync=0.2, tick=0.05, now=clock, settings=Settings(proof=PROOF))
    service = Service(FileStore(tmp_path), options)
    await service.start()
    try:
        await send(service, Worker("n1").report({F + "cpu-a": "1"}))
        assert labels_of(place, "n1") == {F + "cpu-a": "1"}
        await clock.over()
        passes = service.metrics["node_update_requests"]
        await until(lambda: service.metrics["node_update_requests"] >= passes + 3)
    finally:
        await service.stop()
    assert named(caplog, "chores")


@pytest.mark.parametrize("kind", ODD)
async def test_the_lease(
    kind: type[Exception], proxy: FaultProxy, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    """It is renewed again long before it is over: leadership does not change hands."""
    name, told = f"failing-{kind.__name__.lower()}", list[bool]()
    clock = Clock("lease", kind, time.monotonic, times=0)
    lease = Lease(await connect(str(proxy.kubeconfig())), NAMESPACE, name, Timing(retry=0.1), clock)
    await lease.start("a/b:1/c", lambda: told.append(lease.leading))
    await until(lambda: told == [True])
    clock.left = 3
    await clock.over()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{name}"
    renewed = control_plane.request("GET", path)["spec"]["renewTime"]
    await until(lambda: control_plane.request("GET", path)["spec"]["renewTime"] != renewed)
    assert told == [True]
    await lease.stop(release=True)
    assert control_plane.request("GET", path)["spec"]["holderIdentity"] == ""
    control_plane.request("DELETE", path)
    assert named(caplog, "lease")


@pytest.mark.parametrize("kind", ODD)
async def test_certificates(
    kind: type[Exception], proxy: FaultProxy, control_plane: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    """What there is stays in use, and is renewed after."""
    name, start = f"failing-{kind.__name__.lower()}", time.time()
    inside = f"/api/v1/namespaces/{NAMESPACE}"
    for resource in ("secrets", "configmaps"):
        control_plane.create(f"{inside}/{resource}", {"metadata": {"name": name}})
    later = [0.0]
    clock = Clock("certificates", kind, lambda: start + later[0], times=0)
    rotation = Rotation(interval=0.1)
    client = await connect(str(proxy.kubeconfig()))
    certificates = Certificates(client, NAMESPACE, name, ("localhost",), rotation, clock)
    await certificates.start()
    first = certificates.read().cert
    later[0] = rotation.leaf * 0.6
    clock.left = 3
    await clock.over()
    await until(lambda: certificates.read().cert != first)
    await certificates.stop()
    await client.close()
    assert named(caplog, "certificates")


class Trips(FileStore):
    """A store that fails at one node."""

    def __init__(self, folder: Path, node: str, kind: type[Exception]) -> None:
        super().__init__(folder)
        self.node, self.kind = node, kind

    async def patch(self, name: str, patch: Patch) -> Node:
        if name == self.node:
            raise self.kind("made by the test")
        return await super().patch(name, patch)


@pytest.mark.parametrize("kind", ODD)
async def test_a_node(kind: type[Exception], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The others are written; the one comes again, and its worker is told to."""
    place = Folder(tmp_path)
    for name in ("odd", "other"):
        place.create(name, {}, {}, BOOT)
    service = Service(
        Trips(tmp_path, "odd", kind), Options("127.0.0.1", 0, 0, parallelism=1, settings=Settings(proof=PROOF))
    )
    await service.start()
    try:
        asking = asyncio.create_task(send(service, Worker("odd").report({F + "cpu-a": "1"})))
        before = COUNTS["node pass"]
        await until(lambda: COUNTS["node pass"] >= before + 2)
        await send(service, Worker("other").report({F + "cpu-a": "1"}))
        assert labels_of(place, "other") == {F + "cpu-a": "1"}
        service._store.node = ""  # type: ignore[attr-defined]
        await until(lambda: labels_of(place, "odd") == {F + "cpu-a": "1"})
        await asking
        assert service.leadership.phase is Phase.LEADING
    finally:
        await service.stop()
    assert named(caplog, "node pass")
