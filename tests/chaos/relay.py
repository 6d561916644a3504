"""A TCP relay on loopback that can reset and refuse connections, drop their data or slow it: a network between pods."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
Address = tuple[str, int]
CHUNK = 65536
SLOW_CHUNK = 1024
"""Bytes that are passed on at a time; few on a slow network, so that its rate is even."""


class Way(StrEnum):
    """The direction of data, as seen by who opened the connection."""

    OUT = "out"
    BACK = "back"


BOTH = frozenset(Way)


class Network:
    """The event loop, in a thread of its own, that all relays run in."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()
        self.servers: list[asyncio.Server] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def close(self) -> None:
        self.run(self._cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _cancel_all(self) -> None:
        for server in self.servers:
            server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # connections that were reset are closed by the loop's next rounds


class Relay:
    """Listens on `host:port` (port 0: a free one) and leads to one of `targets`, chosen as kube-proxy does: blindly."""

    def __init__(
        self, network: Network, host: str, port: int, targets: Callable[[], Sequence[Address]], seed: int
    ) -> None:
        self._network, self._targets, self._random = network, targets, random.Random(seed)
        self._open: set[asyncio.StreamWriter] = set()
        self._refusing = False
        self._dropped: frozenset[Way] = frozenset()
        self._delay = self._seconds_per_byte = 0.0
        self._server = network.run(asyncio.start_server(self._serve, host, port))
        network.servers.append(self._server)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def fail(self, *, silent: bool, ways: Collection[Way] = BOTH) -> None:
        """Nothing goes through: data of these directions are dropped if `silent`, else connections are reset and
        refused."""
        self._network.run(self._fail(frozenset(ways) if silent else frozenset()))

    def mend(self) -> None:
        self._network.run(self._mend())

    def reset(self) -> None:
        """Reset every connection that is open."""
        self._network.run(self._reset())

    def slow(self, delay: float = 0.0, rate: float = 0.0) -> None:
        """Each piece takes `delay` seconds, and `rate` bytes go through in a second; 0 is no limit."""
        self._delay, self._seconds_per_byte = delay, 1 / rate if rate else 0.0

    async def _fail(self, dropped: frozenset[Way]) -> None:
        self._dropped, self._refusing = dropped, not dropped
        if self._refusing:
            self._cut()

    async def _mend(self) -> None:
        """What was dropped is lost: its connections end."""
        if self._dropped:
            self._cut()
        self._refusing, self._dropped = False, frozenset()

    async def _reset(self) -> None:
        self._cut()

    def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self._refusing:
                writer.transport.abort()
                return
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(*self._random.choice(self._targets()))
                self._open.add(far_writer)
                try:
                    await asyncio.gather(
                        self._pump(reader, far_writer, Way.OUT), self._pump(far_reader, writer, Way.BACK)
                    )
                finally:
                    self._open.discard(far_writer)
                    far_writer.transport.abort()
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while data := await reader.read(SLOW_CHUNK if self._seconds_per_byte else CHUNK):
            if self._delay or self._seconds_per_byte:
                await asyncio.sleep(self._delay + len(data) * self._seconds_per_byte)
            if way not in self._dropped:
                writer.write(data)
                await writer.drain()
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()
