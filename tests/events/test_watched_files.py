"""Changed files wake their source: real inotify."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.config.load import Contents, contents
from nfd.events.wakes import MAX_WAIT, QUIET, RELOAD, Wake
from nfd.master.app import signature
from nfd.runtime.file_watches import Folder
from nfd.runtime.signals import Signals
from nfd.worker.cli import config_folders
from tests.events.machine import FEATURES_D, Maker


def write(path: Path, text: str = "x") -> None:
    path.write_text(text)


def rename(path: Path) -> None:
    hidden = path.with_name(".hidden")
    hidden.write_text("x")
    hidden.rename(path)


def swap(folder: Path) -> None:
    """As a kubelet updates a mounted ConfigMap."""
    (folder / "..2").mkdir()
    (folder / "..2/a").write_text("new")
    (folder / "..tmp").symlink_to("..2")
    (folder / "..tmp").rename(folder / "..data")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write(folder / "a", "y"),
        lambda folder: write(folder / "b"),
        lambda folder: rename(folder / "a"),
        lambda folder: (folder / "a").unlink(),
        lambda folder: (folder / "a").chmod(0o600),
        lambda folder: (folder / "link").symlink_to("a"),
        lambda folder: write(folder / "below/c"),
        lambda folder: swap(folder),
        lambda folder: shutil.rmtree(folder),
        lambda folder: folder.rename(folder.with_name("gone")),
    ],
)
def test_changed_files_wake_their_source_at_once(make: Maker, machine: Path, change: Callable[[Path], object]) -> None:
    folder = machine / FEATURES_D
    (folder / "below").mkdir(parents=True)
    (folder / "a").write_text("x")
    events = make(poll=60)
    change(folder)
    started = time.monotonic()
    assert events.wait(30).sources == {"local"}
    assert time.monotonic() - started < 15
    assert events.wait(0.3) == Wake(), "told once"


def test_a_directory_that_comes_goes_and_comes_again(make: Maker, machine: Path) -> None:
    """Wherever in its path it starts to exist; noise beside it wakes nobody."""
    shutil.rmtree(machine / "etc")
    events = make(poll=60)
    for _ in range(2):
        (machine / "noise").write_text("x")
        assert events.wait(0.3) == Wake()
        (machine / "etc").mkdir()
        assert events.wait(0.3) == Wake()
        (machine / FEATURES_D).mkdir()
        assert events.wait(5).sources == {"local"}
        write(machine / FEATURES_D / "a")
        assert events.wait(5).sources == {"local"}
        shutil.rmtree(machine / "etc")
        assert events.wait(5).sources == {"local"}


def test_links_stay_inside_the_root(make: Maker, machine: Path) -> None:
    (machine / "var/features").mkdir(parents=True)
    (machine / FEATURES_D).symlink_to("/var/features")
    events = make(poll=60)
    write(machine / "var/features/a")
    assert events.wait(5).sources == {"local"}


def test_a_replaced_directory_behind_a_link_is_found(make: Maker, machine: Path) -> None:
    """inotify does not see a link turn; the comparison does."""
    for name in ("one", "two"):
        (machine / "var" / name).mkdir(parents=True)
    (machine / "var/current").symlink_to("one")
    (machine / FEATURES_D).symlink_to("/var/current")
    events = make()
    (machine / "var/next").symlink_to("two")
    (machine / "var/next").rename(machine / "var/current")
    assert events.wait(5).sources == {"local"}
    write(machine / "var/two/a")
    assert events.wait(5).sources == {"local"}
    write(machine / "var/one/a")
    assert events.wait(0.4) == Wake(), "the old one is no longer watched"


def test_a_burst_is_one_wake(make: Maker, machine: Path) -> None:
    """Events that keep coming are told after MAX_WAIT at the latest."""
    (machine / FEATURES_D).mkdir()
    events = make(poll=60)
    stop = threading.Event()

    def scribble() -> None:
        while not stop.wait(0.02):
            write(machine / FEATURES_D / "a")

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        started = time.monotonic()
        assert events.wait(60).sources == {"local"}
        assert time.monotonic() - started <= MAX_WAIT + 20
    finally:
        stop.set()
        thread.join()
    events.wait(1)
    assert events.wait(0.3) == Wake()


def test_configuration_folders_ask_for_a_reload(make: Maker, tmp_path: Path) -> None:
    """What lies in directories below, such as feature files, is no configuration."""

    def directory(path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    (tmp_path / "conf/features.d").mkdir(parents=True)
    events = make(folders=[Folder(RELOAD, str(tmp_path / "conf"), directory, deep=False)], poll=60)
    write(tmp_path / "conf/features.d/a")
    assert events.wait(0.3) == Wake()
    write(tmp_path / "conf/nfd-worker.conf")
    wake = events.wait(5)
    assert (wake.sources, wake.reload) == (frozenset(), True)


def test_what_came_while_the_worker_was_busy_has_waited_already(make: Maker, machine: Path) -> None:
    (machine / FEATURES_D).mkdir()
    events = make(poll=60)

    def waited() -> float:
        write(machine / FEATURES_D / "a")
        time.sleep(MAX_WAIT)
        started = time.monotonic()
        assert events.wait(30).sources == {"local"}
        return time.monotonic() - started

    assert any(waited() < QUIET for _ in range(10))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: write(folder / ".a"),
        lambda folder: write(folder / ".unfinished"),
        lambda folder: (folder / ".a").unlink(),
        lambda folder: (folder / ".a").rename(folder / ".b"),
        lambda folder: write(folder / "below/.c"),
    ],
)
def test_hidden_files_wake_nobody(make: Maker, machine: Path, change: Callable[[Path], object]) -> None:
    folder = machine / FEATURES_D
    (folder / "below").mkdir(parents=True)
    (folder / ".a").write_text("x")
    events = make(poll=60)
    change(folder)
    assert events.wait(0.3) == Wake()
    (folder / ".d").mkdir()
    assert events.wait(5).sources == {"local"}, "a folder may hold rules"


def copy(path: Path) -> None:
    """The same bytes in another file of that name."""
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    fresh.rename(path)


SAME = [
    lambda file: file.touch(),
    lambda file: file.chmod(0o600),
    lambda file: file.write_bytes(file.read_bytes()),
    copy,
    lambda file: write(file.with_name("another")),
    lambda file: write(file.with_name(f".{file.name}.swp")),
    lambda file: write(file.with_name(f"{file.name}.d") / ".hidden"),
    lambda file: copy(file.with_name(f"{file.name}.d") / "10.conf"),
    lambda file: (file.with_name(f"{file.name}.d") / "10.conf").touch(),
]
OTHER = [
    lambda file: file.write_text("core: {}"),
    lambda file: file.unlink(),
    lambda file: file.rename(file.with_name("away")),
    lambda file: (file.with_name(f"{file.name}.d") / "10.conf").unlink(),
    lambda file: write(file.with_name(f"{file.name}.d") / "20.conf"),
    lambda file: shutil.rmtree(file.with_name(f"{file.name}.d")),
]


@pytest.fixture
def config(machine: Path) -> Path:
    file = machine / "etc/nfd-worker.conf"
    file.write_text("core: {noPublish: true}")
    file.with_name(f"{file.name}.d").mkdir()
    (file.with_name(f"{file.name}.d") / "10.conf").write_text("core: {noPublish: false}")
    return file


@pytest.mark.parametrize("change", SAME)
def test_a_configuration_that_says_the_same_is_not_read_again(
    make: Maker, config: Path, change: Callable[[Path], object], signals: Signals
) -> None:
    events = make(poll=60, folders=config_folders(str(config)), changed=Contents(str(config)).changed)
    change(config)
    assert not events.wait(0.3).reload
    os.kill(os.getpid(), signal.SIGHUP)
    assert events.wait(5).reload, "a signal says so whatever is in it"
    change(config)
    config.write_text("core: {noPublish: [true]}")
    assert events.wait(5).reload


@pytest.mark.parametrize("change", OTHER)
def test_a_configuration_that_says_something_else_is(
    make: Maker, config: Path, change: Callable[[Path], object]
) -> None:
    events = make(poll=60, folders=config_folders(str(config)), changed=Contents(str(config)).changed)
    change(config)
    assert events.wait(5).reload


@pytest.mark.parametrize(("change", "told"), [*((one, False) for one in SAME), *((one, True) for one in OTHER)])
def test_a_master_looks_at_what_it_says_too(config: Path, change: Callable[[Path], object], told: bool) -> None:
    before = signature(str(config))
    change(config)
    assert (signature(str(config)) != before) == told


def test_a_volume_of_kubernetes_is_exchanged(make: Maker, machine: Path) -> None:
    """The file is a link into a folder to which a link leads, and that one turns."""
    file = machine / "etc/nfd-worker.conf"
    for name, text in (("..1", "a: 1"), ("..2", "a: 1"), ("..3", "a: 2")):
        (machine / "etc" / name).mkdir()
        (machine / "etc" / name / file.name).write_text(text)
    (machine / "etc/..data").symlink_to("..1")
    file.symlink_to("..data/nfd-worker.conf")
    events = make(poll=60, folders=config_folders(str(file)), changed=Contents(str(file)).changed)
    for name, told in (("..2", False), ("..3", True)):
        (machine / "etc/..tmp").symlink_to(name)
        (machine / "etc/..tmp").rename(machine / "etc/..data")
        assert events.wait(0.5).reload == told


def test_a_device_is_no_configuration_that_changes(tmp_path: Path) -> None:
    """Everybody writes to it. A pipe is not read, since that would take what another reader waits for."""
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", str(tmp_path / "pipe")):
        assert config_folders(path) == ()
        assert contents(path) == ((path, b""),)
    assert contents("") == ()
    assert contents(tmp_path / "nothing") == ()


def test_what_was_heard_before_a_reload_is_told_after_it(make: Maker, machine: Path) -> None:
    """A file that is written while its former text is being taken in."""
    folder = Folder(RELOAD, str(machine / "etc"), lambda name: os.open(name, os.O_RDONLY | os.O_DIRECTORY), deep=False)
    before = make(folders=[folder])
    write(machine / "etc/conf")
    after = make(folders=[folder])
    after.replace(before)
    assert after.wait(5).reload
    assert after.wait(0.05) == Wake()
