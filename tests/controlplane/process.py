"""A server process of the control plane: it ends when we end, however that comes, and its log tells why it failed."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
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
    """TCP ports of loopback that nobody listens on, from the range of this process.

    Below 32768, where Linux's outgoing connections do not begin: none of them takes one while its server is away.
    """
    free: list[int] = []
    ports = _own_range()
    for port in random.sample(ports, len(ports) // 2):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise OSError(f"hardly any free TCP port on 127.0.0.1 between {ports.start} and {ports.stop}")


@cache
def _own_range() -> range:
    """500 ports that no other test process uses. Its lock is an abstract Unix socket, which ends with the process and
    belongs to a network namespace as ports do. If there are too many processes, ranges are shared."""
    ranges = [range(start, start + 500) for start in range(20000, 32000, 500)]
    for ports in ranges:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0nfd-tests-{ports.start}")
        except OSError:
            lock.close()
            continue
        _locks.append(lock)
        return ports
    return random.choice(ranges)


_locks: list[socket.socket] = []


def without_proxy() -> Mapping[str, str]:
    """Our environment less the proxy variables: everything here is on loopback, which no proxy can reach."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    return {key: value for key, value in os.environ.items() if key.lower() not in proxies}
