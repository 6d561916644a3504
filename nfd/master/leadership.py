"""Leadership: the phases of a master, and what it answers to workers when it does not lead."""

from __future__ import annotations

import random
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from nfd.errors import ReportError
from nfd.kube.leader_election import Lease

NO_LEADER_YET = 2.0
"""Seconds after which a worker should try again while there is no leader."""


class Phase(StrEnum):
    """The phase of a master; it is Ready in the middle two."""

    STARTING = "starting"
    FOLLOWER = "follower"
    LEADING = "leading"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Election:
    """A replica's part in the election: the lease, and its address for workers ("" if unknown)."""

    lease: Lease
    pod: str
    host: str

    def identity(self, port: int) -> str:
        """`POD/IP:PORT/UUID`, different for each process."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.pod}/{f'{host}:{port}' if host else ''}/{uuid.uuid4()}"


class Leadership:
    """The phase of this master. Without election it leads as soon as the nodes are known."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self._started = False
        self._draining = False

    @property
    def phase(self) -> Phase:
        if self._draining:
            return Phase.DRAINING
        if not self._started:
            return Phase.STARTING
        return Phase.LEADING if self._lease is None or self._lease.leading else Phase.FOLLOWER

    @property
    def leading(self) -> bool:
        """Whether nodes may be written; while it drains, passes in progress are completed."""
        return self._started and (self._lease is None or self._lease.leading)

    @property
    def reason_not_ready(self) -> str:
        """Why this master is not Ready, "" if it is. A follower is Ready too."""
        reasons = {Phase.STARTING: "the nodes are not known yet", Phase.DRAINING: "the master is stopping"}
        return reasons.get(self.phase, "")

    def started(self) -> None:
        """Nodes are known; reports can be accepted and the lease can be read."""
        self._started = True

    def drain(self) -> None:
        self._draining = True

    def require(self) -> None:
        """Raises: ReportError with the leader's address, unless this master leads."""
        if self._lease is None or self._lease.leading:
            return
        if leader := self._lease.leader:
            raise ReportError("another master leads", retry=True, code="FAILED_PRECONDITION", leader=leader)
        wait = NO_LEADER_YET * random.uniform(0.5, 1.5)
        raise ReportError("no master leads at present", retry=True, retry_after=wait, code="UNAVAILABLE")


def own_address(environment: Mapping[str, str]) -> tuple[str, str]:
    """Name and address of this pod: `POD_NAME` and `POD_IP`, else the host name, which a pod has in /etc/hosts."""
    pod, host = environment.get("POD_NAME") or socket.gethostname(), environment.get("POD_IP", "")
    if not host:
        with suppress(OSError):
            host = str(socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)[0][4][0])
    return pod.replace("/", "_"), host
