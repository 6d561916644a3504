"""Where the worker's token goes: with its own call, over TLS or on loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nfd.errors import ReportError
from nfd.report import Report
from nfd.rpc import host_of, is_loopback
from nfd.rpc.client import Reporter
from nfd.rpc.tls import TlsFiles
from tests.rpc.loopback import running
from tests.rpc.test_tls import Authority


async def test_token_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    async with running() as master:
        for token in ("first", "second"):
            file.write_text(f"{token}\n")
            await master.send(Report("node-1"), token_file=str(file))
        await master.send(Report("node-1"))
        assert [peer.authorization for peer in master.taken.peers] == ["Bearer first", "Bearer second", ""]


async def test_ca_file_alone_is_enough_for_who_shows_a_token(tmp_path: Path) -> None:
    """The server shows its certificate and asks for none."""
    files = Authority().issue(tmp_path / "master", "master")
    async with running(TlsFiles(cert=files.cert, key=files.key)) as master:
        await master.send(Report("node-1"), tls=TlsFiles(files.ca))
        stranger = Authority().issue(tmp_path / "stranger", "master")
        with pytest.raises(ReportError, match="UNAVAILABLE"):
            await master.send(Report("node-1"), tls=TlsFiles(stranger.ca))
        assert [peer.common_name for peer in master.taken.peers] == [""]


@pytest.mark.parametrize("content", [None, "", " \n", "a\nb", "é", "\x00"])
async def test_token_that_cannot_be_shown(tmp_path: Path, content: str | None) -> None:
    """Tried again later: the kubelet may not have written it yet."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ReportError, match="token: ") as caught:
        await asyncio.to_thread(Reporter("localhost:1", token_file=str(file)).send, Report("node-1"))
    assert caught.value.retry


@pytest.mark.parametrize("bundle", ["", "\n"])
async def test_empty_bundle_trusts_nobody(tmp_path: Path, bundle: str) -> None:
    """A ConfigMap that the master has not filled yet must not stand for the system's own authorities."""
    file = tmp_path / "ca.crt"
    file.write_text(bundle)
    with pytest.raises(ReportError, match=r"TLS files: .*is empty"):
        await asyncio.to_thread(Reporter("localhost:1", tls=TlsFiles(str(file))).send, Report("node-1"))


def test_token_stays_here_without_tls(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret")
    reporter = Reporter("192.0.2.1:8080", token_file=str(file))
    assert reporter._token("192.0.2.1:8080") == ()
    assert reporter._token("[::1]:8080") != ()


@pytest.mark.parametrize(
    ("target", "host", "local"),
    [
        ("localhost:8080", "localhost", True),
        ("LOCALHOST.:8080", "LOCALHOST.", True),
        ("127.0.0.2:1", "127.0.0.2", True),
        ("[::1]:8080", "::1", True),
        ("dns:///localhost:8080", "localhost", True),
        ("nfd-master:8080", "nfd-master", False),
        ("10.0.0.1:8080", "10.0.0.1", False),
        ("localhost.example:8080", "localhost.example", False),
        ("[fe80::1]:8080", "fe80::1", False),
        ("127.0.0.1.example:1", "127.0.0.1.example", False),
    ],
)
def test_what_stays_on_this_machine(target: str, host: str, local: bool) -> None:
    assert host_of(target) == host
    assert is_loopback(host) is local
