"""Which of several masters works: the phases of one, and what a worker is told by one that does not lead."""

from __future__ import annotations

import random
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from nfd.errors import ReportError
from nfd.kube.lease import Lease

NO_LEADER_YET = 2.0
"""Seconds after which a worker should ask again while nobody leads."""


class Phase(StrEnum):
    """What a master does at present; it is Ready in the middle two."""

    STARTING = "starting"
    FOLLOWER = "follower"
    LEADING = "leading"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Election:
    """How a replica takes part: the lease, and where workers find it if it leads ("" if it does not know)."""

    lease: Lease
    pod: str
    host: str

    def identity(self, port: int) -> str:
        """`POD/IP:PORT/UUID`, another one for each process."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.pod}/{f'{host}:{port}' if host else ''}/{uuid.uuid4()}"


class Leadership:
    """The phase of this master. One that has no rivals leads as soon as it knows the nodes."""

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
        """Whether nodes may be written; what is under way while we drain is still brought to its end."""
        return self._started and (self._lease is None or self._lease.leading)

    @property
    def missing(self) -> str:
        """Why this master is not Ready, "" if it is: to lead is not needed for that."""
        reasons = {Phase.STARTING: "the nodes are not known yet", Phase.DRAINING: "the master is stopping"}
        return reasons.get(self.phase, "")

    def started(self) -> None:
        """Nodes are known, reports can be taken, the lease can be read."""
        self._started = True

    def drain(self) -> None:
        self._draining = True

    def refer(self) -> None:
        """Raises: ReportError that sends a worker to the leader, unless that is us."""
        if self._lease is None or self._lease.leading:
            return
        if leader := self._lease.leader:
            raise ReportError("another master leads", retry=True, code="FAILED_PRECONDITION", leader=leader)
        wait = NO_LEADER_YET * random.uniform(0.5, 1.5)
        raise ReportError("no master leads at present", retry=True, retry_after=wait, code="UNAVAILABLE")


def where_we_are(environment: Mapping[str, str]) -> tuple[str, str]:
    """Name and address of this pod: `POD_NAME` and `POD_IP`, else the host's name, which a pod finds in /etc/hosts."""
    pod, host = environment.get("POD_NAME") or socket.gethostname(), environment.get("POD_IP", "")
    if not host:
        with suppress(OSError):
            host = str(socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)[0][4][0])
    return pod.replace("/", "_"), host
