"""The master's own authority: what Secret and ConfigMap hold, and that rotation breaks nobody."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from nfd.kube.client import KubeClient, connect
from nfd.kube.server_time import ServerTime
from nfd.master.security.authority import Authority, Lifetimes, read_authorities
from nfd.master.security.certificates import BUNDLE, Certificates
from nfd.report import Reply, Report
from nfd.rpc.caller_types import Peer
from nfd.rpc.client import Reporter
from nfd.rpc.server import LabelerServer
from nfd.rpc.tls import TlsFiles
from tests.controlplane.cluster import ControlPlane
from tests.master.places import until

TIMING = Lifetimes()
_numbers = count(1)


@dataclass
class Objects:
    """A Secret and a ConfigMap as shipped, empty, in a namespace of their own."""

    plane: ControlPlane
    namespace: str

    def path(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}/nfd-master-ca"

    def create(self) -> None:
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for kind in ("secrets", "configmaps"):
            self.plane.create(self.path(kind).rpartition("/")[0], {"metadata": {"name": "nfd-master-ca"}})

    def bundle(self) -> str:
        found: dict[str, Any] = self.plane.request("GET", self.path("configmaps"))
        return str((found.get("data") or {}).get(BUNDLE, ""))

    def authorities(self) -> tuple[Authority, ...]:
        data = self.plane.request("GET", self.path("secrets")).get("data") or {}
        return read_authorities({key: base64.b64decode(value) for key, value in data.items()})


@pytest.fixture
def objects(control_plane: ControlPlane) -> Objects:
    found = Objects(control_plane, f"certificates-{next(_numbers)}")
    found.create()
    return found


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.kubeconfig))
    yield client
    await client.close()


Make = Callable[..., Certificates]


@pytest.fixture
async def make(client: KubeClient, objects: Objects) -> AsyncIterator[Make]:
    made: list[Certificates] = []

    def make(timing: Lifetimes = TIMING, now: Callable[[], float] = time.time) -> Certificates:
        made.append(Certificates(client, objects.namespace, "nfd-master-ca", ("localhost",), timing, now))
        return made[-1]

    yield make
    for one in made:
        await one.stop()


async def test_replicas_that_start_together_share_one_authority(objects: Objects, make: Make) -> None:
    replicas = [make() for _ in range(5)]
    await asyncio.gather(*(one.start() for one in replicas))
    (found,) = objects.authorities()
    assert objects.bundle().encode() == found.certificate
    pems = [one.read() for one in replicas]
    assert len({pem.key for pem in pems}) == 5
    root = x509.load_pem_x509_certificate(found.certificate)
    for pem in pems:
        x509.load_pem_x509_certificate(pem.cert or b"").verify_directly_issued_by(root)


async def test_settled_objects_are_only_read(objects: Objects, make: Make) -> None:
    await make().start()
    mark = objects.plane.mark()
    for _ in range(3):
        await make().advance()
    verbs = {event.verb for event in objects.plane.audit(mark) if event.resource in ("secrets", "configmaps")}
    assert {"get"} <= verbs <= {"get", "list", "watch"}


async def test_rounds_ask_for_nothing_while_watches_tell(objects: Objects, make: Make) -> None:
    """And a Secret that somebody empties is seen all the same."""
    certificates = make(replace(TIMING, interval=0.1))
    await certificates.start()
    await until(lambda: certificates._secret.connected and certificates._config_map.connected)
    (old,), mark = objects.authorities(), objects.plane.mark()
    await asyncio.sleep(1)
    about = [event for event in objects.plane.audit(mark) if event.namespace == objects.namespace]
    assert [event.verb for event in about if event.verb != "watch"] == []
    objects.plane.request("PATCH", objects.path("secrets"), {"data": None})
    await until(lambda: old not in objects.authorities() != ())
    await until(lambda: objects.bundle().encode() == objects.authorities()[0].certificate)


async def test_without_the_right_to_watch_each_round_asks(objects: Objects, control_plane: ControlPlane) -> None:
    """As with the Role of an older manifest."""
    token = control_plane.service_account_token("asks", objects.namespace)
    rule = ("--verb=get,update", "--resource=secrets,configmaps", "--resource-name=nfd-master-ca")
    control_plane.kubectl("-n", objects.namespace, "create", "role", "asks", *rule)
    account = ("--role=asks", f"--serviceaccount={objects.namespace}:asks")
    control_plane.kubectl("-n", objects.namespace, "create", "rolebinding", "asks", *account)
    client = await connect(str(control_plane.kubeconfig_for(token)))
    timing = replace(TIMING, interval=0.1)
    certificates = Certificates(client, objects.namespace, "nfd-master-ca", ("localhost",), timing)
    try:
        await certificates.start()
        (old,) = objects.authorities()
        objects.plane.request("PATCH", objects.path("secrets"), {"data": None})
        await until(lambda: old not in objects.authorities() != ())
    finally:
        await certificates.stop()
        await client.close()


async def test_emptied_secret_makes_a_new_authority_at_once(objects: Objects, make: Make) -> None:
    """The way out when a key has leaked."""
    certificates = make()
    await certificates.start()
    (old,) = objects.authorities()
    objects.plane.request("PATCH", objects.path("secrets"), {"data": None})
    signer = await certificates.advance()
    assert objects.authorities() == (signer,)
    assert signer.name != old.name
    assert objects.bundle().encode() == signer.certificate


@pytest.mark.parametrize("days", [400, -400])
async def test_a_master_whose_clock_is_wrong_replaces_no_authority(
    days: int, objects: Objects, make: Make, control_plane: ControlPlane
) -> None:
    """And what it makes is valid now, the first authority of the cluster as well as its certificate."""
    wrong = await connect(str(control_plane.kubeconfig))
    wrong.server_time = ServerTime(lambda: time.time() + days * 86_400)
    certificates = Certificates(wrong, objects.namespace, "nfd-master-ca", ("localhost",))
    try:
        await certificates.start()
        (made,), right = objects.authorities(), make()
        await right.start()
        assert objects.authorities() == (made,)
        objects.plane.request("PATCH", objects.path("secrets"), {"data": None})
        signer = await right.advance(fresh=True)
        await certificates.advance()
        assert objects.authorities() == (signer,)
    finally:
        await certificates.stop()
        await wrong.close()
    leaf = x509.load_pem_x509_certificate(certificates.read().cert or b"")
    assert leaf.not_valid_before_utc.timestamp() < time.time() < leaf.not_valid_after_utc.timestamp()
    assert abs(made.made - time.time()) < 600


async def test_waits_for_objects_that_are_missing(
    objects: Objects, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    objects.plane.request("DELETE", objects.path("configmaps"))
    starting = asyncio.create_task(make().start())
    await until(lambda: "cannot renew certificates" in caplog.messages)
    assert not starting.done()
    objects.create()
    await asyncio.wait_for(starting, 20)


async def test_outage_leaves_the_certificate_and_renews_it(objects: Objects, make: Make) -> None:
    ahead = 0.0
    certificates = make(replace(TIMING, interval=0.1), lambda: time.time() + ahead)
    await certificates.start()
    first = certificates.read()
    with objects.plane.outage():
        assert certificates.read() == first
        ahead = 13 * 3600
        await until(lambda: certificates.read() != first, 30)


@dataclass
class Mount:
    """The ConfigMap as a file, which follows with a delay: what a kubelet does."""

    objects: Objects
    file: Path
    delay: float

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(self.delay)
            content = await asyncio.to_thread(self.objects.bundle)
            new = self.file.with_suffix(".new")
            new.write_text(content)
            new.replace(self.file)


async def test_rotation_while_workers_report(objects: Objects, make: Make, tmp_path: Path) -> None:
    """Two masters, twenty workers, a rotation every few seconds: no report fails, and authorities come and go."""
    timing = Lifetimes(interval=0.3, spread=2.0, leaf=3.0, rotate=4.0, life=60.0)
    replicas = [make(timing) for _ in range(2)]
    taken = 0

    async def accept(report: Report, peer: Peer) -> Reply:
        nonlocal taken
        taken += 1
        return Reply(60)

    await asyncio.gather(*(one.start() for one in replicas))
    servers = [LabelerServer(accept, tls=one) for one in replicas]
    ports = [await one.start("localhost:0") for one in servers]
    mount = Mount(objects, tmp_path / "ca.crt", 0.5)
    following = asyncio.create_task(mount.follow())
    await until(mount.file.exists)
    seen: set[str] = set()
    end = time.monotonic() + 24

    async def work(number: int) -> None:
        while time.monotonic() < end:
            reporter = Reporter(f"localhost:{ports[number % 2]}", tls=TlsFiles(str(mount.file)))
            await asyncio.to_thread(reporter.send, Report(f"node-{number}"))
            await asyncio.sleep(0.2)

    async def watch() -> None:
        while time.monotonic() < end:
            seen.update(one.name for one in await asyncio.to_thread(objects.authorities))
            await asyncio.sleep(0.5)

    try:
        await asyncio.gather(watch(), *(work(number) for number in range(20)))
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        for server in servers:
            await server.stop(0)
    assert taken > 300
    assert len(seen) >= 3
    assert len(objects.authorities()) <= 2
