"""Leader election on a Lease: taking it, renewing it, giving it up at the end; and the fence that depends on it.

Source: Kubernetes documentation, "Leases".

As in client-go, each candidate uses its own clock: a lease is over when it has not changed for its duration since this
process first saw it. So the holder may write until the renew deadline, counted from before its last renewal was sent.
What it has sent by then is done or dropped before another process can hold the lease. Wall-clock times in the Lease are
only for people.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nfd.errors import Conflict, Forbidden, KubeError, NotFound, Unavailable
from nfd.kube.check_responses import check_object, place_of
from nfd.kube.client import KubeClient, Request
from nfd.kube.informer import PATIENCE
from nfd.kube.paths import LEASES, in_namespace, object_path
from nfd.runtime import log, tasks

LONGEST_WRITE = 4.0
"""Seconds that a write may take at the API server, where lease duration and renew deadline leave time for it."""
RELEASED = 1
"""Duration in seconds of a lease that its holder gave up, as client-go writes it."""
JITTER = 1.2
LONGEST_END = 6.0
"""Seconds that stopping may take: the last request, and releasing the lease."""

_log = log.get("kube")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, as in client-go: how long a lease holds, when its holder gives up without renewal, and between tries."""

    duration: float
    renew: float
    retry: float

    @property
    def deadline(self) -> float:
        """When the holder gives up: early enough for what it has just sent to end before the lease does."""
        return min(self.renew, 0.9 * self.duration)

    @property
    def write(self) -> float:
        """How long a write may take: it must be over before the lease is."""
        return min(LONGEST_WRITE, 0.8 * (self.duration - self.deadline))


