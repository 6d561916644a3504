"""A Node watched as it changes, with the time of each change by our clock."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

from tests.e2e.nodes import Node


@dataclass(frozen=True)
class State:
    at: float
    labels: Mapping[str, str]


class Watch:
    """All states of a Node since the block began; `first` is what it was before."""

    def __init__(self, node: Node) -> None:
        self._node = node
        found = node.object()
        self.first: dict[str, str] = dict(found["metadata"].get("labels", {}))
        self.states: list[State] = []
        context = ssl.create_default_context(cafile=str(node.plane.ca_file))
        self._link = http.client.HTTPSConnection("127.0.0.1", node.plane.ports.api, context=context, timeout=900)
        query = (
            f"watch=1&resourceVersion={found['metadata']['resourceVersion']}&fieldSelector=metadata.name%3D{node.name}"
        )
        self._link.request("GET", f"/api/v1/nodes?{query}", headers={"Authorization": f"Bearer {node.plane.token()}"})
        self._socket = self._link.sock
        self._answer = self._link.getresponse()

    def __enter__(self) -> Self:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._answer.close()
        self._link.close()

    def wait(self, holds: Callable[[Mapping[str, str]], bool], seconds: float) -> State:
        """The first state, in the order of time, of which that holds."""
        deadline = time.monotonic() + seconds
        while True:
            for state in tuple(self.states):
                if holds(state.labels):
                    return state
            assert time.monotonic() < deadline, f"not within {seconds} s; changes: {self.changes()}"
            time.sleep(0.02)

    def until(self, holds: Callable[[Mapping[str, str]], bool], seconds: float) -> State:
        """The newest state, when that holds of it."""
        deadline = time.monotonic() + seconds
        while not (self.states and holds(self.states[-1].labels)):
            assert time.monotonic() < deadline, f"not within {seconds} s; changes: {self.changes()}"
            time.sleep(0.02)
        return self.states[-1]

    def idle(self) -> int:
        """How many writes changed no label."""
        labels = [self.first, *(state.labels for state in self.states)]
        return sum(one == other for one, other in pairwise(labels))

    def changes(self) -> list[tuple[str, str | None]]:
        """Key and new value, None if it went, of each change in order."""
        found: list[tuple[str, str | None]] = []
        before = self.first
        for state in tuple(self.states):
            now = dict(state.labels)
            found += [(key, now.get(key)) for key in sorted(before.keys() | now) if before.get(key) != now.get(key)]
            before = now
        return found

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                event = json.loads(line)
                self.states.append(State(time.monotonic(), event["object"]["metadata"].get("labels", {})))
        except (OSError, http.client.HTTPException):
            return  # the block has ended
