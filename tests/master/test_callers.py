"""Who may report, on a real API server: over TLS of the master's own making, with the token of a worker's pod."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from nfd.config.flags import Parsed, parse
from nfd.errors import ConfigError, ReportError
from nfd.kube.client import connect
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.security.flags import FLAGS, mode_of
from nfd.master.security.setup import make_security
from nfd.master.service import Options, Service
from nfd.report_order import LONGEST_UPTIME, MOST_REPORTS
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from nfd.store.kube import KubeStore
from tests.controlplane import objects
from tests.controlplane.cluster import ControlPlane
from tests.master.conftest import BOOT, Worker
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
_numbers = count(1)


def parsed(**flags: Any) -> Parsed:
    """The master's flags as its command line has them, those of the node store included."""
    words = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in flags.items()
        if name in {f.name.replace("-", "_") for f in FLAGS}
    ]
    values = parse("nfd-master", words, FLAGS).values
    rest = {"node-store": "kubernetes", "kubeconfig": ""} | {
        key.replace("_", "-"): value for key, value in flags.items()
    }
    return Parsed({**rest, **values})


@dataclass
class Site:
    """A master with the default security of a cluster, and what a worker's pod would find mounted."""

    place: Cluster
    service: Service
    namespace: str
    folder: Path
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, node: str, account: str = "nfd-worker", audience: str | None = "nfd-master") -> str:
        return self.place.plane.service_account_token(account, self.namespace, audience=audience, node=node)

    async def send(self, worker: Worker, token: str | None, labels: dict[str, str]) -> None:
        ca, file = self.folder / "ca.crt", self.folder / f"token-{next(_numbers)}"
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/nfd-master-ca"
        ca.write_text(self.place.plane.request("GET", path)["data"]["ca.crt"])
        if token is not None:
            file.write_text(f"{token}\n")
        shown = str(file) if token is not None else ""
        reporter = Reporter(f"localhost:{self.service.port}", tls=TlsFiles(str(ca)), token_file=shown)
        await asyncio.to_thread(reporter.send, worker.report(labels))


@pytest.fixture
async def site(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    namespace = f"callers-{next(_numbers)}"
    control_plane.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for kind in ("secrets", "configmaps"):
        control_plane.create(f"/api/v1/namespaces/{namespace}/{kind}", {"metadata": {"name": "nfd-master-ca"}})
    client = await connect(str(control_plane.kubeconfig))
    security = make_security(parsed(), "token", client, namespace)
    service = Service(
        KubeStore(client), Options(port=0, http_port=0, resync=0, settings=ReconcileOptions(), security=security)
    )
    await service.start()
    yield Site(Cluster(control_plane), service, namespace, tmp_path)
    await service.stop()


@pytest.fixture
def nodes(control_plane: ControlPlane) -> list[str]:
    names = [f"callers-node-{next(_numbers)}" for _ in range(2)]
    for name in names:
        Cluster(control_plane).create(name, {}, {}, BOOT)
    return names


async def test_node_speaks_for_itself_alone(site: Site, nodes: list[str], caplog: pytest.LogCaptureFixture) -> None:
    """Refusals are answered PERMISSION_DENIED, logged with both names, and write nothing."""
    ours, theirs = nodes
    token = site.token(ours)
    mark = site.place.plane.mark()
    with pytest.raises(ReportError, match=f"PERMISSION_DENIED: .*on node {ours}, but the report is for node {theirs}"):
        await site.send(Worker(theirs), token, {F + "cpu-a": "1"})
    assert site.place.plane.writes(mark) == []
    (record,) = [one for one in caplog.records if one.message == "report rejected"]
    fields = record.__dict__["fields"]
    assert fields["node"] == theirs
    assert ours in fields["error"]
    await site.send(Worker(ours), token, {F + "cpu-a": "1"})
    assert labels_of(site.place, ours) == {F + "cpu-a": "1"}
    assert labels_of(site.place, theirs) == {}


async def test_who_is_refused(site: Site, nodes: list[str]) -> None:
    """No token, another audience, another service account, a token that is not bound to a node, nonsense."""
    node = nodes[0]
    unbound = site.place.plane.service_account_token("nfd-worker", site.namespace, audience="nfd-master")
    for token, reason in {
        None: "UNAUTHENTICATED: the caller has no token",
        site.token(node, audience="vault"): "UNAUTHENTICATED: .*not for audience nfd-master",
        site.token(node, audience=None): "UNAUTHENTICATED: .*not for audience",
        site.token(node, account="default"): "PERMISSION_DENIED: .*/default, which is not one of the workers",
        unbound: "UNAUTHENTICATED: .*not bound to a pod",
        "x.y.z": "UNAUTHENTICATED: .*not a service-account token",
    }.items():
        with pytest.raises(ReportError, match=reason):
            await site.send(Worker(node), token, {F + "cpu-a": "1"})
    assert labels_of(site.place, node) == {}


def expired(token: str, key_file: Path) -> str:
    """The same token, over since a minute, and signed anew with the API server's own key (RFC 7518, ES256)."""
    head, body, _ = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    now = int(time.time())
    claims |= {"iat": now - 3660, "nbf": now - 3660, "exp": now - 60}
    signed = f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}"
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    pair = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    signature = b"".join(one.to_bytes(32, "big") for one in pair)
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


