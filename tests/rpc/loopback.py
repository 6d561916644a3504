"""Our own server on loopback, with a handler that remembers what it took."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from nfd.errors import ReportError
from nfd.report import Reply, Report
from nfd.rpc.caller_types import Caller, Peer
from nfd.rpc.client import Reporter
from nfd.rpc.server import LabelerServer
from nfd.rpc.tls import TlsFiles


@dataclass
class Taken:
    """The reports a server took, and who brought them; `refuse` is raised instead while it is set."""

    reports: list[Report] = field(default_factory=list)
    peers: list[Peer] = field(default_factory=list)
    refuse: Exception | None = None
    beat: float = 300.0
    node_labels: Mapping[str, str] | None = None

    async def accept(self, report: Report, peer: Peer) -> Reply:
        if self.refuse is not None:
            raise self.refuse
        self.reports.append(report)
        self.peers.append(peer)
        return Reply(self.beat, self.node_labels)

    async def identify(self, peer: Peer) -> Caller:
        return Caller(peer)

    def admit(self, caller: Caller, node: str) -> None:
        if node == "stranger":
            raise ReportError("not your node", retry=False, code="PERMISSION_DENIED")


@dataclass
class Running:
    server: LabelerServer
    port: int
    taken: Taken

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    async def send(self, report: Report, **options: object) -> Reply:
        return await asyncio.to_thread(Reporter(self.address, **options).send, report)  # type: ignore[arg-type]

    async def call(self, function: Callable[[int], object]) -> object:
        return await asyncio.to_thread(function, self.port)


@asynccontextmanager
async def running(tls: TlsFiles | None = None, port: int = 0) -> AsyncIterator[Running]:
    taken = Taken()
    server = LabelerServer(taken.accept, taken, tls)
    port = await server.start(f"localhost:{port}")
    try:
        yield Running(server, port, taken)
    finally:
        await server.stop(0)


@dataclass
class Link:
    """A relay's port, and how many bytes clients have sent through it."""

    port: int = 0
    sent: int = 0


@asynccontextmanager
async def relay(port: int) -> AsyncIterator[Link]:
    """A TCP relay to a local port that counts."""
    link = Link()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counted: bool) -> None:
        while data := await reader.read(65536):
            link.sent += len(data) if counted else 0
            writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("localhost", port)
        await asyncio.gather(pump(reader, inner_writer, True), pump(inner_reader, writer, False))

    async with await asyncio.start_server(connected, "localhost", 0) as server:
        link.port = server.sockets[0].getsockname()[1]
        yield link
