"""A proxy in front of the real API server that makes trouble: real TLS sockets on both sides, faults by rule.

    with FaultProxy(plane) as proxy:
        kubeconfig = proxy.kubeconfig()
        with proxy.inject(answer(503), method="PATCH", path=r"/nodes/") as rule:
            ...
        assert rule.hits

It runs in a thread of its own, so tests of all kinds and whole processes can go through it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from aiohttp import web

from tests.controlplane import objects
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.pki import Pki

T = TypeVar("T")
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "content-length", "upgrade"})
"""Headers that belong to one connection (RFC 9110, 7.6.1), and those that are made anew."""


@dataclass
class Exchange:
    """One request on its way: a fault answers it, lets it through, or cuts its connection."""

    proxy: FaultProxy
    request: web.Request
    released: asyncio.Event
    """Set when the fault that hit it is taken back."""

    async def forward(self) -> web.StreamResponse:
        return await self.proxy.forward(self.request)

    async def fetch(self) -> aiohttp.ClientResponse:
        """The server's answer, in full and not passed on."""
        answer = await self.proxy.ask(self.request)
        await answer.read()
        return answer

    def cut(self) -> web.StreamResponse:
        """Reset the connection."""
        if self.request.transport is not None:
            self.request.transport.abort()
        raise ConnectionResetError("cut by the test")


Fault = Callable[[Exchange], Awaitable[web.StreamResponse]]


@dataclass
class Rule:
    """A fault and the requests it hits; `times` is how many at most, `share` which part of them. A context manager."""

    proxy: FaultProxy
    fault: Fault
    method: str
    path: re.Pattern[str]
    watch: bool | None
    times: int | None
    share: float
    hits: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.remove()

    def remove(self) -> None:
        """No more faults; what hangs by it goes on."""
        self.proxy.run(self._remove())

    async def _remove(self) -> None:
        if self in self.proxy.rules:
            self.proxy.rules.remove(self)
        self.released.set()

    def takes(self, request: web.Request) -> bool:
        return (
            self.method in ("", request.method)
            and self.path.search(request.raw_path) is not None
            and self.watch in (None, "watch" in request.query)
            and (self.times is None or self.hits < self.times)
            and self.proxy.random.random() < self.share
        )


@dataclass(frozen=True)
class Seen:
    """A request that came to the proxy, at a monotonic time."""

    method: str
    path: str
    watch: bool
    agent: str
    at: float


class FaultProxy:
    """`seed` decides which requests a rule with a `share` hits."""

    def __init__(self, plane: ControlPlane, seed: int = 0) -> None:
        self.plane = plane
        self.random = random.Random(seed)
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def kubeconfig(self, user_or_token: str = "admin") -> Path:
        """A kubeconfig file that leads through the proxy."""
        token = self.plane.token(user_or_token)
        path = self.plane.folder / f"kubeconfig-proxy-{self.port}-{abs(hash(token))}"
        path.touch(mode=0o600)
        path.write_text(json.dumps(objects.kubeconfig(self.url, self.plane.ca_file, token)))
        return path

    def inject(
        self,
        fault: Fault,
        *,
        method: str = "",
        path: str = "",
        watch: bool | None = None,
        times: int | None = None,
        share: float = 1.0,
    ) -> Rule:
        """Make trouble for requests of that method, path and query (a pattern) until the rule is removed."""
        return self.run(self._inject(fault, method, re.compile(path), watch, times, share))

    def calm(self) -> None:
        """Take back all faults."""
        for rule in list(self.rules):
            rule.remove()
        self.thaw()

    def freeze(self) -> None:
        """As if the network were gone: nothing goes through in either direction, and nobody is told."""
        self.run(self._set_frozen(True))

    def thaw(self) -> None:
        self.run(self._set_frozen(False))

    def cut_all(self) -> None:
        """Reset every connection that stands."""
        self.run(self._cut_all())

    def show(self, certificate: Path, key: Path) -> None:
        """New connections are shown this certificate, until the next one is."""
        self._tls.load_cert_chain(certificate, key)

    def count(self, method: str = "", path: str = "", since: float = 0.0, agent: str = "") -> int:
        """How many requests of that method and path came since that monotonic time."""
        wanted = re.compile(path)
        return sum(
            one.method.startswith(method) and bool(wanted.search(one.path)) and agent in one.agent
            for one in list(self.seen)
            if one.at >= since
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _inject(
        self,
        fault: Fault,
        method: str,
        path: re.Pattern[str],
        watch: bool | None,
        times: int | None,
        share: float,
    ) -> Rule:
        rule = Rule(self, fault, method, path, watch, times, share)
        self.rules.insert(0, rule)
        return rule

    async def _start(self) -> None:
        self._moving = asyncio.Event()
        self._moving.set()
        self._open: set[asyncio.Transport] = set()
        trust = ssl.create_default_context(cafile=str(self.plane.ca_file))
        connector = aiohttp.TCPConnector(limit=0, ssl=trust)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        pki = Pki.inside(self.plane.folder)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.show(pki.certificate, pki.key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        for rule in list(self.rules):
            await rule._remove()
        self._moving.set()
        await self._cut_all()
        await self._runner.cleanup()
        await self._session.close()
        for _ in range(5):
            await asyncio.sleep(0.01)  # connections that were reset are closed by the loop's next rounds

    async def _set_frozen(self, frozen: bool) -> None:
        (self._moving.clear if frozen else self._moving.set)()

    async def _cut_all(self) -> None:
        for transport in {*self._open, *(one.transport for one in self._runner.server.connections)} - {None}:
            transport.abort()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        self.seen.append(Seen(request.method, request.raw_path, "watch" in request.query, agent, time.monotonic()))
        transport = request.transport
        if transport is not None:
            self._open.add(transport)
        try:
            await self._moving.wait()
            rule = next((rule for rule in self.rules if rule.takes(request)), None)
            if rule is None:
                return await self.forward(request)
            rule.hits += 1
            return await rule.fault(Exchange(self, request, rule.released))
        except (aiohttp.ClientError, ConnectionResetError):
            if transport is not None:
                transport.abort()
            raise asyncio.CancelledError from None
        finally:
            if transport is not None:
                self._open.discard(transport)

    async def ask(self, request: web.Request) -> aiohttp.ClientResponse:
        """Put the request to the server."""
        headers = [(key, value) for key, value in request.headers.items() if key.lower() not in _HOP]
        return await self._session.request(
            request.method,
            f"{self.plane.url}{request.raw_path}",
            headers=headers,
            data=await request.read() or None,
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Put it to the server and pass on the answer as it comes."""
        answer = await self.ask(request)
        try:
            await self._moving.wait()
            response = web.StreamResponse(status=answer.status, headers=passed_on(answer))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await self._moving.wait()
                await response.write(chunk)
            await response.write_eof()
            return response
        finally:
            answer.close()


def passed_on(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    return [(key, value) for key, value in answer.headers.items() if key.lower() not in _HOP]
