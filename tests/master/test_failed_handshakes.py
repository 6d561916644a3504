"""A TLS handshake that fails leaves no line in the log of the master."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.controlplane.process import free_ports
from tests.e2e.programs import Program, eventually
from tests.rpc.test_tls import Authority

BAD = (
    b"GET / HTTP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    b"\0" * 99,
)
RAW = "Handshake failed"


@pytest.mark.parametrize("level", [None, "INFO"])
def test_failed_handshakes(tmp_path: Path, level: str | None) -> None:
    """Each line is JSON, unless the operator asks for the lines of gRPC's C core."""
    files = Authority().issue(tmp_path, "master")
    port, http_port = free_ports(2)
    certificates = (f"-ca-file={files.ca}", f"-cert-file={files.cert}", f"-key-file={files.key}")
    flags = ("-config=", f"--node-store=file:{tmp_path / 'nodes'}", f"-port={port}", f"--http-port={http_port}")
    variables = {"GRPC_VERBOSITY": level} if level else {}
    master = Program("nfd-master", (*flags, *certificates), tmp_path / "log", http_port, variables)
    master.start()
    try:
        eventually(master.ready)
        for number in range(20):
            fail(port, BAD[number % len(BAD)])
        if level:
            eventually(lambda: RAW in master.text())
        assert master.stop() == 0
    finally:
        master.kill()
    raw = [line for line in master.text().splitlines() if not is_json(line)]
    assert bool(raw) is bool(level), raw


def fail(port: int, data: bytes) -> None:
    """Send what is no handshake, and hear the master hang up."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as peer:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass


def is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
