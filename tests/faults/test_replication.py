"""Masters share their reports: a follower has what the leader has, and only a master gets it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import grpc
import pytest

from nfd.errors import ConfigError, ReportError
from nfd.features import Features
from nfd.kube.client import connect
from nfd.kube.token_reviews import TokenReviews
from nfd.master.leadership import Phase
from nfd.master.reports.receive_copies import MasterCredentials
from nfd.master.reports.store import Standing
from nfd.master.security.authentication import AUDIENCE, MASTERS_AUDIENCE, MasterAuthenticator
from nfd.master.security.authority import Lifetimes, make_authority
from nfd.master.security.certificates import BUNDLE, Certificates
from nfd.master.security.setup import Security, make_security
from nfd.master.service import Service
from nfd.report import Reply, Report
from nfd.rpc import SERVICE
from nfd.rpc.caller_types import NoAuthentication
from nfd.rpc.client import Reporter
from nfd.rpc.master_calls import replicate
from nfd.rpc.replication_messages import Decoder
from nfd.rpc.tls import TlsFiles
from tests.faults.conftest import NAMESPACE, STEADY, FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_forwarding import MAPS
from tests.faults.test_forwarding import unique as unique
from tests.master.conftest import Worker
from tests.master.places import Cluster, labels_of, until
from tests.master.test_callers import parsed

F = "feature.node.kubernetes.io/"
ACCOUNT = f"{NAMESPACE}/nfd-master"
_numbers = count(1)


@dataclass
class Replicas:
    """Masters that share their reports, over certificates of their own authority."""

    masters: FaultMasters
    proxy: FaultProxy
    place: Cluster
    make: Made
    name: str
    folder: Path
    made: list[Service] = field(default_factory=list)

    def token(self, account: str = "nfd-master", audience: str | None = MASTERS_AUDIENCE) -> str:
        return self.place.plane.service_account_token(account, NAMESPACE, audience=audience, node=self.make())

    def token_file(self) -> str:
        path = self.folder / f"token-{next(_numbers)}"
        path.write_text(self.token())
        return str(path)

    async def security(self, *, shares: bool = True) -> Security:
        client = await connect(str(self.proxy.kubeconfig()))
        self.masters.stack.push_async_callback(client.close)
        own = Certificates(client, NAMESPACE, self.name, ("nfd-master", "localhost"))
        credentials = None
        if shares:
            authenticator = MasterAuthenticator(TokenReviews(client, MASTERS_AUDIENCE), ACCOUNT)
            credentials = MasterCredentials(authenticator, self.token_file())
        return Security(NoAuthentication(), own, "localhost", own.start, own.stop, credentials)

    async def start(self, *, shares: bool = True) -> Service:
        security = await self.security(shares=shares)
        self.masters.timing = STEADY
        made = await self.masters.make(self.proxy, self.name, security=security, service_name="nfd-master")
        self.made.append(made)
        await made.start()
        return made

    async def leader(self) -> Service:
        found = await self.start()
        await until(lambda: found._leads.is_set())
        return found

    def trust(self) -> str:
        path = self.folder / "ca.crt"
        path.write_text(self.place.plane.request("GET", f"{MAPS}/{self.name}")["data"][BUNDLE])
        return str(path)

    async def send(self, service: Service, report: Report) -> Reply:
        tls = TlsFiles(self.trust())
        return await asyncio.to_thread(Reporter(f"localhost:{service.port}", tls=tls).send, report)


@pytest.fixture
def replicas(
    masters: FaultMasters, proxy: FaultProxy, place: Cluster, make: Made, unique: str, tmp_path: Path
) -> Replicas:
    return Replicas(masters, proxy, place, make, unique, tmp_path)


def features(value: str) -> Features:
    return Features(attributes={"f.a": {"v": value}, "kernel.config": {f"C{number}": "y" for number in range(500)}})


def version(place: Cluster, name: str) -> str:
    return str(place.get(name)["metadata"]["resourceVersion"])


async def test_a_follower_has_every_report_and_takes_over_with_it(replicas: Replicas) -> None:
    """It is Ready with what there was before, gets what comes, and writes nothing when it takes over."""
    leader = await replicas.leader()
    workers = [Worker(replicas.make()) for _ in range(5)]
    for worker in workers[:3]:
        await replicas.send(leader, worker.report({F + "cpu-a": "1"}, features=features(worker.node)))
    follower = await replicas.start()
    assert set(follower.reported()) == {worker.node for worker in workers[:3]}
    for worker in workers[2:]:
        await replicas.send(leader, worker.report({F + "cpu-a": "2"}, features=features("new")))
    reports = {worker.node: leader._handler.reports.get(worker.node) for worker in workers}
    assert {worker.node: follower._handler.reports.get(worker.node) for worker in workers} == reports
    assert [int(one._gauges()["reports_known"]) for one in (leader, follower)] == [5, 5]
    await until(lambda: leader._gauges()["reports_replicated"] == 5)
    before, after = (
        {node: set(keys) for node, keys in one._labeler.features._uses.nodes.items()} for one in (leader, follower)
    )
    assert after == before
    versions = [version(replicas.place, worker.node) for worker in workers]
    await leader.stop()
    await until(lambda: follower._leads.is_set())
    await until(lambda: not len(follower.queue))
    await follower.queue.idle()
    assert [version(replicas.place, worker.node) for worker in workers] == versions
    assert {follower._handler.reports.standing(worker.node) for worker in workers} == {Standing.INHERITED}
    await replicas.send(follower, workers[0].report({}, features=features("new")))
    assert labels_of(replicas.place, workers[0].node) == {}
    assert follower._handler.reports.standing(workers[0].node) is Standing.REPORTED


async def test_an_older_report_that_comes_after_the_take_over_is_rejected(replicas: Replicas) -> None:
    """The order guard is handed over with the report."""
    leader = await replicas.leader()
    follower, worker = await replicas.start(), Worker(replicas.make())
    older = worker.report({F + "cpu-a": "1"})
    await replicas.send(leader, worker.report({F + "cpu-a": "2"}))
    await leader.stop()
    await until(lambda: follower._leads.is_set())
    with pytest.raises(ReportError, match="a newer report of this node was already received"):
        await replicas.send(follower, older)
    assert labels_of(replicas.place, worker.node) == {F + "cpu-a": "2"}


async def test_the_former_leader_follows_and_has_what_came_meanwhile(replicas: Replicas) -> None:
    leader = await replicas.leader()
    follower, worker = await replicas.start(), Worker(replicas.make())
    await replicas.send(leader, worker.report({F + "cpu-a": "1"}))
    await leader.stop()
    await until(lambda: follower._leads.is_set())
    await replicas.send(follower, worker.report({F + "cpu-a": "2"}))
    third = await replicas.start()
    assert third._handler.reports.get(worker.node) == follower._handler.reports.get(worker.node)


async def test_only_masters_get_reports(replicas: Replicas) -> None:
    leader = await replicas.leader()
    channel = grpc.ssl_channel_credentials(Path(replicas.trust()).read_bytes())

    def ask(token: str) -> str:
        metadata = [("authorization", f"Bearer {token}")] * bool(token)
        with grpc.secure_channel(f"localhost:{leader.port}", channel) as connection:
            call = connection.stream_stream(f"/{SERVICE}/Replicate")(iter(()), metadata=metadata, timeout=10)
            try:
                next(iter(call), None)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
            return "served"

    cases = {
        replicas.token(): "served",
        "": "UNAUTHENTICATED: the caller has no token",
        "a.b.c": "UNAUTHENTICATED",
        replicas.token("nfd-worker"): "PERMISSION_DENIED: the caller's token is of service account default/nfd-worker",
        replicas.token(audience=None): f"UNAUTHENTICATED: the token is not for audience {MASTERS_AUDIENCE}",
        replicas.token(audience="nfd-master"): f"UNAUTHENTICATED: the token is not for audience {MASTERS_AUDIENCE}",
        replicas.place.plane.service_account_token("nfd-master", NAMESPACE, audience=MASTERS_AUDIENCE): (
            "UNAUTHENTICATED: the token is not bound to a pod"
        ),
    }
    for token, answer in cases.items():
        assert (await asyncio.to_thread(ask, token)).startswith(answer)


async def test_a_leader_that_shares_nothing_keeps_nobody_from_being_ready(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    """As one of an older release, which does not know the method."""
    leader = await replicas.start(shares=False)
    await until(lambda: leader.leadership.phase is Phase.LEADING)
    loop = asyncio.get_running_loop()
    began = loop.time()
    follower = await replicas.start()
    assert loop.time() - began < 10
    assert follower.leadership.reason_not_ready == ""
    assert follower.reported() == []


async def test_a_leader_with_a_certificate_of_another_authority_gets_no_token(replicas: Replicas) -> None:
    leader = await replicas.leader()
    other = await replicas.security()
    await other.prepare()
    assert isinstance(other.tls, Certificates)
    other.tls._bundle = make_authority(1e9, Lifetimes(life=1e9)).certificate
    assert other.masters is not None
    async with replicate(f"127.0.0.1:{leader.port}", other.masters.token(), other.tls, "nfd-master") as stream:
        with pytest.raises(ReportError, match="CERTIFICATE_VERIFY_FAILED"):
            await stream.read()
    other.tls._bundle = b""
    with pytest.raises(OSError, match="no CA certificate"):
        async with replicate(f"127.0.0.1:{leader.port}", "token", other.tls, "nfd-master"):
            pass
    await other.finish()


@pytest.mark.parametrize(
    ("account", "audience", "reason"),
    [
        ("nfd-worker", MASTERS_AUDIENCE, "--worker-accounts: default/nfd-worker is also the master's service account"),
        ("nfd-master", None, "is not a service-account token for the audience nfd-master-replication alone"),
        ("nfd-master", AUDIENCE, "is not a service-account token for the audience nfd-master-replication alone"),
    ],
)
async def test_a_token_that_must_not_be_used_ends_the_start(
    account: str, audience: str | None, reason: str, replicas: Replicas
) -> None:
    """The API server's own token, one for workers, and that of an account which workers have as well."""
    path = replicas.folder / "token"
    path.write_text(replicas.token(account, audience))
    flags = {"replication_token_file": str(path), "auth": "token"}
    client = await connect(str(replicas.proxy.kubeconfig()))
    replicas.masters.stack.push_async_callback(client.close)
    with pytest.raises(ConfigError, match=reason):
        make_security(parsed(**flags), "token", client, NAMESPACE)
    path.write_text(replicas.token())
    assert make_security(parsed(**flags), "token", client, NAMESPACE).masters is not None
    assert make_security(parsed(**flags), "none", client, NAMESPACE).masters is None
    path.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        make_security(parsed(**flags), "token", client, NAMESPACE)


