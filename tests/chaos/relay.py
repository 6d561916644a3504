"""A TCP relay on loopback that can cut connections, refuse them, or swallow what they bring: a network between pods."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
Address = tuple[str, int]


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
        self._broken = self._silent = False
        self._server = network.run(asyncio.start_server(self._serve, host, port))
        network.servers.append(self._server)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def fail(self, *, silent: bool) -> None:
        """Nothing goes through: what comes is swallowed if `silent`, else connections are reset and refused."""
        self._network.run(self._fail(silent))

    def mend(self) -> None:
        self._network.run(self._mend())

    async def _fail(self, silent: bool) -> None:
        self._broken, self._silent = True, silent
        if not silent:
            self._cut()

    async def _mend(self) -> None:
        """What was swallowed is lost: its connections end."""
        if self._silent:
            self._cut()
        self._broken = self._silent = False

    def _cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self._broken and not self._silent:
                writer.transport.abort()
                return
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(*self._random.choice(self._targets()))
                self._open.add(far_writer)
                try:
                    await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
                finally:
                    self._open.discard(far_writer)
                    far_writer.transport.abort()
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self._silent:
                writer.write(data)
                await writer.drain()
        if writer.can_write_eof():
            with suppress(OSError):
                writer.write_eof()
