"""Changes the epoch in the ConfigMap that workers mount, if a new leader knows the features of too few nodes."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable

from nfd.errors import Conflict, KubeError
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import read_object
from nfd.kube.paths import CONFIG_MAPS, in_namespace, object_path
from nfd.report_request import ENTRY, Epoch, spread_for
from nfd.runtime import log

FEW = 0.1
"""The part of the nodes whose worker has reported before of which the features may be unknown: they come with the
heartbeats."""
SECOND_LOOK = 20.0
"""Seconds after which a leader that knew enough looks again: copied reports may have turned out to be outdated."""
BACKOFF = (1.0, 30.0)

Count = Callable[[], Awaitable[tuple[int, int]]]
"""How many nodes have a worker that has reported before, to any master, and of how many of these the features are not
known."""
_log = log.get("master")


class EpochWriter:
    """Writes the entry `epoch` of the ConfigMap `name`; other entries stay."""

    def __init__(self, client: KubeClient, namespace: str, name: str, second_look: float = SECOND_LOOK) -> None:
        self._client = client
        self._path = object_path(in_namespace(CONFIG_MAPS, namespace), name)
        self._second_look = second_look

    async def ask_if_needed(self, count: Count, leads: Callable[[], bool]) -> bool:
        """Ask all workers for a report, if too many nodes are unknown now or a little later. Once for each term.

        Tries again while that is so and this master leads. Returns whether the epoch was written.
        """
        for wait in (0.0, self._second_look):
            await asyncio.sleep(wait)
            if await self._write_while_needed(count, leads):
                return True
        return False

    async def _write_while_needed(self, count: Count, leads: Callable[[], bool]) -> bool:
        identity, problem, delay = secrets.token_hex(8), "", BACKOFF[0]
        while leads():
            nodes, unknown = await count()
            if unknown <= nodes * FEW:
                break
            epoch = Epoch(identity, spread_for(nodes))
            try:
                await self._write(epoch)
            except KubeError as error:
                if str(error) != problem and not isinstance(error, Conflict):
                    problem = str(error)
                    _log.warning("cannot ask workers to report; they do so at their next heartbeat", error=error)
                await asyncio.sleep(delay * random.uniform(0.5, 1))
                delay = min(delay * 2, BACKOFF[1])
            else:
                _log.info("workers are asked to report", nodes=nodes, unknown=unknown, seconds=epoch.spread)
                return True
        return False

    async def _write(self, epoch: Epoch) -> None:
        """A write that seemed to fail and did not is found by its identity. Raises: KubeError."""
        config_map = dict(await read_object(self._client, self._path))
        data = config_map.get("data") or {}
        if not str(data.get(ENTRY, "")).startswith(epoch.identity):
            config_map["data"] = {**data, ENTRY: str(epoch)}
            await self._client.json("PUT", self._path, config_map, fenced=True)
