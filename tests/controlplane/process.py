"""A server process of the control plane: it ends when we end, however that comes, and its log tells why it failed."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.children import LOGS

TETHER = """
import ctypes, os, signal, sys
ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the test run is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to kill this process with the thread that started it (PR_SET_PDEATHSIG), then becomes the program.

A program of its own, since code between fork and exec can hang in a process that has threads, as gRPC gives us.
"""


@dataclass
class Process:
    """One program, started and stopped by its process id; what it prints is appended to `log`."""

    name: str
    command: Sequence[str]
    log: Path
    _running: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C in a terminal reaches the tests first.

        It ends with the calling thread: start it in the main thread, or in one that lasts.
        """
        tethered = [sys.executable, "-I", "-S", "-c", TETHER, str(os.getpid()), *self.command]
        LOGS[self.log] = self.name
        with self.log.open("ab") as out:
            self._running = subprocess.Popen(
                tethered, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=without_proxy(), start_new_session=True
            )

    def stop(self, grace: float = 20) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds; `grace=0` kills at once. Nothing if it does not run."""
        if self._running is None:
            return
        self._running.send_signal(signal.SIGTERM if grace else signal.SIGKILL)
        try:
            self._running.wait(grace or None)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._running = None

    @property
    def pid(self) -> int | None:
        return self._running.pid if self._running else None

    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def tail(self, lines: int = 15) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(f"{self.name}: {line}" for line in text.splitlines()[-lines:])

    def lost_its_port(self) -> bool:
        """It ended because somebody else took the port between our look and its start."""
        return not self.alive() and "address already in use" in self.tail()


def free_ports(count: int) -> list[int]:
    """TCP ports of loopback that nobody listens on, of those that this process has. Each is given again last.

    Below 32768, where Linux's outgoing connections do not begin: none of them takes one while its server is away.
    """
    free: list[int] = []
    ports = _own_ports()
    for _ in range(len(ports)):
        ports.rotate(-1)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", ports[-1]))
            except OSError:
                continue
        free.append(ports[-1])
        if len(free) == count:
            return free
    raise OSError(f"hardly any free TCP port on 127.0.0.1 between {min(ports)} and {max(ports)}")


@cache
def _own_ports() -> deque[int]:
    """1,000 ports in any order, which no other test process uses. Their lock is an abstract Unix socket, which ends
    with the process and belongs to a network namespace as ports do. If there are too many processes, ports are
    shared."""
    ranges = [range(start, start + 1000) for start in range(20000, 32000, 1000)]
    own = next((ports for ports in ranges if _is_locked(ports.start)), random.choice(ranges))
    return deque(random.sample(own, len(own)))


def _is_locked(port: int) -> bool:
    """Whether this process now holds the lock of the range that begins with that port."""
    lock = socket.socket(socket.AF_UNIX)
    try:
        lock.bind(f"\0nfd-tests-{port}")
    except OSError:
        lock.close()
        return False
    lock.detach()  # it stays open as long as the process
    return True


def without_proxy() -> Mapping[str, str]:
    """Our environment less the proxy variables: everything here is on loopback, which no proxy can reach."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    return {key: value for key, value in os.environ.items() if key.lower() not in proxies}
