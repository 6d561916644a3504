"""The HTTP port against clients that take places, time or memory: it goes on answering, and writes no log of them."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from nfd.master.http.limits import Connection, ConnectionLimits
from nfd.master.http.metrics import Metrics
from nfd.master.http.server import HttpServer
from nfd.runtime import tasks

BIG = b"x" * 8_000_000
HALF = b"GET /met"
PROBE = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def _big(request: web.Request) -> web.Response:
    return web.Response(body=BIG)


async def _stream(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for start in range(0, len(BIG), 50_000):
        await answer.write(BIG[start : start + 50_000])
    return answer


@dataclass
class Running:
    server: HttpServer
    port: int
    links: list[socket.socket] = field(default_factory=list)

    def connect(self, data: bytes = b"") -> socket.socket:
        """A client whose kernel holds little of what it does not read."""
        link = socket.socket()
        self.links.append(link)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", self.port))
        link.sendall(data)
        link.setblocking(False)
        return link

    async def probe(self) -> bytes:
        return (await received(self.connect(LAST)))[:15]


@asynccontextmanager
async def serving(bounds: ConnectionLimits) -> AsyncIterator[Running]:
    server = HttpServer(Metrics("1", 0.0), lambda: "", bounds)
    server.add([web.get("/big", _big), web.get("/stream", _stream)])
    running = Running(server, await server.start("127.0.0.1", 0))
    try:
        yield running
    finally:
        for link in running.links:
            link.close()
        await server.stop()


async def received(link: socket.socket, slowly: float = 0.0) -> bytes:
    """All up to the end of the connection, which may be an abrupt one."""
    parts = []
    async with asyncio.timeout(10):
        try:
            while part := await asyncio.get_running_loop().sock_recv(link, 65536):
                parts.append(part)
                await asyncio.sleep(slowly)
        except ConnectionResetError:
            pass
    return b"".join(parts)


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not done():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("data", [b"", HALF, b"GET / HTTP/1.1\r\nX: y\r\n"])
async def test_a_request_has_so_much_time(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(patience=0.4)) as running:
        started = time.monotonic()
        link = running.connect(data)
        for _ in range(3 if data else 0):  # a byte now and then earns no time
            await asyncio.sleep(0.1)
            link.send(b"a")
        assert await received(link) == b""
        assert 0.35 < time.monotonic() - started < 3
        assert not running.server.listener.links
    assert not caplog.records


async def test_the_next_request_of_a_connection_has_as_much() -> None:
    async with serving(ConnectionLimits(patience=0.4)) as running:
        link = running.connect(PROBE)
        await asyncio.sleep(0.8)
        link.send(PROBE)
        await asyncio.sleep(0.1)
        started = time.monotonic()
        link.send(HALF)
        assert (await received(link)).count(b"200 OK") == 2
        assert 0.3 < time.monotonic() - started < 3


async def test_an_idle_connection_ends() -> None:
    async with serving(ConnectionLimits(idle=0.3)) as running:
        assert b"200 OK" in await received(running.connect(PROBE))


async def test_a_request_has_so_many_bytes(caplog: pytest.LogCaptureFixture) -> None:
    """All of its headers together; aiohttp itself takes 128 of 8 KiB."""
    async with serving(ConnectionLimits()) as running:
        heads = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 7_900) for number in range(2))
        fits = running.connect(LAST[:-2] + heads[:-100] + b"\r\n\r\n")
        assert b"200 OK" in await received(fits)
        large = running.connect(PROBE[:-2] + heads + b"Y: " + b"a" * 1_000)
        assert (await received(large)).startswith(b"HTTP/1.1 431 ")
        body = running.connect(b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
        body.send(b"a" * 1_000)
        assert b" 405 " in await asyncio.get_running_loop().sock_recv(body, 1000)
        body.send(b"a" * 20_000)
        await received(body)
        for _ in range(50):  # requests one after the other are none too large
            fits = running.connect(PROBE * 9 + LAST)
            assert (await received(fits)).count(b"200 OK") == 10
    assert not caplog.records


async def test_the_one_that_was_silent_longest_goes_for_a_newer_one(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(connections=8)) as running:
        links = [running.connect(HALF) for _ in range(8)]
        await until(lambda: len(running.server.listener.links) == 8)
        links[0].send(b"rics")
        await asyncio.sleep(0.05)
        assert await running.probe() == b"HTTP/1.1 200 OK"
        assert await received(links[1]) == b""
        for _ in range(100):
            running.connect(HALF)
        assert await running.probe() == b"HTTP/1.1 200 OK"
        assert len(running.server.listener.links) <= 8
    assert not caplog.records


@pytest.mark.parametrize("path", [b"/big", b"/stream"])
async def test_an_answer_that_nobody_reads_ends(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(patience=0.4)) as running:
        started = time.monotonic()
        for _ in range(4):
            running.connect(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path * 5)
        await until(lambda: len(running.server.listener.links) == 4)
        await until(lambda: not running.server.listener.links)
        assert 0.35 < time.monotonic() - started < 5
        assert await running.probe() == b"HTTP/1.1 200 OK"
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("path", [b"/big", b"/stream"])
async def test_an_answer_that_is_read_slowly_is_whole(path: bytes) -> None:
    """It takes several times the time in which something of it must be taken."""
    async with serving(ConnectionLimits(patience=0.3)) as running:
        link = running.connect(b"GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % path)
        started = time.monotonic()
        assert len(await received(link, 0.0005)) > len(BIG)
        assert time.monotonic() - started > 0.6


async def test_without_descriptors_it_waits_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ConnectionLimits(pause=0.2)) as running:
        waiting = [socket.socket() for _ in range(20)]
        running.links += waiting
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
            for link in waiting:
                link.connect(("127.0.0.1", running.port))
                link.sendall(LAST)
                link.setblocking(False)
            used = time.process_time()
            await asyncio.sleep(1)
            used = time.process_time() - used
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert {(await received(link))[:15] for link in waiting} == {b"HTTP/1.1 200 OK"}
    assert used < 0.3
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("nfd.http", "cannot accept HTTP connections; trying again")
    ]


async def test_a_defect_with_one_connection_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that accepts connections is not started again for it, which would take a while."""
    faults, init = iter([KeyError("injected")]), Connection.__init__

    def fail_once(self: Connection, *parts: Any) -> None:
        for fault in faults:
            raise fault
        init(self, *parts)

    monkeypatch.setattr(Connection, "__init__", fail_once)
    monkeypatch.setattr(tasks, "BACKOFF", (600.0, 600.0))
    async with serving(ConnectionLimits()) as running:
        assert await running.probe() == b""
        assert await running.probe() == b"HTTP/1.1 200 OK"
