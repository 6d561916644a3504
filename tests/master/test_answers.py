"""A report is answered as written by a pass that has begun after it came, not by one that was under way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nfd.errors import ReportError
from nfd.master.reports import accept_reports
from nfd.store.base import Node, Patch
from nfd.store.file import FileStore
from tests.master.conftest import BOOT, Masters, Worker, send
from tests.master.places import Folder, labels_of, until

KEY = "feature.node.kubernetes.io/cpu-a"


class Gated(FileStore):
    """Each patch needs a permit."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun = 0
        self.permits = asyncio.Semaphore(0)

    async def patch(self, name: str, patch: Patch) -> Node:
        self.begun += 1
        await self.permits.acquire()
        return await super().patch(name, patch)


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


async def test_the_second_report_waits_for_a_pass_of_its_own(
    place: Folder, tmp_path: Path, masters: Masters, name: str
) -> None:
    place.create(name, {}, {}, BOOT)
    store, worker = Gated(tmp_path), Worker(name)
    master = await masters.start(store)
    first = asyncio.create_task(send(master, worker.report({KEY: "1"})))
    await until(lambda: store.begun == 1)
    second = asyncio.create_task(send(master, worker.report({KEY: "2"})))
    await until(lambda: len(master.queue) == 1)
    store.permits.release()
    await first
    await until(lambda: store.begun == 2)
    assert not second.done()
    assert labels_of(place, name) == {KEY: "1"}
    store.permits.release()
    await second
    assert labels_of(place, name) == {KEY: "2"}


async def test_only_news_crowd_reports_out(
    place: Folder, tmp_path: Path, masters: Masters, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fleet that is looked at anew turns nobody away; as many reports as a master can hold back do."""
    monkeypatch.setattr(accept_reports, "CROWDED", 1)
    names = [name, f"{name}-2", f"{name}-3"]
    for one in names:
        place.create(one, {}, {}, BOOT)
    store = Gated(tmp_path)
    master = await masters.start(store, parallelism=1)
    first = asyncio.create_task(send(master, Worker(names[0]).report({KEY: "1"})))
    await until(lambda: store.begun == 1)
    for number in range(5):
        master.queue.add(f"looked-at-{number}")
    second = asyncio.create_task(send(master, Worker(names[1]).report({KEY: "1"})))
    await until(lambda: master.queue.urgent == 1)
    with pytest.raises(ReportError, match="too many nodes are queued"):
        await send(master, Worker(names[2]).report({KEY: "1"}))
    store.permits.release()
    store.permits.release()
    await asyncio.gather(first, second)
    assert labels_of(place, names[1]) == {KEY: "1"}