async def test_token_that_has_expired(site: Site, nodes: list[str]) -> None:
    token = expired(site.token(nodes[0]), site.place.plane.folder / "service-account.key")
    mark = site.place.plane.mark()
    with pytest.raises(ReportError, match=r"UNAUTHENTICATED: .*rejects the token"):
        await site.send(Worker(nodes[0]), token, {F + "cpu-a": "1"})
    assert site.place.plane.writes(mark) == []


def token_without_node(plane: ControlPlane, namespace: str, node: str) -> str:
    """A token that names the pod and not its node, as in clusters before 1.30: it is made before the pod is bound."""
    inside, pod = f"/api/v1/namespaces/{namespace}", f"early-on-{node}"
    spec = {"serviceAccountName": "nfd-worker", "containers": [{"name": "main", "image": "example.invalid/none"}]}
    plane.create(f"{inside}/serviceaccounts", {"metadata": {"name": "nfd-worker"}})
    plane.request("POST", f"{inside}/pods", {"metadata": {"name": pod}, "spec": spec})
    wish = objects.token_request("nfd-master", pod, 3600)
    answer = plane.request("POST", f"{inside}/serviceaccounts/nfd-worker/token", wish)
    binding = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
    plane.request("POST", f"{inside}/pods/{pod}/binding", binding)
    return str(answer["status"]["token"])


async def test_tokens_of_older_clusters(site: Site, nodes: list[str]) -> None:
    """The pod is looked up; what it may report for is the same."""
    ours, theirs = nodes
    token, mark = token_without_node(site.place.plane, site.namespace, ours), site.place.plane.mark()
    with pytest.raises(ReportError, match=f"PERMISSION_DENIED: .*on node {ours}, but the report is for node {theirs}"):
        await site.send(Worker(theirs), token, {F + "cpu-a": "1"})
    assert site.place.plane.writes(mark) == []
    await site.send(Worker(ours), token, {F + "cpu-a": "1"})
    assert labels_of(site.place, ours) == {F + "cpu-a": "1"}


async def test_new_tokens_are_taken_as_they_come(site: Site, nodes: list[str]) -> None:
    """A kubelet renews the token of a pod at four fifths of its life."""
    worker = Worker(nodes[0])
    for value in "1234":
        await site.send(worker, site.token(nodes[0]), {F + "cpu-a": value})
    assert labels_of(site.place, nodes[0]) == {F + "cpu-a": "4"}


