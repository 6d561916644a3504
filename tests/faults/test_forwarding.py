"""Old peers report to a follower: it passes their call on to the leader, over TLS as it is set up in the field."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import pytest

from nfd.kube.client import connect
from nfd.kube.token_reviews import TokenReviews
from nfd.master.leadership import Phase
from nfd.master.security.authentication import AUDIENCE, CertificateAuthenticator, TokenAuthenticator
from nfd.master.security.certificates import BUNDLE, Certificates
from nfd.master.security.setup import Security
from nfd.master.service import Service
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from tests.controlplane.api import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.faults.conftest import NAMESPACE, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.master.conftest import Worker
from tests.master.places import Cluster, labels_of, until
from tests.rpc import nfd016
from tests.rpc.test_tls import Authority

F = "feature.node.kubernetes.io/"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_numbers = count(1)


@pytest.fixture
def unique(control_plane: ControlPlane) -> Iterator[str]:
    """A name for the Lease, Secret and ConfigMap of this test, empty as they are shipped; gone after it."""
    name = f"forwarding-{next(_numbers)}"
    for path in (SECRETS, MAPS):
        control_plane.request("POST", path, {"metadata": {"name": name}})
    yield name
    for path in (SECRETS, MAPS, f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"):
        with suppress(ApiError):
            control_plane.request("DELETE", f"{path}/{name}")


@dataclass
class Pair:
    leader: Service
    follower: Service


async def start(masters: FaultMasters, proxy: FaultProxy, lease: str, *securities: Security) -> Pair:
    made = [await masters.make(proxy, lease, security=security, service_name="nfd-master") for security in securities]
    await made[0].start()
    await until(lambda: made[0].leadership.phase is Phase.LEADING)
    await made[1].start()
    return Pair(*made)


def set_labels(port: int, node: str, credentials: Any, token: str = "", forwarded: bool = False) -> None:
    """What an NFD 0.16 worker says, labels `cpu-a=1`, and a token that it may have been given."""
    request = nfd016.v016()(nfd_version="v0.16.6", node_name=node, labels={"cpu-a": "1"}).SerializeToString()
    metadata = [("authorization", f"Bearer {token}")] * bool(token) + [("nfd-forwarded", "1")] * forwarded
    with grpc.secure_channel(f"localhost:{port}", credentials) as channel:
        channel.unary_unary(nfd016.METHOD)(request, timeout=5, metadata=metadata)


def certified(files: TlsFiles) -> Any:
    pem = files.read()
    return grpc.ssl_channel_credentials(pem.ca, pem.key, pem.cert)


@pytest.fixture
async def own(masters: FaultMasters, proxy: FaultProxy, unique: str) -> Pair:
    """Masters as a cluster has them by default: tokens, and certificates of their own authority."""
    securities = []
    for _ in range(2):
        client = await connect(str(proxy.kubeconfig()))
        masters.stack.push_async_callback(client.close)
        certificates = Certificates(client, NAMESPACE, unique, ("nfd-master", "localhost"))
        gate = TokenAuthenticator(TokenReviews(client, AUDIENCE), (f"{NAMESPACE}/nfd-worker",))
        securities.append(Security(gate, certificates, "localhost", certificates.start, certificates.stop))
    return await start(masters, proxy, unique, *securities)


async def test_with_the_callers_token_over_our_own_authority(
    own: Pair, place: Cluster, make: Made, unique: str
) -> None:
    """The leader decides by the caller's token, not by who brings it."""
    ours, theirs = make(), make()
    token = place.plane.service_account_token("nfd-worker", NAMESPACE, audience=AUDIENCE, node=ours)
    bundle = place.plane.request("GET", f"{MAPS}/{unique}")["data"][BUNDLE].encode()
    trust = grpc.ssl_channel_credentials(bundle)
    await asyncio.to_thread(set_labels, own.follower.port, ours, trust, token)
    assert labels_of(place, ours) == {F + "cpu-a": "1"}
    assert (own.leader.metrics["reports"], own.follower.metrics["reports"]) == (1, 0)
    for forwarded in (False, True):
        with pytest.raises(grpc.RpcError, match="PERMISSION_DENIED"):
            await asyncio.to_thread(set_labels, own.follower.port, theirs, trust, token, forwarded)
    assert labels_of(place, theirs) == {}


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.mark.parametrize("shared", [True, False], ids=["one certificate", "one each"])
async def test_over_mutual_tls_with_verified_node_names(
    shared: bool,
    authority: Authority,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    unique: str,
    tmp_path: Path,
) -> None:
    """The follower looks at the caller's certificate, and the leader at the follower's, which names a master."""
    files = [authority.issue(tmp_path / str(number), "nfd-master") for number in range(2)]
    pair = await start(
        masters,
        proxy,
        unique,
        *(Security(CertificateAuthenticator(one), one, "localhost") for one in (files[0], files[-shared])),
    )
    ours, theirs = make(), make()
    worker = authority.issue(tmp_path / "worker", ours)
    await asyncio.to_thread(set_labels, pair.follower.port, ours, certified(worker))
    assert labels_of(place, ours) == {F + "cpu-a": "1"}
    assert (pair.leader.metrics["reports"], pair.follower.metrics["reports"]) == (1, 0)
    for port in (pair.follower.port, pair.leader.port):
        for forwarded in (False, True):
            with pytest.raises(grpc.RpcError, match="PERMISSION_DENIED"):
                await asyncio.to_thread(set_labels, port, theirs, certified(worker), "", forwarded)
    with pytest.raises(grpc.RpcError, match="PERMISSION_DENIED"):
        await asyncio.to_thread(set_labels, pair.leader.port, theirs, certified(files[0]))
    assert labels_of(place, theirs) == {}


async def test_our_worker_follows_the_hint_over_mutual_tls(
    authority: Authority,
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    unique: str,
    tmp_path: Path,
) -> None:
    files = authority.issue(tmp_path / "master", "nfd-master")
    gates = [Security(CertificateAuthenticator(files), files, "localhost") for _ in range(2)]
    pair = await start(masters, proxy, unique, *gates)
    name = make()
    worker = authority.issue(tmp_path / "worker", name)
    reporter = Reporter(f"localhost:{pair.follower.port}", tls=worker)
    await asyncio.to_thread(reporter.send, Worker(name).report({F + "cpu-a": "1"}))
    assert labels_of(place, name) == {F + "cpu-a": "1"}
    assert pair.leader.metrics["reports"] == 1
