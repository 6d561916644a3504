"""Credentials of a kubeconfig that are replaced under a running master, and a server whose certificate has expired."""

from __future__ import annotations

import datetime
import json
import ssl
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from kubernetes.aio import client as aio
from kubernetes.aio.config.kube_config import load_kube_config

from nfd.errors import Forbidden
from nfd.kube.client import KubeClient, connect
from nfd.kube.credentials import LOOK, Credentials
from nfd.master.service import Options, Service
from nfd.store.kube import KubeStore
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.pki import new_key, server_names, write_key
from tests.faults.conftest import FaultMasters, Made
from tests.faults.proxy import FaultProxy
from tests.faults.test_api_trouble import AFTER, BEFORE
from tests.master.conftest import Worker, send
from tests.master.places import Cluster, labels_of, until
from tests.rpc.test_tls import Authority

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Config:
    """A kubeconfig with that user, the client made by it, and the time."""

    def __init__(self, plane: ControlPlane, folder: Path, user: dict[str, Any]) -> None:
        self.plane, self.folder, self.user = plane, folder, user
        self.now = 1000.0

    async def client(self) -> KubeClient:
        cluster = {"server": self.plane.url, "certificate-authority": str(self.plane.ca_file)}
        config = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": self.user}],
            "current-context": "c",
        }
        path = self.folder / "kubeconfig"
        path.write_text(json.dumps(config))
        configuration = aio.Configuration()
        loader = await load_kube_config(str(path), client_configuration=configuration, persist_config=False)
        client = KubeClient(aio.ApiClient(configuration))
        client._credentials = Credentials(client.api, loader, lambda: self.now)
        return client

    def later(self) -> None:
        self.now += LOOK + 1


async def user(client: KubeClient) -> str:
    """Who the server takes us for. Raises: Forbidden if it does not know us."""
    answer = await client.json("POST", WHO, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return str(answer["status"]["userInfo"]["username"]).rpartition(":")[2]


async def test_token_file(control_plane: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Beside the kubeconfig, with the line end that an editor leaves; while it is empty the old one stays in use."""
    token = tmp_path / "token"
    token.write_text(control_plane.service_account_token("first") + "\n")
    config = Config(control_plane, tmp_path, {"tokenFile": "token"})
    client = await config.client()
    assert await user(client) == "first"
    token.write_text("")
    for _ in range(3):
        config.later()
        assert await user(client) == "first"
    assert caplog.messages.count("cannot renew credentials; the previous ones stay in use") == 1
    token.write_text(control_plane.service_account_token("second") + "\n")
    assert await user(client) == "first", "looked at once a minute"
    config.later()
    assert await user(client) == "second"
    await client.close()


PLUGIN = """#!{python}
import json, pathlib
folder = pathlib.Path({folder!r})
count = folder / "asked"
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
status = {{"token": (folder / "token").read_text()}}
expires = (folder / "expires").read_text()
if expires:
    status["expirationTimestamp"] = expires
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.mark.parametrize("expires", ["2099-01-01T00:00:00Z", "2020-01-01T00:00:00Z", ""], ids=["later", "now", "never"])
async def test_exec_plugin(expires: str, control_plane: ControlPlane, tmp_path: Path) -> None:
    """It is asked again when its token has expired, or is refused."""
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, folder=str(tmp_path)))
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "expires").write_text(expires)
    (tmp_path / "token").write_text(control_plane.service_account_token("first"))
    ask = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    config = Config(control_plane, tmp_path, {"exec": ask})
    client = await config.client()
    assert await user(client) == "first"
    for _ in range(3):
        assert await user(client) == "first"
    assert (tmp_path / "asked").read_text() == "1"
    (tmp_path / "token").write_text(control_plane.service_account_token("second"))
    config.later()
    assert await user(client) == ("second" if expires.startswith("2020") else "first")
    client._configuration.api_key["BearerToken"] = "Bearer wrong"
    with pytest.raises(Forbidden, match="401"):
        await user(client)
    config.later()
    assert await user(client) == "second"
    await client.close()


@asynccontextmanager
async def serving(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], tls: ssl.SSLContext
) -> AsyncIterator[int]:
    """A server on loopback; yields its port."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def test_client_certificates_of_files_that_change(tmp_path: Path, control_plane: ControlPlane) -> None:
    """New connections show the new one; the server here asks for a certificate of that authority."""
    authority = Authority()
    files = authority.issue(tmp_path, "first")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.cert, files.key)
    shown: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        subject = request.transport.get_extra_info("peercert")["subject"]
        shown.append(dict(pair for part in subject for pair in part)["commonName"])
        return web.json_response({}, headers={"Connection": "close"})

    async with serving(answer, context) as port:
        configuration = aio.Configuration(host=f"https://127.0.0.1:{port}")
        configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file = files.ca, files.cert, files.key
        client, now = KubeClient(aio.ApiClient(configuration)), [1000.0]
        client._credentials = Credentials(client.api, None, lambda: now[0])
        await client.json("GET", "/")
        authority.issue(tmp_path, "second")
        await client.json("GET", "/")
        now[0] += LOOK + 1
        await client.json("GET", "/")
        assert shown == ["first", "first", "second"]
        Path(files.cert).write_text("half")
        now[0] += LOOK + 1
        await client.json("GET", "/")
        assert shown[-1] == "second"
        await client.close()


def certificate(authority: Authority, folder: Path, days: int) -> tuple[Path, Path]:
    """One for 127.0.0.1 that ends after so many days, and its key."""
    key, now = new_key(), datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=9))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
        .add_extension(server_names(), critical=True)
    )
    path = folder / f"{days}.crt"
    path.write_bytes(builder.sign(authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    write_key(path.with_suffix(".key"), key)
    return path, path.with_suffix(".key")


async def test_an_api_server_whose_certificate_has_expired(
    masters: FaultMasters,
    proxy: FaultProxy,
    place: Cluster,
    make: Made,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is waited for: few tries, one line each for watch and node, nothing removed; a new certificate ends it."""
    authority, config = Authority(), json.loads(proxy.kubeconfig().read_text())
    (tmp_path / "ca").write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    config["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "ca")
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    good, bad = certificate(authority, tmp_path, 1), certificate(authority, tmp_path, -1)
    proxy.show(*good)
    name = make()
    options = Options(host="127.0.0.1", port=0, http_port=0, resync=0)
    master, worker = Service(KubeStore(await connect(str(tmp_path / "kubeconfig"))), options), Worker(name)
    masters.stack.push_async_callback(master.stop)
    await master.start()
    await send(master, worker.report(BEFORE))
    proxy.show(*bad)
    proxy.cut_all()
    seen = len(proxy.seen)
    reply = await send(master, worker.report(AFTER))
    assert reply.heartbeat < 70
    assert labels_of(place, name) == BEFORE
    told = [text for text in caplog.messages if text in ("watch interrupted", "cannot update node; trying again")]
    assert sorted(told) == ["cannot update node; trying again", "watch interrupted"]
    assert any("certificate has expired" in str(vars(record)) for record in caplog.records)
    assert master.metrics["node_update_requests"] < 15
    assert len(proxy.seen) == seen, "nothing is said to a server that is not known"
    proxy.show(*good)
    await until(lambda: labels_of(place, name) == AFTER)
