"""A thread that asks the masters which of them leads and what it knows, and reads what workers have an answer to."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfd.master.http.reports_api import PATH, parse_line
from tests.chaos.fleet import Unit
from tests.chaos.knowledge import Knowledge, Look
from tests.chaos.stamps import Stamp, read_line, stamp_of

EVERY = 0.5
SELDOM = 5.0
"""Seconds between two looks at a leader that knows all nodes."""
PATIENCE = 3.0
"""Seconds for an answer: a master may be stopped."""
LEADING, KNOWN, ASKED = "nfd_master_leading", "nfd_master_reports_known", "nfd_master_report_requests_total"


@dataclass
class Acknowledgements:
    """The lines of one crew's file, as far as they were read."""

    file: Path
    _at: int = 0

    def fresh(self) -> Iterator[bytes]:
        """Whole lines since the last call."""
        if not self.file.exists():
            return
        with self.file.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        yield from whole.splitlines()


@dataclass
class Observer:
    """`token` may read /reports. `failed` says what could not be understood, "" if nothing."""

    masters: Sequence[Unit]
    files: Sequence[Path]
    token: str
    knowledge: Knowledge
    failed: str = ""
    unanswered: int = 0
    """Looks at a leader that it did not answer, such as while the API server does not review tokens."""
    asked: dict[tuple[str, int], float] = field(default_factory=dict)
    """How often each process of a master has asked all workers to report."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _seen: float = 0.0

    def __post_init__(self) -> None:
        self._acknowledged = [Acknowledgements(file) for file in self.files]
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            try:
                self.round()
            except Exception as error:
                self.failed = f"observer: {type(error).__name__}: {error}"

    def round(self) -> None:
        """Who leads, what was acknowledged, and what the leader has of that."""
        found = {unit.name: self._metrics(unit) for unit in self.masters}
        leading = [unit for unit in self.masters if (found[unit.name] or {}).get(LEADING)]
        self._note_terms(leading, found)
        for file in self._acknowledged:
            for line in file.fresh():
                self.knowledge.acknowledge(read_line(line))
        term = self.knowledge.terms[-1] if self.knowledge.terms else None
        if len(leading) != 1 or term is None or term.over is not None:
            return
        if not self.knowledge.missing() and term.complete is not None and time.monotonic() - self._seen < SELDOM:
            return
        self._look(leading[0], (found[leading[0].name] or {})[KNOWN])

    def _note_terms(self, leading: Sequence[Unit], found: Mapping[str, Mapping[str, float] | None]) -> None:
        """The term of a master that does not answer lasts until it ends, or another one leads."""
        now = time.monotonic()
        if len(leading) == 1:
            unit = leading[0]
            self.knowledge.lead(unit.name, unit.program.pid, now, unit.release)
            return
        term = self.knowledge.terms[-1] if self.knowledge.terms else None
        for unit in self.masters:
            follows = found[unit.name] is not None and not leading
            if term is not None and term.master == unit.name and (follows or not unit.program.alive()):
                self.knowledge.over(now)

    def _metrics(self, unit: Unit) -> dict[str, float] | None:
        """Those that count here; None without an answer."""
        if not unit.program.alive() or (answer := _get(unit.program.http_port, "/metrics")) is None:
            return None
        pairs = (line.rpartition(" ") for line in answer.decode().splitlines())
        found = {name: float(value) for name, _, value in pairs if name in (LEADING, KNOWN, ASKED)}
        self.asked[unit.name, unit.program.pid] = found.get(ASKED, 0.0)
        return found

    def _look(self, unit: Unit, known: float) -> None:
        at = time.monotonic()
        answer = _get(unit.program.http_port, PATH, self.token)
        after = self._metrics(unit) if answer is not None else None
        if answer is None or after is None or not after.get(LEADING):
            self.unanswered += 1
            return
        self._seen = at
        counted = int(known) if after[KNOWN] == known else None
        self.knowledge.look(Look(at, dict(read_reports(answer.splitlines())), counted))


def read_reports(lines: Iterable[bytes]) -> Iterator[tuple[str, Stamp]]:
    """Node and stamp of each report in an answer of a master's /reports, whose first line has its state."""
    contents: dict[int, Any] = {}
    for line in list(lines)[1:]:
        if (found := parse_line(json.loads(line), contents)) is not None:
            yield found.report.node, stamp_of(found.report)


def _get(port: int, path: str, token: str = "") -> bytes | None:
    """The body of a 200; None for anything else, or without an answer in time."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        link.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = link.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        link.close()
    return body if answer.status == 200 else None
