"""/healthz, /readyz and /metrics of a running master."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from nfd.master.http.metrics import Metrics
from nfd.master.http.server import HttpServer
from nfd.runtime import failures
from nfd.runtime.failures import COUNTS
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Folder, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Folder(tmp_path)


async def test_http(place: Place, masters: Masters, name: str) -> None:
    place.create(name, {}, {}, BOOT)
    master = await masters.start()
    await send(master, Worker(name).report({"feature.node.kubernetes.io/cpu-a": "1", "kubernetes.io/x": "1"}))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{master.http_port}") as http:
        for path, text in (("/healthz", "ok\n"), ("/readyz", "ok\nfeatures of 1 of 1 nodes known\n")):
            async with http.get(path) as answer:
                assert (answer.status, await answer.text()) == (200, text)
        async with http.get("/metrics") as answer:
            plain = (await answer.text()).splitlines()
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        async with http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}) as answer:
            openmetrics = (await answer.text()).splitlines()
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert "nfd_master_node_updates_total 1" in plain
    assert "# TYPE nfd_master_node_updates_total counter" in plain
    assert "nfd_master_node_labels_rejected_total 1" in plain
    assert "nfd_master_reporting_nodes 1" in plain
    assert "nfd_master_reports_known 1" in plain
    assert "nfd_master_reports_replicated 0" in plain
    assert "# TYPE nfd_master_node_updates counter" in openmetrics
    assert openmetrics[-1] == "# EOF"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"\x16\x03\x01 no HTTP at all\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_answered_and_fills_no_log(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    server = HttpServer(Metrics("1", 0.0), lambda: "")
    port = await server.start("127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    finally:
        await server.stop()
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def begun(request: web.Request) -> web.StreamResponse:
    """An answer that fails in its middle."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    raise RecursionError


async def fails(request: web.Request) -> web.StreamResponse:
    raise MemoryError


async def says_no(request: web.Request) -> web.StreamResponse:
    raise web.HTTPForbidden(text="no\n")


async def test_a_handler_that_fails_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """By its path and with a traceback, and counted each time; an answer that says no is none."""
    failures._logged.clear()
    before = COUNTS["http handler"]
    server = HttpServer(Metrics("1", 0.0), lambda: "")
    server.add([web.get("/begun", begun), web.get("/fails", fails), web.get("/says-no", says_no)])
    port = await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as http:
            for _ in range(2):
                async with http.get("/fails") as answer:
                    assert answer.status == 500
                with pytest.raises(aiohttp.ClientPayloadError):
                    async with http.get("/begun") as answer:
                        await answer.read()
                for path, status in (("/says-no", 403), ("/healthz", 200)):
                    async with http.get(path) as answer:
                        assert answer.status == status
    finally:
        await server.stop()
    lines = [(one.getMessage(), one.fields["path"], one.exc_info is not None) for one in caplog.records]  # type: ignore[attr-defined]
    assert lines == [("unexpected error", "/fails", True), ("unexpected error", "/begun", True)]
    assert COUNTS["http handler"] == before + 4
