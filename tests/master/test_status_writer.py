"""What the writer of statuses remembers, and what it does after an error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest

from nfd.errors import Conflict, Forbidden, Invalid, KubeError, NotFound, Unauthorized, Unavailable
from nfd.kube.client import KubeClient
from nfd.kube.informer import Store
from nfd.kube.paths import GROUPS, RULES, in_namespace, object_path
from nfd.master.http.metrics import Metrics
from nfd.master.rules import status_writer
from nfd.master.rules.evaluator import Evaluator
from nfd.master.rules.nodefeatures import Joining
from nfd.master.rules.rule_store import RawObject, written
from nfd.master.rules.ruleset import CompiledObject, compile_object, exhaust, group_steps
from nfd.master.rules.status_writer import StatusWriter
from nfd.master.rules.time_slices import Slices
from nfd.report import Report
from nfd.rules.compile import Group
from nfd.rules.parse import GROUP, RULE
from nfd.rules.policy import Policy
from tests.rules.clocks import FROZEN

POLICY = Policy()


class Client:
    """Takes every patch; `patches` counts them by path."""

    def __init__(self) -> None:
        self.patches: dict[str, int] = {}

    async def json(self, method: str, path: str, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        self.patches[path] = self.patches.get(path, 0) + 1
        return {}


async def test_deleted_objects_are_forgotten() -> None:
    """Also one whose name a later one has. A rule object that is there is remembered: nothing is written twice."""
    client, metrics = Client(), Metrics("1", 0.0)
    rules = Store[RawObject](partial(written, "rules"), keep_status=True)
    groups = Store[RawObject](partial(written, "featureGroupRules"), keep_status=True)
    evaluator = Evaluator(Joining(POLICY), metrics, lambda: None, lambda: None, Slices(FROZEN))
    writer = StatusWriter(cast(KubeClient, client), evaluator, (rules, groups), metrics, lambda: 0, lambda node: False)
    compiled_objects, compiled = dict[str, CompiledObject](), dict[str, Group]()

    async def write() -> None:
        evaluator.bind(compiled_objects.values(), compiled.values())
        await writer._write_all()

    for number in range(20):
        for name in ("stays", f"job-{number}", "again"):
            uid = "u" if name == "stays" else f"u{number}"
            item = {"metadata": {"name": name, "uid": uid}, "spec": {"rules": [{"name": "r", "labels": {"a": "b"}}]}}
            group = {"metadata": {"name": name, "namespace": "n"}, "spec": {"featureGroupRules": [{"name": "r"}]}}
            rules.put(item)
            groups.put(group)
            compiled_objects[name], compiled[name] = compile_object(item, POLICY), exhaust(group_steps(group))
        await write()
        rules.delete(("", f"job-{number}"))
        groups.delete(("n", f"job-{number}"))
        del compiled_objects[f"job-{number}"], compiled[f"job-{number}"]
    await write()
    assert (len(writer._sent), len(writer._written)) == (4, 4)
    assert client.patches[object_path(RULES, "stays", "status")] == 1
    for store in (rules, groups):
        for key in list(store.items):
            store.delete(key)
    compiled_objects.clear()
    compiled.clear()
    await write()
    assert (writer._sent, writer._written) == ({}, {})


class Server:
    """Answers with the errors in `errors` by path of the status, each once, and keeps what is written.

    `present` are the names that its lists have. `clock` is the time of the writer.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.present, self.patches = 1000.0, {"first", "second"}, list[str]()
        self.errors: dict[str, list[BaseException]] = {}
        self.rules = Store[RawObject](partial(written, "rules"), keep_status=True)
        self.groups = Store[RawObject](partial(written, "featureGroupRules"), keep_status=True)
        self.evaluator = Evaluator(Joining(POLICY), Metrics("1", 0.0), lambda: None, lambda: None, Slices(FROZEN))
        stores = (self.rules, self.groups)
        self.writer = StatusWriter(
            cast(KubeClient, self), self.evaluator, stores, Metrics("1", 0.0), lambda: 1, lambda node: False
        )
        monkeypatch.setattr(status_writer, "time", self)
        self.items = {
            object_path(RULES, name, "status"): {
                "metadata": {"name": name, "uid": name},
                "spec": {"rules": [{"name": "r", "labels": {"a": "b"}}]},
            }
            for name in ("first", "second")
        }
        group = {"metadata": {"name": "first", "namespace": "n"}, "spec": {"featureGroupRules": [{"name": "r"}]}}
        self.items[PATHS[GROUP]] = group
        for path, item in self.items.items():
            self.store(path).put(item)
        compiled = [compile_object(item, POLICY) for path, item in self.items.items() if self.store(path) is self.rules]
        self.evaluator.bind(compiled, [exhaust(group_steps(group))])
        self.evaluator.evaluation_of("node", Report("node"), ())

    def store(self, path: str) -> Store[RawObject]:
        return self.groups if path == PATHS[GROUP] else self.rules

    def monotonic(self) -> float:
        return self.clock

    async def json(self, method: str, path: str, body: Any = None, **options: Any) -> Mapping[str, Any]:
        if method == "GET":
            name = options["query"]["fieldSelector"].removeprefix("metadata.name=")
            meta = {"apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}}
            found = [{"kind": "PartialObjectMetadata", **meta, "metadata": {"name": name}}]
            return {"kind": "PartialObjectMetadataList", **meta, "items": found if name in self.present else []}
        self.patches.append(path)
        if self.errors.get(path):
            raise self.errors[path].pop(0)
        self.store(path).put({**self.items[path], "status": body["status"]})
        return {}

    async def write(self, seconds: float = 0.0) -> list[str]:
        """One pass, that many seconds later: the statuses that were sent."""
        self.clock += seconds
        self.patches.clear()
        with suppress(KubeError, asyncio.CancelledError):
            await self.writer._write_all()
        return self.patches

    def unwritten(self) -> set[str]:
        statuses = {path: self.store(path).statuses for path in self.items}
        return {path for path, item in self.items.items() if not statuses[path].get(key_of(item))}


def key_of(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


PATHS = {
    RULE: object_path(RULES, "first", "status"),
    GROUP: object_path(in_namespace(GROUPS, "n"), "first", "status"),
}
TRANSIENT = {
    "no answer": Unavailable("503"),
    "conflict": Conflict("409"),
    "deleted, as the server says": NotFound("404"),
    "token being replaced": Unauthorized("401"),
    "another error": KubeError("405"),
    "defect": RuntimeError("x"),
    "cancelled": asyncio.CancelledError(),
}


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("error", TRANSIENT.values(), ids=list(TRANSIENT))
async def test_a_status_that_was_not_written_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException
) -> None:
    """After a while, and whatever else is written meanwhile. Objects without an error do not wait longer than that."""
    server = Server(monkeypatch)
    server.errors[PATHS[kind]] = [error]
    if isinstance(error, NotFound):
        server.present.remove("first")
    assert PATHS[kind] in await server.write()
    assert PATHS[kind] in server.unwritten()
    assert PATHS[kind] not in await server.write(status_writer.EVERY / 2)
    assert PATHS[kind] in await server.write(status_writer.EVERY / 2)
    assert (server.unwritten(), await server.write(status_writer.EVERY)) == (set(), [])


@pytest.mark.parametrize("kind", PATHS)
async def test_a_status_that_is_rejected_is_seldom_sent_again(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    server = Server(monkeypatch)
    server.errors[PATHS[kind]] = [Invalid("422")]
    await server.write()
    assert server.unwritten() == {PATHS[kind]}
    assert await server.write(status_writer.REFUSED / 2) == []
    assert (await server.write(status_writer.REFUSED / 2), server.unwritten()) == ([PATHS[kind]], set())


async def test_objects_without_an_answer_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never has an answer ends each pass, and all others are written before it."""
    server = Server(monkeypatch)
    broken = set(list(server.items)[:2])
    for path in broken:
        server.errors[path] = [Unavailable("500")] * 100
    sent = [*await server.write(), *await server.write(status_writer.EVERY), *await server.write(status_writer.EVERY)]
    assert (server.unwritten(), broken - set(sent)) == (broken, set())


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize(
    ("error", "exists", "reason"),
    [
        (NotFound("404"), True, status_writer.NO_SUBRESOURCE),
        (NotFound("404"), False, None),
        (Forbidden("403"), True, "403"),
        (Unauthorized("401"), True, None),
    ],
)
async def test_why_a_kind_gets_no_status(
    monkeypatch: pytest.MonkeyPatch, kind: str, error: KubeError, exists: bool, reason: str | None
) -> None:
    """Only for a missing permission, or if the server has the object and not its status."""
    server = Server(monkeypatch)
    server.errors[PATHS[kind]] = [error]
    if not exists:
        server.present.remove("first")
    await server.write()
    assert {one: why for one, (why, _) in server.writer._rejections.items()} == ({kind: reason} if reason else {})
