"""Limits for the HTTP port: number of connections, size of a request, and time for a request and its answer.

aiohttp limits each header, but neither all headers together nor the connections. If file descriptors run out, asyncio
tries to accept as often as the backlog allows, with a traceback and a restart each time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from nfd.runtime import log, tasks
from nfd.runtime.cache import Throttle
from nfd.runtime.failures import failed
from nfd.runtime.http_server import listen
from nfd.runtime.ports import descriptors

SEND_BUFFER = 64 * 1024
"""Bytes of an answer in the kernel's send buffer. With megabytes, a client that reads nothing would not be noticed."""
TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 17\r\nConnection: close\r\n\r\nrequest too long\n"
)
_log = log.get("http")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one port.

    `connections`: the most at a time, at most a quarter of all file descriptors; one more closes the longest silent
    one. `head`: bytes of a request, which must arrive within `patience` seconds. A client that does not read `step`
    bytes of an answer, or the rest of it, in that time is disconnected. `idle`: seconds until the next request begins.
    `pause`: seconds without accepting when there is no file descriptor left.
    """

    connections: int = 256
    head: int = 16 * 1024
    patience: float = 10.0
    step: int = 16 * 1024
    idle: float = 30.0
    pause: float = 1.0


class Listener:
    """Accepts connections for `serve`, which makes the protocol for each."""

    def __init__(self, bounds: ConnectionLimits) -> None:
        self.links: set[Connection] = set()
        self._bounds = bounds
        self._pace = bounds.patience / 8
        self._most = min(bounds.connections, max(1, descriptors() // 4))
        self._accepting: asyncio.Task[None] | None = None
        self._listener: socket.socket | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._throttle = Throttle()

    def open(self, host: str, port: int, serve: Callable[[], asyncio.Protocol]) -> int:
        """Listen and return the port. Raises: OSError."""
        listener = listen(port, host)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)  # inherited by accepted connections
        self._listener = listener

        def make() -> Connection:
            return Connection(self, self._bounds, serve())

        self._accepting = tasks.start("http connections", lambda: self._accept(listener, make))
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Accept no more connections; open ones stay."""
        if self._accepting is not None:
            await tasks.cancel([self._accepting])
        if self._listener is not None:
            self._listener.close()

    def enter(self, link: Connection) -> None:
        """Register an open connection."""
        if len(self.links) >= self._most:
            self._cut(min(self.links, key=lambda one: one.heard))
        self.links.add(link)
        self._watch()

    def leave(self, link: Connection) -> None:
        self.links.discard(link)

    async def _accept(self, listener: socket.socket, make: Callable[[], Connection]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # out of file descriptors or memory: the backlog waits
                self._log_failure(error)
                await asyncio.sleep(self._bounds.pause)
                continue
            try:
                await loop.connect_accepted_socket(make, accepted)
            except OSError:
                accepted.close()
            except Exception as error:  # a defect with one connection must not stop the others
                accepted.close()
                failed("http connections", error)
            except BaseException:
                accepted.close()
                raise

    def _log_failure(self, error: OSError) -> None:
        if self._throttle.is_due():
            _log.warning("cannot accept HTTP connections; trying again", error=error.strerror)

    def _watch(self) -> None:
        """Check the connections several times within their time limits, as long as there are any."""
        if self.links and self._watching is None:
            self._watching = asyncio.get_running_loop().call_later(self._pace, self._look)

    def _look(self) -> None:
        """Close overdue connections. If this check itself is late, they get time until the next one."""
        looking, self._watching = self._watching, None
        now = asyncio.get_running_loop().time()
        if looking is not None and now - looking.when() < self._pace:
            for link in [one for one in self.links if one.overdue(now)]:
                self._cut(link)
        self._watch()

    def _cut(self, link: Connection) -> None:
        self.links.discard(link)
        link.cut()


class Connection(asyncio.Protocol):
    """A connection; data are passed to `protocol`."""

    def __init__(self, listener: Listener, bounds: ConnectionLimits, protocol: asyncio.Protocol) -> None:
        self.heard = 0.0
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._bounds = bounds
        self._protocol = protocol
        self._transport: asyncio.Transport | None = None
        self._asking: float | None = None
        self._size = 0
        self._untaken = 0
        self._taken = 0.0
        self._served = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._asking = self.heard = self._loop.time()
        self._protocol.connection_made(transport)
        self._listener.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.leave(self)
        self._protocol.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.heard = self._loop.time()
        if self._asking is None:
            self._asking = self.heard
        self._size += len(data)
        if self._size <= self._bounds.head:
            self._protocol.data_received(data)
        elif self._transport is not None:
            if not self._served:
                self._transport.write(TOO_LONG)
            self._transport.close()

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._taken = self.heard = self._loop.time()
        self._protocol.resume_writing()

    def asked(self) -> None:
        """A request is complete."""
        self._asking, self._size, self._served = None, 0, True

    def overdue(self, now: float) -> bool:
        """Whether a request, or reading the answer, takes too long."""
        left = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if left > self._untaken or left <= self._untaken - self._bounds.step:
            self._untaken, self._taken = left, now
        since = self._taken if left else self._asking
        return since is not None and now - since > self._bounds.patience

    def cut(self) -> None:
        """Close at once without sending the rest."""
        if self._transport is not None:
            self._transport.abort()


@web.middleware
async def mark_complete(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware: marks on the connection that the request is complete."""
    link = request.transport.get_protocol() if request.transport is not None else None
    if isinstance(link, Connection):
        link.asked()
    return await handler(request)
