"""The key of proofs: one for all replicas, kept over rotations, and nothing that a start waits for in vain."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nfd.kube.client import KubeClient, connect
from nfd.master.node.proof import KEY_SIZE, Proof
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.security.authority import Lifetimes
from nfd.master.security.certificates import Certificates
from nfd.master.security.proof_key import ENTRY, FILE, SecretKey, file_key
from nfd.master.service import Options, Service
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Cluster, labels_of, notes_of, until

F = "feature.node.kubernetes.io/"
N = "nfd.node.kubernetes.io/"
NAME = "nfd-master-ca"
_numbers = count(1)


@dataclass
class Secret:
    """As shipped, empty, in a namespace of its own."""

    plane: ControlPlane
    namespace: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}"

    def create(self) -> None:
        self.plane.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.plane.create(self.path.rpartition("/")[0], {"metadata": {"name": NAME}})

    def data(self) -> dict[str, bytes]:
        found = self.plane.request("GET", self.path).get("data") or {}
        return {key: base64.b64decode(value) for key, value in found.items()}

    def edit(self, data: Any) -> None:
        self.plane.request("PATCH", self.path, {"data": data})


@pytest.fixture
def secret(control_plane: ControlPlane) -> Secret:
    found = Secret(control_plane, f"proofs-{next(_numbers)}")
    found.create()
    return found


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    client = await connect(str(control_plane.kubeconfig))
    yield client
    await client.close()


Make = Callable[[], tuple[SecretKey, Proof]]


@pytest.fixture
async def make(client: KubeClient, secret: Secret) -> AsyncIterator[Make]:
    made: list[SecretKey] = []

    def make() -> tuple[SecretKey, Proof]:
        proof = Proof.of_this_process()
        made.append(SecretKey(client, secret.namespace, NAME, proof, 0.1))
        return made[-1], proof

    yield make
    for one in made:
        await one.stop()


def same(*proofs: Proof) -> bool:
    return len({proof.make("u", "", {}, []) for proof in proofs}) == 1


async def test_replicas_that_start_together_with_their_certificates_share_one_key(
    secret: Secret, client: KubeClient, make: Make
) -> None:
    """Both are entries of one Secret, and whoever wins the guarded update leaves the other's there."""
    secret.plane.create(f"/api/v1/namespaces/{secret.namespace}/configmaps", {"metadata": {"name": NAME}})
    replicas = [make() for _ in range(5)]
    authorities = [Certificates(client, secret.namespace, NAME, ("localhost",)) for _ in range(5)]
    await asyncio.gather(*(key.start() for key, _ in replicas), *(one.start() for one in authorities))
    try:
        assert same(*(proof for _, proof in replicas))
        assert all(proof.lasting for _, proof in replicas)
        found = secret.data()
        assert len(found.pop(ENTRY)) == KEY_SIZE
        assert len(found) == 2, "one authority: certificate and key"
    finally:
        for one in authorities:
            await one.stop()


async def test_the_key_outlives_rotations_of_the_authority(secret: Secret, client: KubeClient, make: Make) -> None:
    secret.plane.create(f"/api/v1/namespaces/{secret.namespace}/configmaps", {"metadata": {"name": NAME}})
    key, proof = make()
    await key.start()
    before, now = secret.data()[ENTRY], 1_900_000_000.0
    certificates = Certificates(client, secret.namespace, NAME, ("localhost",), Lifetimes(), lambda: now)
    for _ in range(4):
        await certificates.advance(fresh=True)
        now += Lifetimes().rotate
    assert secret.data()[ENTRY] == before
    assert proof.lasting


async def test_the_key_is_made_beside_an_authority_that_is_there(
    secret: Secret, client: KubeClient, make: Make
) -> None:
    """As at the upgrade from a release that kept none."""
    secret.plane.create(f"/api/v1/namespaces/{secret.namespace}/configmaps", {"metadata": {"name": NAME}})
    await Certificates(client, secret.namespace, NAME, ("localhost",)).advance(fresh=True)
    before = secret.data()
    await make()[0].start()
    after = secret.data()
    assert len(after.pop(ENTRY)) == KEY_SIZE
    assert after == before


@pytest.mark.parametrize("data", [None, {ENTRY: None}, {ENTRY: "AAAA"}, {ENTRY: base64.b64encode(b"short").decode()}])
async def test_a_key_that_is_gone_or_unusable_is_made_anew_and_told(secret: Secret, make: Make, data: Any) -> None:
    (key, proof), told = make(), []
    key.changed = lambda: told.append(proof.make("u", "", {}, []))
    await key.start()
    secret.edit(data)
    await until(lambda: len(told) == 2)
    assert len(secret.data()[ENTRY]) == KEY_SIZE
    assert told[0] != told[1]


async def test_pruning_makes_no_key(secret: Secret, make: Make) -> None:
    key, proof = make()
    assert await key.look(make=False)
    assert not proof.lasting
    assert secret.data() == {}


