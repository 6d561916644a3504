"""Passes TCP connections on and counts what goes through: payload, as the network carries it, TLS included."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Relay:
    def __init__(self, target: str) -> None:
        self.target = target
        self.port = 0
        self.up = 0
        self.down = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(self._pump(reader, back, up=True), self._pump(there, writer, up=False))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        try:
            while data := await reader.read(65536):
                if up:
                    self.up += len(data)
                else:
                    self.down += len(data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # one side has gone without a farewell; what came is counted
        finally:
            writer.close()


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    found = Relay(target)
    server = await asyncio.start_server(found._serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
