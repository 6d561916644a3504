"""A follower's part of replication: it copies the reports of the leader, so that it knows them when it takes over."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from nfd.config.named_files import read_bytes
from nfd.errors import ReportError, said
from nfd.master.reports.send_copies import Authenticator
from nfd.rpc.convert import Content
from nfd.rpc.master_calls import replicate
from nfd.rpc.replication_messages import Copy, Decoder
from nfd.rpc.tls import ServerTls
from nfd.runtime import log
from nfd.runtime.malloc import trim_heap

LOOK = 0.2
"""Seconds between two looks at who leads."""
BACKOFF = (0.5, 30.0)
"""Seconds until the next attempt, at first and at most."""
COPIED_WITHIN = 20.0
"""Seconds that a new master waits for the leader's reports before it is Ready."""
LASTING = 3
"""Failures in a row after which one is logged."""
OLDER = 6
"""As many failures a leader counts that does not share its reports."""

_log = log.get("master")


@dataclass(frozen=True, slots=True)
class MasterCredentials:
    """How masters recognise each other. `token_file` has this pod's token for other masters."""

    authenticator: Authenticator
    token_file: str

    def token(self) -> str:
        """Raises: OSError, ValueError."""
        token = read_bytes(self.token_file).decode("ascii").strip()
        if not token or not token.isprintable():
            raise ValueError(f"{self.token_file}: is not a token")
        return token


def delay(failures: int) -> float:
    """Seconds until the next attempt after that many failures in a row."""
    return min(BACKOFF[0] * 2.0 ** min(failures, 10), BACKOFF[1])


class Election(Protocol):
    """Who leads; `leader` is its address, "" if unknown or this process. `address` is that of this process."""

    @property
    def address(self) -> str: ...

    @property
    def leader(self) -> str: ...

    @property
    def leading(self) -> bool: ...


class Replication:
    """`settled` is set when the reports of the leader are here, or cannot be had.

    `inherit` stores a copy. `known` gives features that are in memory, by digest. `name` is in all masters'
    certificates.
    """

    def __init__(
        self,
        election: Election,
        credentials: MasterCredentials,
        tls: ServerTls,
        name: str,
        inherit: Callable[[Copy], object],
        known: Callable[[bytes], Content | None],
    ) -> None:
        self.settled = asyncio.Event()
        self._election = election
        self._credentials = credentials
        self._tls = tls
        self._name = name
        self._inherit = inherit
        self._known = known
        self._problem = ""
        self._copied = False

    async def run(self) -> None:
        """Copy from whoever leads, until cancelled."""
        failures = 0
        while True:
            leader = self._election.leader
            ended = bool(leader) and leader == self._election.address  # the Lease is of the last process in this pod
            if self._election.leading or ended:
                self.settled.set()
            if not leader or ended:
                await asyncio.sleep(LOOK)
                continue
            self._copied = False
            try:
                await self._copy(leader)
            except ReportError as error:
                failures = 0 if self._copied else failures + 1
                self._log_failure(leader, error, failures)
                if error.code == "UNIMPLEMENTED":
                    self.settled.set()
                    failures = OLDER
            except (OSError, ValueError) as error:
                failures += 1
                self._log_failure(leader, ReportError(said(error), retry=True), failures)
            await self._wait(leader, delay(failures) * random.uniform(1.0, 1.25))

    async def wait(self) -> None:
        """Wait until it is settled, for `COPIED_WITHIN` seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COPIED_WITHIN):
                await self.settled.wait()

    async def _copy(self, leader: str) -> None:
        """Until another master leads. Raises: ReportError, OSError, ValueError."""
        decoder, began, copies, size = Decoder(self._known), monotonic(), 0, 0
        async with replicate(leader, self._credentials.token(), self._tls, self._name) as stream:
            while self._election.leader == leader:
                data = await stream.read()
                if self._election.leading:
                    return
                message = decoder.decode(data)
                for one in message.copies:
                    self._inherit(one)
                if message.unusable:
                    _log.warning("reports of the leader are unusable and ignored", reports=message.unusable)
                copies, size = copies + len(message.copies), size + len(data)
                await stream.confirm(message.number)
                if message.complete:
                    self._problem, self._copied = "", True
                    trim_heap()  # the messages of a whole fleet were in memory
                    self.settled.set()
                    seconds = round(monotonic() - began, 3)
                    _log.info("the leader's reports are copied", reports=copies, bytes=size, seconds=seconds)

    async def _wait(self, leader: str, seconds: float) -> None:
        """No longer than the same master leads."""
        until = monotonic() + seconds
        while monotonic() < until and self._election.leader == leader:
            await asyncio.sleep(LOOK)

    def _log_failure(self, leader: str, error: ReportError, failures: int) -> None:
        """Log a failure that lasts, once for each leader; a stream that ends is opened again at once."""
        if error.code == "UNIMPLEMENTED":
            event = "the leading master does not share its reports"
        elif failures >= LASTING:
            event = "cannot copy the leader's reports; trying again"
        else:
            return
        if (problem := f"{event} {leader}") != self._problem:
            self._problem = problem
            _log.warning(event, address=leader, error=error)
