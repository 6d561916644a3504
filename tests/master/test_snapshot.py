"""The file that keeps reports for the next process: what is in it counts only if this master's key wrote it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nfd.features import Features
from nfd.master.node.proof import Proof
from nfd.master.node.reconcile import ReconcileOptions
from nfd.master.reports import snapshot as module
from nfd.master.reports.snapshot import FORMAT, Snapshot, decode
from nfd.master.reports.store import ReportStore, Standing
from nfd.master.service import Options, Service
from nfd.report import Report
from nfd.rpc.caller_types import Peer
from nfd.store.file import FileStore
from tests.master.conftest import BOOT, Worker
from tests.master.places import PROOF, Folder, labels_of, until

F = "feature.node.kubernetes.io/"


@dataclass
class Lives:
    """Processes of one master, one after the other, on a folder of Nodes."""

    folder: Path
    place: Folder = field(init=False)
    running: Service | None = None

    def __post_init__(self) -> None:
        (self.folder / "nodes").mkdir()
        self.place = Folder(self.folder / "nodes")

    @property
    def file(self) -> Path:
        return self.folder / "reports"

    async def start(self, proof: Proof = PROOF) -> Service:
        settings = ReconcileOptions(proof=proof)
        options = Options(host="127.0.0.1", port=0, http_port=0, resync=0, settings=settings, snapshot=self.file)
        await self.stop()
        self.running = service = Service(FileStore(self.place.path), options)
        await service.start()
        await until(lambda: service._leads.is_set())
        return service

    async def stop(self) -> None:
        if self.running is not None:
            await self.running.stop()
        self.running = None

    async def first(self, *reports: Report) -> Service:
        """One that has written these reports to its file."""
        service = await self.start()
        for report in reports:
            await service._handler.accept(report, Peer())
        snapshot = service._handler.snapshot
        assert snapshot is not None
        await snapshot._write()
        snapshot._changed.clear()
        return service


@pytest.fixture
async def lives(tmp_path: Path) -> AsyncIterator[Lives]:
    found = Lives(tmp_path)
    yield found
    await found.stop()


def features(value: str) -> Features:
    return Features(attributes={"f.a": {"v": value}})


async def test_the_next_process_knows_every_report(lives: Lives) -> None:
    workers = [Worker(f"node-{number}") for number in range(100)]
    for worker in workers:
        lives.place.create(worker.node, {}, {}, BOOT)
    reports = [worker.report({F + "cpu-a": "1"}, features=features(worker.node)) for worker in workers]
    await lives.first(*reports)
    texts = {worker.node: (lives.place.path / f"{worker.node}.yaml").read_text() for worker in workers}
    assert (lives.file.stat().st_mode & 0o7777, len(list(lives.folder.iterdir()))) == (0o600, 2)
    await lives.stop()
    second = await lives.start()
    await second.queue.idle()
    assert [second._handler.reports.get(worker.node) for worker in workers] == reports
    assert {second._handler.reports.standing(worker.node) for worker in workers} == {Standing.INHERITED}
    assert second._labeler.features._uses.nodes.keys() == {worker.node for worker in workers}
    assert 0 <= second._gauges()["snapshot_age_seconds"] < 60
    assert texts == {worker.node: (lives.place.path / f"{worker.node}.yaml").read_text() for worker in workers}


def flip(data: bytes) -> bytes:
    return data[:300] + bytes([data[300] ^ 1]) + data[301:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "a bit": flip,
    "its end is missing": lambda data: data[:-40],
    "something follows": lambda data: data + b"x",
    "another version": lambda data: data.replace(FORMAT, FORMAT.replace(b"1", b"2")),
    "another cluster's": lambda data: data[:-32] + Proof(b"another key").seal(data[:-32]),
    "pickle": lambda data: b"\x80\x04\x95." + data,
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_what_is_damaged_or_foreign_is_ignored(
    damage: str, lives: Lives, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lives.place.create("node-1", {}, {}, BOOT)
    await lives.first(Worker("node-1").report({F + "cpu-a": "1"}, features=features("x" * 500)))
    await lives.stop()
    lives.file.write_bytes(DAMAGES[damage](lives.file.read_bytes()))
    caplog.clear()
    second = await lives.start()
    assert second.reported() == []
    assert [record.message.count("snapshot ignored") for record in caplog.records if "snapshot" in record.message] == [
        1
    ]
    assert labels_of(lives.place, "node-1") == {F + "cpu-a": "1"}


@pytest.mark.parametrize("kind", ["link", "pipe", "readable by others", "folder", "too large"])
async def test_a_file_that_others_may_have_made_is_not_read(
    kind: str, lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives.place.create("node-1", {}, {}, BOOT)
    await lives.first(Worker("node-1").report({F + "cpu-a": "1"}))
    await lives.stop()
    other = lives.folder / "other"
    if kind == "readable by others":
        lives.file.chmod(0o644)
    elif kind == "too large":
        monkeypatch.setattr(module, "LARGEST", 10)
    else:
        lives.file.rename(other)
        match kind:
            case "link":
                lives.file.symlink_to(other)
            case "pipe":
                os.mkfifo(lives.file, 0o600)
            case "folder":
                lives.file.mkdir()
    second = await lives.start()
    assert second.reported() == []


async def test_a_link_is_replaced_and_not_followed(lives: Lives) -> None:
    target = lives.folder / "other"
    target.write_text("mine")
    lives.file.symlink_to(target)
    lives.place.create("node-1", {}, {}, BOOT)
    await lives.first(Worker("node-1").report({F + "cpu-a": "1"}))
    assert target.read_text() == "mine"
    assert not lives.file.is_symlink()


async def test_a_key_that_ends_with_the_process_writes_no_file(lives: Lives) -> None:
    """Nobody could check it."""
    reports = ReportStore()
    reports.take(Worker("node-1").report({F + "cpu-a": "1"}), None, "")
    snapshot = Snapshot(lives.file, reports, Proof.of_this_process())
    await snapshot._write()
    assert not lives.file.exists()
    with pytest.raises(ValueError, match="damaged, or another cluster's"):
        list(decode(FORMAT + b"0" * 32, Proof(), lambda key: None))


async def test_only_news_is_written(lives: Lives) -> None:
    lives.place.create("node-1", {}, {}, BOOT)
    worker = Worker("node-1")
    first = await lives.first(worker.report({F + "cpu-a": "1"}))
    snapshot = first._handler.snapshot
    assert snapshot is not None
    await first._handler.accept(worker.report({F + "cpu-a": "1"}), Peer())
    assert not snapshot._changed.is_set()
    await first._handler.accept(worker.report({F + "cpu-a": "2"}), Peer())
    assert snapshot._changed.is_set()


@pytest.mark.parametrize(("boot", "known"), [(BOOT, True), ("boot-2", False)])
async def test_a_node_that_was_created_again(boot: str, known: bool, lives: Lives) -> None:
    """With the same boot id it is the same machine; with another one the report says nothing about it."""
    lives.place.create("node-1", {}, {}, BOOT)
    await lives.first(Worker("node-1").report({F + "cpu-a": "1"}))
    await lives.stop()
    lives.place.delete("node-1")
    lives.place.create("node-1", {}, {}, boot)
    second = await lives.start()
    await second.queue.idle()
    assert labels_of(lives.place, "node-1") == {}
    assert (second._handler.reports.standing("node-1") is not None) is known