async def test_without_the_secret_or_a_right_to_it_a_start_goes_on_and_the_key_is_taken_when_it_can_be_had(
    secret: Secret, control_plane: ControlPlane, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    control_plane.request("DELETE", secret.path)
    key, proof = make()
    await asyncio.wait_for(key.start(), 5)
    assert not proof.lasting
    assert caplog.messages.count("no key in the Secret: lists on nodes are not proven") == 1
    secret.create()
    await until(lambda: proof.lasting)
    client = await connect(str(control_plane.kubeconfig_for("alice")))
    other = Proof.of_this_process()
    refused = SecretKey(client, secret.namespace, NAME, other)
    try:
        await asyncio.wait_for(refused.start(), 5)
        assert not other.lasting
    finally:
        await refused.stop()
        await client.close()


async def test_a_rolled_key_loses_no_label_freezes_nothing_and_costs_one_patch_a_node(
    secret: Secret, control_plane: ControlPlane
) -> None:
    """The next report proves the lists again; heartbeats that say nothing new do so, too."""
    place, name = Cluster(control_plane), f"rolled-{next(_numbers)}"
    place.create(name, {}, {}, BOOT)
    async with AsyncExitStack() as stack:
        proof = Proof.of_this_process()
        client = await connect(str(control_plane.kubeconfig))
        stack.push_async_callback(client.close)
        key = SecretKey(client, secret.namespace, NAME, proof, 0.1)
        options = Options(
            host="127.0.0.1", port=0, http_port=0, resync=0, settings=ReconcileOptions(proof=proof), key=key
        )
        master = Service(await place.open(), options)
        stack.push_async_callback(master.stop)
        await master.start()
        worker = Worker(name)
        await send(master, worker.report({F + "cpu-a": "1", F + "pci-b": "1"}))
        before, mark = json.loads(notes_of(place, name)[N + "origins"]), control_plane.mark()
        old = proof.make("u", "", {}, [])
        secret.edit(None)
        await until(lambda: proof.make("u", "", {}, []) != old)
        await master.queue.idle()
        assert control_plane.writes(mark) == [], "no storm"
        await send(master, worker.report({F + "cpu-a": "1", F + "pci-b": "1"}))
        await send(master, worker.report({F + "cpu-a": "1", F + "pci-b": "1"}))
        after = json.loads(notes_of(place, name)[N + "origins"])
        assert len(control_plane.writes(mark)) == 1
        assert {**before, "proof": "", "at": ""} == {**after, "proof": "", "at": ""}
        assert before["proof"] != after["proof"]
        assert (before["at"], after["at"]) == ([1, 1], [1, 2]), "of the report that the lists are proven for"
        secret.edit(None)
        await until(lambda: proof.make("u", "", {}, []) != old)
        await send(master, worker.report({F + "cpu-a": "1"}))
        assert labels_of(place, name) == {F + "cpu-a": "1"}
    place.delete(name)


async def test_an_upgrade_costs_one_patch_a_node_when_its_worker_reports(control_plane: ControlPlane) -> None:
    """Records of the release before have no proof. Nothing is written at the start, nor for a failing source."""
    place, names = Cluster(control_plane), [f"upgraded-{next(_numbers)}-{number}" for number in range(5)]
    masters = Masters(place)
    labels = {F + "cpu-a": "1", F + "pci-b": "1", "vendor.io/c": "1"}
    async with masters.stack:
        first = await masters.start()
        for name in names:
            place.create(name, {}, {}, BOOT)
            await until(lambda name=name: first._store.get(name) is not None)  # type: ignore[misc]
            await send(first, Worker(name).report(labels))
        await first.stop()
        for name in names:
            record = json.loads(notes_of(place, name)[N + "origins"])
            del record["proof"]
            place.edit(name, {"metadata": {"annotations": {N + "origins": json.dumps(record)}}})
        mark = control_plane.mark()
        second = await masters.start()
        await second.queue.idle()
        assert control_plane.writes(mark) == []
        for name in names:
            for failed in ((), ("usb",), ()):
                await send(second, Worker(name, started=2).report(labels, failed=failed))
            assert labels_of(place, name) == labels
        assert sorted(event.name for event in control_plane.writes(mark)) == sorted(names)
    for name in names:
        place.delete(name)


async def test_a_key_that_does_not_last_is_no_reason_to_write(control_plane: ControlPlane) -> None:
    """Without a Secret a master that starts anew leaves what its predecessor wrote as it is."""
    place, name = Cluster(control_plane), f"fleeting-{next(_numbers)}"
    place.create(name, {}, {}, BOOT)
    masters = Masters(place)
    async with masters.stack:
        first = await masters.start(proof=Proof.of_this_process())
        await send(first, Worker(name).report({F + "cpu-a": "1"}))
        await first.stop()
        mark = control_plane.mark()
        second = await masters.start(proof=Proof.of_this_process())
        await send(second, Worker(name, started=2).report({F + "cpu-a": "1"}))
        assert control_plane.writes(mark) == []
        await send(second, Worker(name, started=2).report({}))
        assert labels_of(place, name) == {}
    place.delete(name)


async def test_a_folder_of_nodes_has_its_key_beside_them(tmp_path: Path) -> None:
    found = [await asyncio.to_thread(file_key, tmp_path / "nodes") for _ in range(3)]
    assert same(*found)
    assert found[0].lasting
    path = tmp_path / "nodes" / FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == [FILE]
    assert len({file_key(tmp_path / "other").make("u", "", {}, []), found[0].make("u", "", {}, [])}) == 2
    path.write_bytes(b"short")
    assert not file_key(tmp_path / "nodes").lasting
    (tmp_path / "file").write_text("")
    assert not file_key(tmp_path / "file" / "nodes").lasting
