"""Mutual TLS with the three files, and what happens when they change or are not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from nfd.errors import ReportError
from nfd.report import Report
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from tests.controlplane.pki import certify, new_key, write_key
from tests.rpc import nfd016
from tests.rpc.loopback import running

PEM = serialization.Encoding.PEM


class Authority:
    """A certificate authority that writes file triples."""

    def __init__(self) -> None:
        self.key = new_key()
        self.certificate = certify("test-ca", self.key, issuer=None, signer=self.key)

    def issue(self, folder: Path, name: str) -> TlsFiles:
        folder.mkdir(exist_ok=True)
        key = new_key()
        certificate = certify(name, key, issuer=self.certificate, signer=self.key)
        files = TlsFiles(str(folder / "ca.crt"), str(folder / "tls.crt"), str(folder / "tls.key"))
        Path(files.ca).write_bytes(self.certificate.public_bytes(PEM))
        Path(files.cert).write_bytes(certificate.public_bytes(PEM))
        Path(files.key).unlink(missing_ok=True)
        write_key(Path(files.key), key)
        return files


async def test_both_sides_verify_each_other(tmp_path: Path) -> None:
    """The handler learns the names of the client's certificate."""
    authority = Authority()
    worker = authority.issue(tmp_path / "worker", "node-1")
    async with running(authority.issue(tmp_path / "master", "master")) as master:
        await master.send(Report("node-1"), tls=worker)
        (peer,) = master.taken.peers
        assert peer.common_name == "node-1"
        assert "localhost" in peer.alternative_names
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"))
        stranger = Authority().issue(tmp_path / "stranger", "node-1")
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"), tls=TlsFiles(worker.ca, stranger.cert, stranger.key))
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"), tls=TlsFiles(stranger.ca, worker.cert, worker.key))
        assert len(master.taken.peers) == 1


async def test_server_name_override(tmp_path: Path) -> None:
    """The certificate names localhost and 127.0.0.1; another name must be asked for on purpose."""
    authority = Authority()
    worker = authority.issue(tmp_path / "worker", "node-1")
    async with running(authority.issue(tmp_path / "master", "master")) as master:
        await master.send(Report("node-1"), tls=worker, server_name="kubernetes.default.svc")
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"), tls=worker, server_name="elsewhere")


async def test_new_files_are_used_without_a_restart(tmp_path: Path) -> None:
    """A new authority on both sides; then a broken file on the server, which goes on with the last good ones."""
    old, new = Authority(), Authority()
    files = old.issue(tmp_path / "master", "master")
    worker = old.issue(tmp_path / "worker", "node-1")
    async with running(files) as master:
        await master.send(Report("node-1"), tls=worker)
        new.issue(tmp_path / "master", "master")
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"), tls=worker)
        new.issue(tmp_path / "worker", "node-1")
        await master.send(Report("node-1"), tls=worker)
        for broken in (files.key, files.cert, files.ca):
            kept = Path(broken).read_bytes()
            Path(broken).write_text("-----BEGIN NONSENSE-----\n")
            await master.send(Report("node-1"), tls=worker)
            Path(broken).unlink()
            await master.send(Report("node-1"), tls=worker)
            Path(broken).write_bytes(kept)
        await master.send(Report("node-1"), tls=worker)


@pytest.mark.parametrize("missing", ["ca", "cert", "key"])
async def test_files_that_are_not_there_yet(tmp_path: Path, missing: str) -> None:
    """The worker tries again later: a Secret may be filled after the pod has started."""
    files = Authority().issue(tmp_path, "node-1")
    Path(getattr(files, missing)).unlink()
    with pytest.raises(ReportError, match=r"TLS files: .*No such file") as caught:
        await asyncio.to_thread(Reporter("localhost:1", tls=files).send, Report("node-1"))
    assert caught.value.retry


async def test_master_of_0_16_with_tls(tmp_path: Path) -> None:
    authority = Authority()
    master = authority.issue(tmp_path / "master", "master")
    read = [Path(path).read_bytes() for path in (master.key, master.cert, master.ca)]
    import grpc

    credentials = grpc.ssl_server_credentials([(read[0], read[1])], read[2], require_client_auth=True)
    with nfd016.master(credentials) as (port, taken):
        worker = authority.issue(tmp_path / "worker", "node-1")
        await asyncio.to_thread(Reporter(f"localhost:{port}", tls=worker).send, Report("node-1"))
    assert [message.node_name for message in taken] == ["node-1"]
