"""The API server's audit log: every request it served, who made it, and what came of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]},
        {"level": "Metadata"},
    ],
}
"""All stages of all requests, except what the server asks itself and probes of its health."""

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})

Mark = int
"""A place in the log: how many requests had arrived."""


@dataclass(frozen=True)
class Event:
    """One request. `code` is the HTTP status, 0 if none was sent; names are "" where none apply.

    `forbidden`: the caller lacks the right (an admission plug-in's refusal has the same `code`, 403).
    `early`: it came while the server was starting. Until that one knows its roles it refuses what it allows later.
    """

    user: str
    verb: str
    path: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    agent: str
    forbidden: bool
    early: bool


@dataclass
class AuditLog:
    """Reads the log as it grows.

    The server writes in blocking mode and notes a request before it serves it. So each request whose answer somebody
    has seen is in the log; what `mark` and `since` wait for is the closing entry, which may come after the answer.
    """

    path: Path
    _requests: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    _unanswered: set[str] = field(default_factory=set, repr=False)
    _offset: int = 0
    _starts: list[range] = field(default_factory=list, repr=False)

    def position(self) -> Mark:
        """Now, whatever is still unanswered."""
        self._read()
        return len(self._requests)

    def note_start(self, begun: Mark) -> None:
        """A server that was started at `begun` is ready now."""
        self._starts.append(range(begun, self.position()))

    def mark(self) -> Mark:
        """Now, after everything begun so far is answered. An open watch counts as answered."""
        self._settle()
        return len(self._requests)

    def since(self, mark: Mark = 0) -> list[Event]:
        """The requests that arrived after `mark`, in order of arrival.

        Raises: TimeoutError if one stays unanswered for ten seconds.
        """
        self._settle()
        entries = enumerate(self._requests.values())
        return [parse_event(entry, self._is_early(at)) for at, entry in entries if at >= mark]

    def _is_early(self, position: Mark) -> bool:
        return any(position in start for start in self._starts)

    def give_up_unanswered(self) -> None:
        """The server is gone: what it left unanswered stays so."""
        self._read()
        self._unanswered.clear()

    def _settle(self) -> None:
        deadline = time.monotonic() + 10
        while self._read():
            if time.monotonic() > deadline:
                waiting = ", ".join(self._requests[key]["requestURI"] for key in self._unanswered)
                raise TimeoutError(f"requests still unanswered in the audit log: {waiting}")
            time.sleep(0.02)

    def _read(self) -> bool:
        """Take in the whole lines that are new; True while a request is unanswered."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            lines = file.read().splitlines(keepends=True)
        for line in lines:
            if line.endswith(b"\n"):
                self._offset += len(line)
                self._take(json.loads(line))
        return bool(self._unanswered)

    def _take(self, entry: dict[str, Any]) -> None:
        """Keep a request's latest entry at the place of its first: `ResponseStarted` is an open watch, or a 401."""
        key = entry["auditID"]
        self._requests[key] = entry
        if entry["stage"] == "RequestReceived":
            self._unanswered.add(key)
        else:
            self._unanswered.discard(key)


def parse_event(entry: dict[str, Any], early: bool = False) -> Event:
    about = entry.get("objectRef", {})
    return Event(
        user=entry["user"].get("username", ""),
        verb=entry["verb"],
        path=entry["requestURI"],
        group=about.get("apiGroup", ""),
        resource=about.get("resource", ""),
        subresource=about.get("subresource", ""),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
        agent=entry.get("userAgent", ""),
        forbidden=entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid",
        early=early,
    )
