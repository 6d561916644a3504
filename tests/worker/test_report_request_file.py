"""A worker with the file of the epoch: what makes it report early, and what does not."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import count
from math import inf
from pathlib import Path

import pytest

from nfd.worker.report_request_file import EpochFile
from tests.rpc.loopback import running
from tests.worker.process import make_machine, until, worker
from tests.worker.test_worker_process import flags

_numbers = count(1)


def epoch(seconds: int = 1) -> str:
    """Another one each time."""
    return f"{next(_numbers):016x} {seconds}"


class Mount:
    """A mounted ConfigMap, as a kubelet writes it: links to a folder, which is replaced as a whole."""

    def __init__(self, path: Path, **entries: str) -> None:
        self.path = path
        self.path.mkdir()
        self.update(**entries)

    @property
    def file(self) -> str:
        return str(self.path / "epoch")

    def update(self, **entries: str) -> None:
        made = self.path / f"..{next(_numbers)}"
        made.mkdir()
        for name, text in entries.items():
            (made / name).write_text(text)
        (self.path / "..tmp").symlink_to(made.name)
        (self.path / "..tmp").rename(self.path / "..data")
        for link in self.path.iterdir():
            if not link.name.startswith("..") and link.name not in entries:
                link.unlink()
        for name in entries:
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    return Mount(tmp_path / "mount", ca="certificate", epoch=epoch())


def test_only_a_changed_id_asks(mount: Mount) -> None:
    """Not the first value, nor another spread, nor a rotated certificate, nor a file that was gone for a while."""
    first = (mount.path / "epoch").read_text()
    file = EpochFile(mount.file)
    for text in (first, first.replace(" 1", " 9")):
        mount.update(ca="other", epoch=text)
        file.look()
        assert file.due == inf
    mount.update(ca="other")
    file.look()
    mount.update(ca="other", epoch=first)
    file.look()
    assert file.due == inf
    mount.update(ca="other", epoch=epoch())
    file.look()
    assert file.due < inf


@pytest.mark.parametrize("first", ["", "malformed"])
def test_the_first_epoch_of_a_release_asks(tmp_path: Path, first: str) -> None:
    """There was no such entry when the worker started, or a malformed one."""
    mount = Mount(tmp_path / "mount", **({"epoch": first} if first else {}))
    file = EpochFile(mount.file)
    file.look()
    assert file.due == inf
    mount.update(epoch=epoch())
    file.look()
    assert file.due < inf


@pytest.mark.parametrize("text", ["", "x", "0" * 16, f"{'0' * 16} 0", f"{'f' * 16} 1" * 10_000, "\0", "ü"])
def test_a_malformed_epoch_asks_for_nothing(mount: Mount, text: str) -> None:
    file = EpochFile(mount.file)
    mount.update(epoch=text)
    file.look()
    assert file.due == inf


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_a_file_that_is_none_asks_for_nothing_and_blocks_nobody(tmp_path: Path, make: object) -> None:
    path = tmp_path / "epoch"
    make(path)  # type: ignore[operator]
    file = EpochFile(str(path))
    file.look()
    assert file.due == inf


def test_reports_are_spread(mount: Mount) -> None:
    """As the epoch says, and never over more than a minute."""
    for seconds, longest in ((20, 20), (900, 60)):
        files = [EpochFile(mount.file) for _ in range(200)]
        mount.update(epoch=epoch(seconds))
        began = time.monotonic()
        for file in files:
            file.look()
        waits = [file.due - began for file in files]
        assert 0 <= min(waits) < longest / 4
        assert longest * 3 / 4 < max(waits) <= longest + time.monotonic() - began


def test_two_early_reports_are_five_minutes_apart(mount: Mount) -> None:
    """However often it changes: the last change is answered then."""
    file = EpochFile(mount.file)
    mount.update(epoch=epoch())
    file.look()
    time.sleep(max(file.due - time.monotonic(), 0))
    assert file.answered()
    answered = time.monotonic()
    for _ in range(3):
        mount.update(epoch=epoch())
        file.look()
    assert 299 < file.due - answered <= 301
    assert not file.answered(), "a heartbeat that comes first is an answer, too"
    assert file.due == inf


async def test_a_worker_reports_when_the_epoch_changes(tmp_path: Path, mount: Mount) -> None:
    """At once, although its timer is an hour; its next heartbeat is a minute away. The report is the same again."""
    machine = make_machine(tmp_path / "machine")
    more = (f"--epoch-file={mount.file}", "--options={core: {sleepInterval: 1h}}")
    async with running() as master, worker(*flags(machine, master.port, *more)) as ours:
        await until(lambda: bool(master.taken.reports))
        await asyncio.sleep(0.5)
        mount.update(ca="rotated", epoch=(mount.path / "epoch").read_text())
        mount.update(epoch="malformed")
        await asyncio.sleep(1.5)
        assert len(master.taken.reports) == 1, "nothing asked for another one"
        mount.update(epoch=epoch())
        await until(lambda: len(master.taken.reports) == 2, 8)
        mount.update(epoch=epoch())
        await asyncio.sleep(2)
        first, second = master.taken.reports
        assert (first.labels, first.features) == (second.labels, second.features)
        assert ours.events().count("labels changed") == 1
