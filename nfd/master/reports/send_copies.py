"""The leader's part of replication: other masters get every report that this one has, then each that it accepts.

What is to be sent to a follower is a set of node names, so the backlog of a slow one never exceeds the number of nodes,
and it gets the latest report of each node.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from nfd.errors import ReportError
from nfd.master.leadership import Leadership
from nfd.master.reports.store import ReportStore
from nfd.rpc.caller_types import Peer
from nfd.rpc.master_calls import SILENCE
from nfd.rpc.replication_messages import Copy, Digests, Encoder, decode_received
from nfd.runtime import log, tasks

HEARTBEAT = 5.0
"""Seconds after which an empty message is sent."""
PAUSE = 0.1
"""Seconds between two messages of a follower that has everything: reports are collected meanwhile."""
WINDOW = 16
"""Messages that a follower has not confirmed; no more are sent meanwhile."""
MOST_FOLLOWERS = 8
CONFIRMED_WITHIN = 1.0
"""Seconds that the answer to a worker waits until other masters have its report."""

_log = log.get("master")


class Authenticator(Protocol):
    """Decides who is a master."""

    async def identify(self, peer: Peer) -> str:
        """The uid of the caller's pod. Raises: ReportError."""


@dataclass
class _Follower:
    """`due` are the nodes whose report is to be sent, `sent` those whose report is not confirmed, with the number of
    its message. `complete` means that it has had every report."""

    encoder: Encoder
    due: dict[str, None]
    sent: dict[str, int] = field(default_factory=dict)
    messages: deque[tuple[int, list[str]]] = field(default_factory=deque)
    complete: bool = False
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    confirmed: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, node: str) -> None:
        self.due[node] = None
        self.wake.set()

    def has(self, node: str) -> bool:
        return node not in self.due and node not in self.sent

    def confirm(self, number: int) -> list[str]:
        """Messages up to this number are stored. Returns their nodes."""
        nodes = []
        while self.messages and self.messages[0][0] <= number:
            at, names = self.messages.popleft()
            nodes += names
            for name in names:
                if self.sent.get(name) == at:
                    del self.sent[name]
        self.confirmed.set()
        return nodes


class Followers:
    """Serves the streams of other masters while this one leads."""

    def __init__(self, reports: ReportStore, leadership: Leadership, authenticator: Authenticator) -> None:
        self._reports = reports
        self._leadership = leadership
        self._authenticator = authenticator
        self._digests = Digests()
        self._followers: dict[str, _Follower] = {}
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def serve(self, peer: Peer, call: Any) -> None:
        """Until the follower is gone or this master no longer leads. Raises: ReportError."""
        pod = await self._authenticator.identify(peer)
        self._leadership.require()
        if (before := self._followers.pop(pod, None)) is not None:
            before.ended.set()
        if len(self._followers) >= MOST_FOLLOWERS:
            raise ReportError("too many masters follow this one", retry=True, code="RESOURCE_EXHAUSTED")
        follower = _Follower(Encoder(self._digests), dict.fromkeys(self._reports.names()))
        self._followers[pod] = follower
        try:
            await tasks.first_of(self._send(follower, call), self._receive(follower, call), follower.ended.wait())
        except (TimeoutError, ValueError, grpc.aio.BaseError, grpc.aio.UsageError) as error:
            _log.info("another master stopped copying reports", address=peer.host, error=error)
            raise ReportError("no answer in time", retry=True) from error
        finally:
            if self._followers.get(pod) is follower:
                del self._followers[pod]
            self._wake_waiting(list(self._waiting))
        self._leadership.require()

    def note(self, node: str) -> None:
        """There is another report of this node."""
        for follower in self._followers.values():
            follower.note(node)

    async def known(self, node: str) -> bool:
        """Whether other masters have confirmed the node's report in time; true if there are none."""
        if self._has(node):
            return True
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(node, []).append(waiting)
        try:
            async with asyncio.timeout(CONFIRMED_WITHIN):
                await waiting
        except TimeoutError:
            return False
        finally:
            if (others := self._waiting.get(node)) is not None and waiting in others:
                others.remove(waiting)
                if not others:
                    del self._waiting[node]
        return True

    def replicated(self) -> int:
        """Number of reports that another master has."""
        kept = len(self._reports)
        return max((kept - len(one.due.keys() | one.sent.keys()) for one in self._followers.values()), default=0)

    async def finish(self, idle: Callable[[], bool]) -> None:
        """Return when followers have every report and no more can come, which `idle` says; then end the streams."""
        while not idle() or any(one.due or one.sent for one in self._followers.values()):
            await asyncio.sleep(0.02)
        self.end()

    def end(self) -> None:
        """End all streams: this master no longer leads, or it stops."""
        for follower in self._followers.values():
            follower.ended.set()

    def _has(self, node: str) -> bool:
        return all(one.has(node) for one in self._followers.values() if one.complete)

    def _wake_waiting(self, nodes: list[str]) -> None:
        for node in nodes:
            if node in self._waiting and self._has(node):
                for waiting in self._waiting.pop(node):
                    if not waiting.done():
                        waiting.set_result(None)

    async def _send(self, follower: _Follower, call: Any) -> None:
        while True:
            taken: list[str] = []
            last = not follower.complete and not follower.due
            message = follower.encoder.encode(self._copies(follower, taken), complete=last)
            number = follower.encoder.number
            follower.sent |= dict.fromkeys(taken, number)
            follower.messages.append((number, taken))
            async with asyncio.timeout(SILENCE):
                await call.write(message)
                while len(follower.messages) > WINDOW:
                    follower.confirmed.clear()
                    await follower.confirmed.wait()
            follower.complete = follower.complete or last
            if follower.complete:
                await self._pause(follower)

    async def _pause(self, follower: _Follower) -> None:
        """Until there is something to send, or the next heartbeat is due."""
        await asyncio.sleep(PAUSE)
        try:
            async with asyncio.timeout(HEARTBEAT):
                while not follower.due:
                    follower.wake.clear()
                    await follower.wake.wait()
        except TimeoutError:
            return

    def _copies(self, follower: _Follower, taken: list[str]) -> Iterator[Copy]:
        """The reports that are due; their nodes are added to `taken`."""
        while follower.due:
            node = next(iter(follower.due))
            del follower.due[node]
            if (one := self._reports.inherited(node)) is not None:
                taken.append(node)
                yield Copy(one.report, one.uid)

    async def _receive(self, follower: _Follower, call: Any) -> None:
        """Until the follower is silent for too long, or has ended the stream."""
        while True:
            async with asyncio.timeout(SILENCE):
                data = await call.read()
            if data is grpc.aio.EOF:
                return
            self._wake_waiting(follower.confirm(decode_received(data)))
