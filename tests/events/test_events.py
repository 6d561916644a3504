"""Listings and signals wake the worker."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.events.wakes import Wake
from nfd.runtime.signals import Interrupted, Signals
from tests.children import run
from tests.events.machine import Maker


def test_nothing_wakes_nobody(make: Maker) -> None:
    started = time.monotonic()
    assert make().wait(0.3) == Wake()
    assert time.monotonic() - started >= 0.3


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


def test_another_device_in_the_same_place_wakes(make: Maker, machine: Path) -> None:
    """A USB stick swapped for another in the same port, between two comparisons."""
    (machine / "elsewhere").mkdir()
    events = make()
    place = machine / "sys/bus/pci/devices/0000:00:00.0"
    place.rename(machine / "gone")
    (machine / "elsewhere").rename(place)
    assert events.wait(5).sources == {"pci"}


def test_a_device_that_is_back_after_a_scan_missed_it_is_seen(make: Maker, machine: Path) -> None:
    """Its listing is then as it was at the last comparison before the scan."""
    events = make(poll=60)
    place, away = machine / "sys/bus/pci/devices/0000:00:00.0", machine / "away"
    place.rename(away)
    with events.scan({"pci"}):
        assert not place.exists()
    assert events.wait(0.3) == Wake(), "the scan has seen it"
    with events.scan({"pci"}):
        away.rename(place)
    assert events.wait(5).sources == {"pci"}
    place.rename(away)
    with events.scan({"usb"}):
        pass
    assert events.wait(5).sources == {"pci"}, "a scan of others has not"


def test_use_counts_of_modules_wake_nobody(make: Maker, machine: Path) -> None:
    events = make()
    (machine / "proc/modules").write_text("ext4 1 99 - Live 0x0\nloop 40960 7 - Live 0x0\n")
    assert events.wait(0.4) == Wake()


def test_a_listing_that_cannot_be_read_is_unchanged(make: Maker, machine: Path) -> None:
    events = make()
    (machine / "proc/modules").unlink()
    (machine / "proc/modules").mkdir()
    assert events.wait(0.4) == Wake()


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
    assert make().wait(60) == Wake()
    with pytest.raises(Interrupted), signals.interruptible():
        raise AssertionError("a program that is to end starts nothing")
    assert time.monotonic() - started < 30


MANY = """
import os, resource, signal
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
from nfd.runtime.signals import Signals
signals = Signals()
signals.wait(0.01)
os.kill(os.getpid(), signal.SIGHUP)
signals.wait(60)
assert signals.fileno() > 1023 and signals.reload
"""


def test_a_program_with_many_descriptors_hears_signals() -> None:
    run([sys.executable, "-c", MANY], timeout=50)