async def test_a_new_pod_is_heard_whatever_the_old_one_counted(site: Site, nodes: list[str]) -> None:
    """A later token of another pod begins a count of its own; one that is not later goes by the old one's."""
    node, plane = nodes[0], site.place.plane
    first, path = site.token(node), f"/api/v1/namespaces/{site.namespace}/pods/nfd-worker-on-{node}"
    bad = Worker(node, started=LONGEST_UPTIME, sequence=MOST_REPORTS - 1)
    await site.send(bad, first, {F + "cpu-a": "bad"})
    with pytest.raises(ReportError, match="newer report"):
        await site.send(Worker(node, started=2), first, {F + "cpu-a": "shut out"})
    plane.request("DELETE", f"{path}?gracePeriodSeconds=0")
    await asyncio.sleep(1.1)  # tokens tell whole seconds
    await site.send(Worker(node, started=3), site.token(node), {F + "cpu-a": "good"})
    assert labels_of(site.place, node) == {F + "cpu-a": "good"}


async def test_token_of_a_node_that_was_recreated(site: Site, nodes: list[str]) -> None:
    """Its pod, were it still there, ran on the old Node: the new one is left alone."""
    node, token = nodes[0], site.token(nodes[0])
    await site.send(Worker(node), token, {F + "cpu-a": "1"})
    site.place.delete(node)
    uid = site.place.create(node, {}, {}, BOOT)["metadata"]["uid"]
    await until_known(site.service, node, uid)
    with pytest.raises(ReportError, match="was replaced"):
        await site.send(Worker(node, started=2), token, {F + "cpu-a": "2"})


async def until_known(service: Service, node: str, uid: str) -> None:
    def known() -> bool:
        found = service._store.get(node)
        return found is not None and found.uid == uid

    await until(known)


async def test_nothing_is_said_in_plain_text(site: Site, nodes: list[str]) -> None:
    reporter = Reporter(f"localhost:{site.service.port}")
    with pytest.raises(ReportError, match="UNAVAILABLE"):
        await asyncio.to_thread(reporter.send, Worker(nodes[0]).report({}))


MODES = (
    ({}, {}, "none"),
    ({}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "token"),
    ({"insecure": "true"}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "none"),
    ({"kubeconfig": "x"}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "none"),
    ({}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBECONFIG": "x"}, "none"),
    ({"node_store": "file:x"}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "none"),
    ({"ca_file": "a", "cert_file": "b", "key_file": "c"}, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "mtls"),
    ({"auth": "token", "cert_file": "b", "key_file": "c"}, {}, "token"),
    ({"auth": "token", "ca_file": "a", "cert_file": "b", "key_file": "c"}, {}, "token"),
    ({"auth": "none", "ca_file": "a", "cert_file": "b", "key_file": "c"}, {}, "none"),
)


@pytest.mark.parametrize(("flags", "environ", "mode"), MODES)
def test_mode(flags: dict[str, str], environ: dict[str, str], mode: str) -> None:
    assert mode_of(parsed(**flags), environ) == mode


CONTRADICTIONS = (
    ({"auth": "token", "node_store": "file:x"}, "--auth=token needs an API server"),
    ({"auth": "token", "insecure": "true"}, "--insecure"),
    ({"auth": "token", "cert_file": "b"}, "-cert-file and -key-file must be given together"),
    ({"auth": "token", "ca_file": "b"}, "-cert-file and -key-file must be given together"),
    ({"auth": "mtls"}, "--auth=mtls needs"),
    ({"cert_file": "b", "key_file": "c"}, "all three or none"),
    ({"auth": "mtls", "cert_file": "b", "key_file": "c"}, "all three or none"),
)


@pytest.mark.parametrize(("flags", "reason"), CONTRADICTIONS)
def test_flags_that_contradict_each_other(flags: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        mode_of(parsed(**flags), {})


def test_plain_text_stays_on_loopback_unless_asked_for() -> None:
    assert make_security(parsed(), "none").listen == "localhost"
    assert make_security(parsed(insecure="true"), "none").listen == ""
    assert make_security(parsed(ca_file="a", cert_file="b", key_file="c"), "mtls").listen == ""
