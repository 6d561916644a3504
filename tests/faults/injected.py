"""Faults injected into a stage of a program: what raises or never ends, and the table in `docs/testing.md`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from nfd.errors import Endless
from nfd.runtime import failures, tasks
from nfd.runtime.cpu_limit import CpuLimit

PAGE = "docs/testing.md"
BEGIN, END = "<!-- injected faults -->\n", "<!-- end of injected faults -->\n"
ERRORS = (RecursionError("too deep"), MemoryError(), KeyError("x"), OSError(5, "Input/output error"))

LIMIT = 0.4
"""CPU time in seconds that a computation has in these tests."""
ENDLESS = Endless(LIMIT)
"""A computation that does not end; this is what ends it."""
PATIENCE = 20.0

each = pytest.mark.parametrize("error", [*ERRORS, ENDLESS], ids=lambda error: type(error).__name__)
raising = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
never_ended: list[str] = []
"""Computations that nothing has ended."""


@pytest.fixture
def limited() -> Iterator[None]:
    """Callbacks of the event loop have a time limit, as in a program."""
    never_ended.clear()
    with CpuLimit(tasks.PIECE, LIMIT):
        yield
    assert not never_ended


def compute(what: str) -> None:
    """Without end, but for a test that would not end."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        pass
    never_ended.append(what)


@dataclass
class Broken:
    """A function that raises over one thing while `on`, and otherwise does what it did."""

    error: Exception
    thing: str = ""
    on: bool = False
    raised: int = 0

    def wrap(self, patch: pytest.MonkeyPatch, owner: Any, name: str, of: Callable[..., str] | None = None) -> None:
        """`of` tells from the arguments which thing a call is over; without it, every call is over the thing."""
        true = getattr(owner, name)

        def broken(*args: Any, **fields: Any) -> Any:
            if of is None or of(*args, **fields) == self.thing:
                self.trip()
            return true(*args, **fields)

        patch.setattr(owner, name, broken)

    def trip(self) -> None:
        """Raise, or never end, while it is on."""
        if self.on:
            self.raised += 1
            if self.error is ENDLESS:
                compute(self.thing)
            raise type(self.error)(*self.error.args)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Make retries immediate, and log each failure anew in each test."""
    patch.setattr(tasks, "BACKOFF", (0.05, 0.1))
    patch.setattr("nfd.kube.informer.BACKOFF", (0.05, 0.1))
    failures._logged.clear()


async def answers(port: int) -> bool:
    """Whether a probe is answered."""
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/healthz") as response:
        return response.status == 200


def told(caplog: pytest.LogCaptureFixture, task: str) -> bool:
    """Whether the log names what failed, with a traceback."""
    lines = (one for one in caplog.records if getattr(one, "fields", {}).get("task") == task)
    return any(one.exc_info for one in lines)


@dataclass(frozen=True)
class Row:
    """A stage, the effect of a fault while it lasts, and the limit of an endless computation there."""

    stage: str
    suffers: str
    bound: str


CALL = "5 s of CPU time"
PATTERN = "regular expressions are limited in size"
REQUEST = f"{CALL}; a request has a time limit"

MASTER = (
    Row("report", "this report: its worker sends it again", CALL),
    Row("desired state", "this node: it keeps what it has", CALL),
    Row("plan", "this node", CALL),
    Row("write", "this node", REQUEST),
    Row("rule compile", "this rule: its earlier keys stay", f"{CALL}; {PATTERN}"),
    Row(
        "rule run",
        "this rule on this node: its earlier keys stay",
        f"50 ms of CPU time for a rule, 5 s for all rules of a node. Then the rule is suspended; {PATTERN}",
    ),
    Row("status", "the status of this rule object", REQUEST),
    Row("list", "this object: its earlier keys stay", CALL),
    Row("watch event", "this object", CALL),
    Row("whole list", "changes of one resource", REQUEST),
    Row("list of Nodes", "the start: the master is not ready before it knows the Nodes", REQUEST),
    Row("whole watch", "nothing: it lists again", f"{CALL}; a watch without data ends after two minutes"),
    Row(
        "rule revisions",
        "the earlier rules stay in force",
        "5 s of CPU time for one slice of the work, and 5 s for one object",
    ),
    Row("rules of waiting nodes", "nodes without changes keep their keys", f"{CALL}; nodes are evaluated in slices"),
    Row("statuses", "the status of rules", REQUEST),
    Row("definitions", "the warning about an older definition", REQUEST),
    Row("resync", "the hourly pass over all nodes", CALL),
    Row("sweep", "memory: reports for Nodes that never exist stay", CALL),
    Row("given-up worker", "the labels of this node stay after `staleAfter`", CALL),
    Row("lease", "nothing, while the lease lasts; then another master leads", REQUEST),
    Row("take-over", "the first write of a new leader is delayed", REQUEST),
    Row("certificates", "the renewal: the certificate in use stays", REQUEST),
    Row("watch of the Secret", "nothing: the API server is asked each time", REQUEST),
    Row("watch of the ConfigMap", "nothing: the API server is asked each time", REQUEST),
    Row(
        "key of proofs",
        "proofs of managed keys: a key is removed only if the policy of the master allows the key",
        REQUEST,
    ),
    Row("http connections", "this connection", f"{CALL}; a request has a size and a time limit"),
    Row("http handler", "this request: it is answered 500", CALL),
    Row("configuration", "changes of the configuration", CALL),
    Row("reload", "the new configuration: the one in use stays", CALL),
)

TURN = "20 s of CPU time"
DEADLINE = "30 s (`Source.limit`), in a thread"
WORKER = (
    Row("source", "this source: its last good result stays", DEADLINE),
    Row("label", "the labels of this source: those on the Node stay", DEADLINE),
    Row("devices", "the number of this source's devices among the metrics", TURN),
    Row("report", "this report: it is sent again with the newest state", TURN),
    Row("sending", "this report", f"{TURN}; 10 s for a call"),
    Row(
        "event of a listing",
        "events, for a while: the sources that use events are scanned once, and after that by the timer",
        TURN,
    ),
    Row("event of a file", "events, in the same way", TURN),
    Row("reload", "the new configuration: the one in use stays", TURN),
    Row("pass", "this pass: a full scan follows", TURN),
)

HEAD = "| stage | what suffers | what bounds a computation |\n| --- | --- | --- |\n"


def page(before: str) -> str:
    """The page with the tables as they are now."""
    top, _, rest = before.partition(BEGIN)
    _, _, bottom = rest.partition(END)
    parts = (f"\n**{name}**\n\n{rows(table)}" for name, table in (("Master", MASTER), ("Worker", WORKER)))
    return f"{top}{BEGIN}{''.join(parts)}\n{END}{bottom}"


def rows(table: tuple[Row, ...]) -> str:
    return HEAD + "".join(f"| {row.stage} | {row.suffers} | {row.bound} |\n" for row in table)
