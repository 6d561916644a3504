"""Kernel events: real ones, simulated ones, and where there are none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nfd.events.kernel import UID_MAP, WHOLE_MAP, KernelEvents, NoKernelEvents
from nfd.events.wakes import Events, Wake
from nfd.host import Host
from nfd.runtime.signals import Signals
from tests.events.machine import ALL, source

UEVENT = Path("/sys/block/loop0/uevent")


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
    assert (ran.stdout, ran.returncode) == ("pci | kernel event pci add | ()\n", 0), ran.stderr


def test_a_user_namespace_is_told_from_its_map(caplog: pytest.LogCaptureFixture) -> None:
    """There the socket opens without an error and stays silent for ever."""
    code = "from nfd.events.kernel import KernelEvents; KernelEvents({'pci'})"
    ran = run("unshare", "--user", "--map-root-user", sys.executable, "-c", code)
    if "unshare failed" in ran.stderr:
        pytest.skip("user namespaces are not allowed here")
    assert "NoKernelEvents: the kernel sends no events into a user namespace" in ran.stderr


def test_being_deaf_is_said_and_polled(
    signals: Signals, machine: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (machine / "uid_map").write_text("0 100000 65536\n")
    monkeypatch.setattr("nfd.events.kernel.UID_MAP", machine / "uid_map")
    with pytest.raises(NoKernelEvents):
        KernelEvents({"pci"})
    events = Events(Host(machine), ALL, signals, poll=0.1)
    assert [record.getMessage() for record in caplog.records] == [
        "kernel events are not available; listings are compared instead"
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
from nfd.runtime.file_watches import Watches
Watches([])
try:
    KernelEvents({"pci"})
except Exception as error:
    print(error)
"""
    ran = run(sys.executable, "-c", code, PATH="/nonexistent")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout in ("", "the kernel sends no events into a user namespace\n")
