"""Who may stay on the HTTP port: so many connections, so long a request, so much time for it and for its answer.

aiohttp bounds each header by itself, but neither all of them nor the connections. And asyncio's own way of accepting
goes on as often as the backlog has places when descriptors have run out, with a traceback and a new start for each.
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
from nfd.runtime.health import listen
from nfd.runtime.ports import descriptors

HELD = 64 * 1024
"""Bytes of an answer that the kernel holds: with megabytes nothing would be taken for as long as those are read."""
TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 17\r\nConnection: close\r\n\r\nrequest too long\n"
)
_log = log.get("http")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Of one port.

    `connections` at a time, a quarter of our descriptors at most: for a newer one the one that was silent longest goes.
    `head` bytes for a request, within `patience` seconds; who does not take `step` bytes of an answer in that time, or
    the rest of it, is cut off. `idle` seconds for the next request to begin, `pause` without accepting when there is no
    descriptor left.
    """

    connections: int = 256
    head: int = 16 * 1024
    patience: float = 10.0
    step: int = 16 * 1024
    idle: float = 30.0
    pause: float = 1.0


class Listener:
    """Listens, and lets connections in to `serve`, which makes the protocol that answers one of them."""

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
        """The port. Raises: OSError."""
        listener = listen(port, host)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, HELD)  # for all that are accepted
        self._listener = listener

        def make() -> Connection:
            return Connection(self, self._bounds, serve())

        self._accepting = tasks.start("http connections", lambda: self._accept(listener, make))
        return int(listener.getsockname()[1])

    async def close(self) -> None:
        """Take no more; those that are open stay."""
        if self._accepting is not None:
            await tasks.cancel([self._accepting])
        if self._listener is not None:
            self._listener.close()

    def enter(self, link: Connection) -> None:
        """For a link to say that it is open."""
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
            except OSError as error:  # out of descriptors or memory: the backlog waits
                self._complain(error)
                await asyncio.sleep(self._bounds.pause)
                continue
            try:
                await loop.connect_accepted_socket(make, accepted)
            except OSError:
                accepted.close()
            except Exception as error:  # what one connection brings out keeps no other waiting
                accepted.close()
                failed("http connections", error)
            except BaseException:
                accepted.close()
                raise

    def _complain(self, error: OSError) -> None:
        if self._throttle.is_due():
            _log.warning("connections over HTTP have to wait", error=error.strerror)

    def _watch(self) -> None:
        """Look at the links some times in the seconds they are given, as long as there are any."""
        if self.links and self._watching is None:
            self._watching = asyncio.get_running_loop().call_later(self._pace, self._look)

    def _look(self) -> None:
        """If we come late ourselves, others may have been waiting for us: they have until the next look."""
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
    """A connection; what it carries goes on to the protocol behind."""

    def __init__(self, door: Listener, bounds: ConnectionLimits, behind: asyncio.Protocol) -> None:
        self.heard = 0.0
        self._loop = asyncio.get_running_loop()
        self._door = door
        self._bounds = bounds
        self._behind = behind
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
        self._behind.connection_made(transport)
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.leave(self)
        self._behind.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.heard = self._loop.time()
        if self._asking is None:
            self._asking = self.heard
        self._size += len(data)
        if self._size <= self._bounds.head:
            self._behind.data_received(data)
        elif self._transport is not None:
            if not self._served:
                self._transport.write(TOO_LONG)
            self._transport.close()

    def eof_received(self) -> bool | None:
        return self._behind.eof_received()

    def pause_writing(self) -> None:
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        self._taken = self.heard = self._loop.time()
        self._behind.resume_writing()

    def asked(self) -> None:
        """A request was complete."""
        self._asking, self._size, self._served = None, 0, True

    def overdue(self, now: float) -> bool:
        """Whether a request, or the taking of an answer, lasts too long."""
        left = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if left > self._untaken or left <= self._untaken - self._bounds.step:
            self._untaken, self._taken = left, now
        since = self._taken if left else self._asking
        return since is not None and now - since > self._bounds.patience

    def cut(self) -> None:
        """Close at once; what is not sent yet is not sent."""
        if self._transport is not None:
            self._transport.abort()


@web.middleware
async def let_in(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Tells a request's link that it was complete."""
    link = request.transport.get_protocol() if request.transport is not None else None
    if isinstance(link, Connection):
        link.asked()
    return await handler(request)
