"""A recorded or hand-made machine in a directory; nothing of the running one is looked at.

Beside the files, the directory may hold one file per probe, named after it (`cpuid`, `auxv`), and `host.json`:
`{"probes": {name: text}, "failures": {path: [errno, reason]}, "environment": {name: value}, "time": seconds}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nfd.errors import ConfigError, HostError
from nfd.host import MAX_FILE, Host

RECORD = "host.json"


class Replay(Host):
    """The machine that `nfd record` wrote to, or somebody made in, a directory.

    `environment` holds the variables of this scan; those of the record fill the gaps.
    """

    def __init__(self, directory: str | Path, environment: Mapping[str, str] | None = None) -> None:
        try:
            super().__init__(directory, {})
        except OSError as error:
            raise ConfigError(f"--replay {directory}: {error.strerror}") from error
        self._own = self._tree  # nothing of the running machine is looked at
        record = self._read_record()
        self._probes: dict[str, str] = record.get("probes", {})
        self._failures: dict[str, Any] = record.get("failures", {})
        self._environment = {**record.get("environment", {}), **(environment or {})}
        self._time: float | None = record.get("time")

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        self._fail(path)
        return super().data(path, limit)

    def names(self, path: str) -> tuple[str, ...]:
        self._fail(path)
        return super().names(path)

    def probe(self, name: str, live: Callable[[], str | None]) -> str | None:
        if name in self._probes:
            return self._probes[name]
        return super().text(name) if super().is_file(name) else None

    def now(self) -> float:
        return super().now() if self._time is None else self._time

    def _fail(self, path: str) -> None:
        if path in self._failures:
            code, reason = self._failures[path]
            raise HostError(path, reason, code)

    def _read_record(self) -> dict[str, Any]:
        text = super().text(RECORD) if super().exists(RECORD) else None
        if text is None:
            return {}
        try:
            record = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{self.root / RECORD}: {error}") from error
        if not isinstance(record, dict):
            raise ConfigError(f"{self.root / RECORD}: expected an object, found {type(record).__name__}")
        return record
