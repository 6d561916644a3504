"""What wakes the worker: real kernel events, real inotify, real signals."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nfd.config.section import Section
from nfd.events import MAX_WAIT, RELOAD, Events, Wake
from nfd.events.files import Folder
from nfd.events.kernel import UID_MAP, WHOLE_MAP, DeafError, KernelEvents
from nfd.events.signals import Interrupted, Signals
from nfd.features import Features
from nfd.host import Host
from nfd.source import Source

FEATURES_D = "etc/features.d"
UEVENT = Path("/sys/block/loop0/uevent")


def source(name: str, *wakes: str, watches: tuple[str, ...] = ()) -> Source:
    return Source(
        name, Section, lambda host, config: Features(), lambda features, config: {},
        wakes=frozenset(wakes), watches=watches,
    )  # fmt: skip


ALL = (
    source("pci", "pci"), source("net", "net"), source("storage", "block"), source("kernel", "module"),
    source("cpu", "cpu"), source("local", watches=(FEATURES_D,)),
)  # fmt: skip


@pytest.fixture
def signals() -> Iterator[Signals]:
    caught = Signals()
    yield caught
    caught.close()


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    for folder in ("sys/bus/pci/devices/0000:00:00.0", "sys/class/net/lo", "sys/block/sda", "proc", "etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "proc/modules").write_text("loop 40960 0 - Live 0x0\next4 1 2 - Live 0x0\n")
    return tmp_path


Maker = Callable[..., Events]


@pytest.fixture
def make(machine: Path, signals: Signals) -> Iterator[Maker]:
    made: list[Events] = []

    def maker(**options: object) -> Events:
        made.append(Events(Host(machine), ALL, signals, **{"live": False, "poll": 0.1, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield maker
    for events in made:
        events.close()


def test_nothing_wakes_nobody(make: Maker) -> None:
    started = time.monotonic()
    assert make().wait(0.3) == Wake()
    assert 0.3 <= time.monotonic() - started < 1


def test_a_comparison_that_is_overdue_is_made_at_once(make: Maker, machine: Path) -> None:
    """As after a scan or report that took longer than the time between two comparisons."""
    events = make()
    (machine / "sys/class/net/eth0").mkdir()
    time.sleep(0.3)
    assert events.wait(0.05).sources == {"net"}
    time.sleep(0.3)
    assert events.wait(0.05) == Wake()


@pytest.mark.parametrize(
    ("change", "woken"),
    [
        (lambda root: (root / "sys/bus/pci/devices/0000:01:00.0").mkdir(), "pci"),
        (lambda root: (root / "sys/bus/pci/devices/0000:00:00.0").rmdir(), "pci"),
        (lambda root: (root / "sys/class/net/eth0").mkdir(), "net"),
        (lambda root: (root / "sys/block/sdb").mkdir(), "storage"),
        (lambda root: (root / "proc/modules").write_text("loop 40960 0 - Live 0x0\n"), "kernel"),
    ],
)
def test_a_changed_listing_wakes_the_sources_that_read_it(
    make: Maker, machine: Path, change: Callable[[Path], object], woken: str
) -> None:
    events = make()
    change(machine)
    wake = events.wait(5)
    assert wake.sources == {woken}
    assert wake.reasons[0].startswith("listing of ")
    assert events.wait(0.3) == Wake(), "told once"


def test_use_counts_of_modules_wake_nobody(make: Maker, machine: Path) -> None:
    events = make()
    (machine / "proc/modules").write_text("ext4 1 99 - Live 0x0\nloop 40960 7 - Live 0x0\n")
    assert events.wait(0.4) == Wake()


def test_a_listing_that_cannot_be_read_is_unchanged(make: Maker, machine: Path) -> None:
    events = make()
    (machine / "proc/modules").unlink()
    (machine / "proc/modules").mkdir()
    assert events.wait(0.4) == Wake()


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
    assert events.wait(5).sources == {"local"}
    assert time.monotonic() - started < 1
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
        assert events.wait(10).sources == {"local"}
        assert MAX_WAIT * 0.9 <= time.monotonic() - started <= MAX_WAIT + 0.5
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


def test_sighup_asks_for_a_reload(make: Maker) -> None:
    events = make()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGHUP)).start()
    assert events.wait(5) == Wake(reload=True, reasons=("SIGHUP",))
    assert events.wait(0.2) == Wake()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_wait_and_a_blocking_call(make: Maker, signals: Signals, number: int) -> None:
    ours, theirs = socket.socketpair()
    threading.Timer(0.1, os.kill, (os.getpid(), number)).start()
    started = time.monotonic()
    with ours, theirs, pytest.raises(Interrupted), signals.interruptible():
        ours.recv(1)
    assert signals.stop
    assert make().wait(5) == Wake()
    with pytest.raises(Interrupted), signals.interruptible():
        raise AssertionError("a program that is to end starts nothing")
    assert time.monotonic() - started < 1


def needs_kernel_events() -> None:
    if not os.access(UEVENT, os.W_OK) or UID_MAP.read_text().split() != WHOLE_MAP:
        pytest.skip(f"{UEVENT} is not writable here: synthetic kernel events need root outside a user namespace")


def test_a_real_kernel_event_wakes(signals: Signals) -> None:
    """kernel Documentation/ABI/testing/sysfs-uevent: writing an action makes the kernel send it."""
    needs_kernel_events()
    events = Events(Host("/"), ALL, signals, poll=60)
    UEVENT.write_text("change")
    wake = events.wait(5)
    assert (wake.sources, wake.reasons) == ({"storage"}, ("kernel event block change",))
    assert events.covers(source("cpu", "cpu"))
    events.close()


def test_lost_kernel_events_wake_everyone_who_listens(signals: Signals) -> None:
    """The kernel drops events that do not fit the socket's buffer, and says so once (ENOBUFS, netlink(7))."""
    needs_kernel_events()
    events = Events(Host("/"), ALL, signals, poll=60)
    assert events._kernel is not None
    with socket.socket(fileno=os.dup(events._kernel.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    for _ in range(200):
        UEVENT.write_text("change")
    wake = events.wait(5)
    assert "kernel events were lost" in wake.reasons
    assert wake.sources == {"pci", "net", "storage", "kernel", "cpu"}
    assert events.wait(0.3) == Wake()
    UEVENT.write_text("change")
    assert events.wait(5).sources == {"storage"}
    events.close()


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)


def test_a_simulated_device_is_plugged_in() -> None:
    """umockdev gives libudev a sysfs and a netlink socket of its own."""
    wrapper = shutil.which("umockdev-wrapper")
    if wrapper is None:
        assert os.environ.get("CI") != "true", "the Debian package umockdev is missing"
        pytest.skip("needs the Debian package umockdev")
    ran = run(wrapper, sys.executable, "-m", "tests.events.hotplug")
    assert (ran.stdout, ran.returncode) == ("pci | kernel event pci add,listing of pci changed | ()\n", 0), ran.stderr


def test_a_user_namespace_is_told_from_its_map(caplog: pytest.LogCaptureFixture) -> None:
    """There the socket opens without an error and stays silent for ever."""
    code = "from nfd.events.kernel import KernelEvents; KernelEvents({'pci'})"
    ran = run("unshare", "--user", "--map-root-user", sys.executable, "-c", code)
    if "unshare failed" in ran.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert "DeafError: the kernel sends no events into a user namespace" in ran.stderr


def test_being_deaf_is_said_and_polled(
    signals: Signals, machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (machine / "uid_map").write_text("0 100000 65536\n")
    monkeypatch.setattr("nfd.events.kernel.UID_MAP", machine / "uid_map")
    with pytest.raises(DeafError):
        KernelEvents({"pci"})
    events = Events(Host(machine), ALL, signals, poll=0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "kernel events cannot be heard, listings are compared instead"
    ]
    assert events.covers(source("pci", "pci"))
    assert not events.covers(source("cpu", "cpu")), "no listing tells about CPUs"
    (machine / "sys/block/sdb").mkdir()
    assert events.wait(5).sources == {"storage"}
    events.close()


def test_no_process_is_started() -> None:
    """Slim images have neither ldconfig nor gcc nor ld, and ctypes.util.find_library would run them."""
    code = """
import sys
def refuse(event, args):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"):
        raise RuntimeError(event)
sys.addaudithook(refuse)
from nfd.events.kernel import KernelEvents
from nfd.events.files import Watches
Watches([])
try:
    KernelEvents({"pci"})
except Exception as error:
    print(error)
"""
    ran = run(sys.executable, "-c", code, PATH="/nonexistent")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout in ("", "the kernel sends no events into a user namespace\n")