class Lease:
    """Holds the lease or knows who does; a Fence. `changed` is called when leadership came or went.

    It has its own client, whose connections no other part can use up.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        timing: Timing,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = timing.write
        self._client = client
        self._folder = in_namespace(LEASES, namespace)
        self._name = name
        self._place = place_of(object_path(self._folder, name))
        self._timing = timing
        self._now = now
        self._identity = ""
        self._changed: Callable[[], None] = lambda: None
        self._seen: dict[str, Any] = {}
        self._seen_at = 0.0
        self._until = 0.0
        self._led = False
        self._failing = False
        self._refused_since: float | None = None
        self._looked = asyncio.Event()
        self._ending = False
        self._turn = asyncio.Lock()
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    @property
    def leading(self) -> bool:
        """Whether this process holds the lease and its deadline is not over."""
        return self._now() < self._until

    @property
    def leader(self) -> str:
        """`IP:PORT` of the holder; "" if there is none, it is this process, or its identity has no address."""
        holder = _spec(self._seen).get("holderIdentity") or ""
        if holder == self._identity or self._is_over():
            return ""
        parts = str(holder).split("/")
        return parts[1] if len(parts) == 3 else ""

    @property
    def address(self) -> str:
        """`IP:PORT` of this process, which may be that of an earlier one; "" if unknown."""
        return self._identity.split("/")[1] if self._identity.count("/") == 2 else ""

    def check(self) -> None:
        """Raises: Unavailable if this process does not lead."""
        if not self.leading:
            raise Unavailable("not written: this master does not lead")

    async def start(self, identity: str, changed: Callable[[], None]) -> None:
        """Returns once the lease has been read; others read from `identity`, `POD/IP:PORT/UUID`, where the leader is.

        Raises: Forbidden if that is refused for longer than the patience.
        """
        self._identity, self._changed = identity, changed
        # after a failure leadership ends by the clock, and the fence with it, unless a later round renews the lease
        self._task = tasks.start("lease", self._run, (KubeError,))
        await tasks.reached(self._looked, self._task)

    async def stop(self, *, release: bool) -> None:
        """Stop renewing. If no request is in progress, release the lease at once.

        A round in progress is waited for: its answer decides whether this process holds the lease.
        """
        self._ending = True
        try:
            async with asyncio.timeout(LONGEST_END), self._turn:
                if self._task is not None:
                    await tasks.cancel([self._task])
                self._until = 0.0
                if self._asked and release:
                    await self._release()
        except TimeoutError:
            _log.warning("cannot release lease; it expires by itself", path=self._name, seconds=LONGEST_END)
        finally:
            self._until, self._asked = 0.0, False
            if self._task is not None:
                await tasks.cancel([self._task])
            await self._client.close()

    async def _release(self) -> None:
        """Release the lease. The answer to the last request may have been lost, so its version may be unknown."""
        try:
            await self._look()
            if self._is_ours():
                await self._put(self._now(), holderIdentity="", leaseDurationSeconds=RELEASED)
                _log.info("lease released", path=self._name)
        except NotFound:
            return  # somebody deleted it
        except KubeError as error:
            _log.warning("cannot release lease; it expires by itself", path=self._name, error=error)

    async def _run(self) -> None:
        while True:
            try:
                async with self._turn:
                    await self._round()
            except KubeError as error:
                if self._is_permanent(error):
                    raise
                self._log_failure(error)
            else:
                self._failing = False
                self._looked.set()
            self._log_leadership()
            await self._pause()

    def _is_permanent(self, error: KubeError) -> bool:
        """Whether the lease has never been read, and nothing but refusals has come for too long."""
        if not isinstance(error, Forbidden):
            self._refused_since = None
            return False
        if self._refused_since is None:
            self._refused_since = self._now()
        return not self._looked.is_set() and self._now() - self._refused_since > PATIENCE

    async def _round(self) -> None:
        """Renew the lease, or take it if it is free. Raises: KubeError."""
        began = self._now()
        try:
            if not self.leading:
                self._log_leadership()
                await self._look()
                if not self._is_free() or self._ending:
                    return
            await self._put(began)
        except NotFound:
            self._until = 0.0  # from here on anybody can make one
            if not self._ending:
                await self._create(began)
        except Conflict:
            await self._look_again()

    async def _look_again(self) -> None:
        """Another process wrote the lease, or it was replaced: read it again."""
        try:
            await self._look()
        except NotFound:
            self._seen = {}
        if not self._is_ours():
            self._until = 0.0

    async def _look(self) -> None:
        self._remember(await self._send("GET", self._name))

    async def _create(self, began: float) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._name}}
        self._asked = True
        with suppress(Conflict):
            self._remember(await self._send("POST", "", body | {"spec": self._fresh({})}))
            self._until = began + self._timing.deadline

    async def _put(self, began: float, **fields: Any) -> None:
        self._asked = True
        spec = {**self._fresh(_spec(self._seen)), **fields}
        self._remember(await self._send("PUT", self._name, {**self._seen, "spec": spec}))
        self._until = began + self._timing.deadline if spec["holderIdentity"] else 0.0

    def _fresh(self, before: Mapping[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        seconds = math.ceil(self._timing.duration)
        spec = {**before, "holderIdentity": self._identity, "renewTime": now, "leaseDurationSeconds": seconds}
        if before.get("holderIdentity") != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(before.get("leaseTransitions") or 0) + bool(before)}
        return spec

    def _remember(self, lease: dict[str, Any]) -> None:
        if _spec(lease) != _spec(self._seen):
            self._seen_at = self._now()
        self._seen = lease

    def _is_free(self) -> bool:
        return not _spec(self._seen).get("holderIdentity") or self._is_ours() or self._is_over()

    def _is_ours(self) -> bool:
        return _spec(self._seen).get("holderIdentity") == self._identity

    def _is_over(self) -> bool:
        """Whether the lease has not changed for its duration, as its holder set it, since this process first saw it."""
        duration = _spec(self._seen).get("leaseDurationSeconds")
        seconds = float(duration) if isinstance(duration, int) else self._timing.duration
        return self._now() - self._seen_at > seconds

    async def _send(self, method: str, name: str, body: Any = None) -> dict[str, Any]:
        """A request that is over before the next one is due."""
        limit = {"timeout": f"{round(self.seconds * 1000)}ms"}
        path = f"{self._folder}/{name}".rstrip("/")
        try:
            async with asyncio.timeout(max(self.seconds, self._timing.retry)):
                data = None if body is None else json.dumps(body).encode()
                async with self._client.open(Request(method, path, limit, data)) as response:
                    found = json.loads(await response.read())
        except (TimeoutError, ValueError, RecursionError) as error:
            raise Unavailable(f"{method} {path}: {error or 'no answer in time'}") from error
        return self._checked(found, method, body)

    def _checked(self, answer: Any, method: str, sent: Any) -> dict[str, Any]:
        """Check that the answer is a Lease of this name and, after a write, the one that was written. Raises:
        Unavailable."""
        lease = dict(check_object(answer, self._place, method))
        if not isinstance(lease.get("spec"), Mapping | None):
            raise Unavailable(f"{method} {self._place.path}: the answer has no spec")
        if sent is not None and (_spec(lease).get("holderIdentity") or "") != sent["spec"]["holderIdentity"]:
            raise Unavailable(f"{method} {self._place.path}: the answer is not the Lease that was written")
        return lease

    def _log_failure(self, error: KubeError) -> None:
        if not self._failing:
            _log.warning("cannot renew lease; trying again", path=self._name, error=error)
        self._failing = True

    def _log_leadership(self) -> None:
        if (leading := self.leading) != self._led:
            self._changed()
            self._led = leading
            _log.info("leading" if leading else "no longer leading", path=self._name)

    async def _pause(self) -> None:
        """Until the next try, but no longer than to the moment at which leadership ends without one."""
        due = self._now() + self._timing.retry * random.uniform(1.0, JITTER)
        while (left := due - self._now()) > 0:
            if self._led and (ends := self._until - self._now()) < left:
                await asyncio.sleep(max(ends, 0.0))
                self._log_leadership()
                continue
            await asyncio.sleep(left)


def _spec(lease: Mapping[str, Any]) -> Mapping[str, Any]:
    found = lease.get("spec")
    return found if isinstance(found, Mapping) else {}