async def test_a_worker_whose_report_no_other_master_has_is_asked_again_soon(replicas: Replicas) -> None:
    """A follower that does not confirm delays the answer by a second at most; a heartbeat is not delayed."""
    leader = await replicas.leader()
    worker = Worker(replicas.make())
    leader._heartbeats._heard = dict.fromkeys(map(str, range(5000)), 1e18)
    assert (await replicas.send(leader, worker.report({F + "cpu-a": "1"}))).heartbeat > 300
    await stuck(replicas, leader)
    reply = await replicas.send(leader, worker.report({F + "cpu-a": "2"}))
    assert reply.heartbeat < 70
    assert labels_of(replicas.place, worker.node) == {F + "cpu-a": "2"}
    assert (await replicas.send(leader, worker.report({F + "cpu-a": "2"}))).heartbeat > 300


async def stuck(replicas: Replicas, leader: Service) -> None:
    """A follower that reads everything and confirms only the first messages."""
    security = await replicas.security()
    await security.prepare()
    replicas.masters.stack.push_async_callback(security.finish)
    assert security.masters is not None
    assert security.tls is not None
    stream = await replicas.masters.stack.enter_async_context(
        replicate(f"127.0.0.1:{leader.port}", security.masters.token(), security.tls, "nfd-master")
    )
    decoder = Decoder()
    while not (message := decoder.decode(await stream.read())).complete:
        await stream.confirm(message.number)
    await stream.confirm(message.number)
    followers = leader._followers
    assert followers is not None
    await until(lambda: all(one.complete and not one.sent for one in followers._followers.values()))
