"""The two lines into a guest: one for commands, one on which it tells the kernel's events as they happen."""

from __future__ import annotations

import base64
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.vm.qmp import connect

ANSWER_SECONDS, EVENT_SECONDS = 600.0, 300.0
"""The longest time for a command, and for an event: without KVM, beside other tests, a guest needs minutes."""


class GuestError(Exception):
    """A command in the guest failed, or the guest does not answer."""


class Agent:
    """Runs one command after the other as root of the guest."""

    def __init__(self, path: Path) -> None:
        self._link = connect(path)
        self._pending = b""
        self._number = 0

    def hello(self, seconds: float) -> str:
        """The guest's kernel release, said once when it has booted."""
        return self._reply(0, seconds)[1]

    def run(self, command: str, seconds: float = ANSWER_SECONDS) -> str:
        """What it prints, stdout and stderr together. Raises: GuestError if its exit status is not 0."""
        status, text = self.status(command, seconds)
        if status:
            raise GuestError(f"{command}: exit status {status}: {text[-3000:]}")
        return text

    def status(self, command: str, seconds: float = ANSWER_SECONDS) -> tuple[int, str]:
        """Exit status, and what it prints."""
        self.begin(command)
        return self.end(seconds)

    def begin(self, command: str) -> None:
        """Give a command without waiting for its end, which `end` does."""
        self._number += 1
        self._link.sendall(b"%d %s\n" % (self._number, base64.b64encode(command.encode())))

    def end(self, seconds: float = ANSWER_SECONDS) -> tuple[int, str]:
        return self._reply(self._number, seconds)

    def close(self) -> None:
        self._link.close()

    def _reply(self, number: int, seconds: float) -> tuple[int, str]:
        deadline = time.monotonic() + seconds
        while True:
            words = self._line(deadline).split()
            if len(words) >= 2 and words[0] == b"%d" % number:
                return int(words[1]), base64.b64decode(words[2] if len(words) > 2 else b"").decode(errors="replace")

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._pending:
            self._link.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                data = self._link.recv(1 << 20)
            except TimeoutError as error:
                raise GuestError("the guest does not answer in time") from error
            if not data:
                raise GuestError("QEMU has gone")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line


@dataclass(frozen=True)
class KernelEvent:
    """One uevent; `at` is when we heard of it, by our monotonic clock."""

    at: float
    action: str
    subsystem: str
    path: str


class KernelEvents:
    """What the guest's kernel tells, listened to from the start."""

    def __init__(self, path: Path) -> None:
        self._link = connect(path)
        self._link.settimeout(None)
        self._lines = self._link.makefile("r", errors="replace")
        self.heard: list[KernelEvent] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait(self, matches: Callable[[KernelEvent], bool], since: int, seconds: float = EVENT_SECONDS) -> KernelEvent:
        """The first one that matches among those heard after the first `since`."""
        deadline = time.monotonic() + seconds
        while True:
            for event in self.heard[since:]:
                if matches(event):
                    return event
            if time.monotonic() > deadline:
                raise GuestError(f"no such event within {seconds} s, but {self.heard[since:][-20:]}")
            time.sleep(0.02)

    def close(self) -> None:
        self._link.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._lines.close()
        self._link.close()

    def _listen(self) -> None:
        """Each is some lines KEY=VALUE, of which SEQNUM is the last (kobject_uevent_env in the kernel)."""
        said: dict[str, str] = {}
        for line in self._lines:
            key, _, value = line.strip().partition("=")
            said[key] = value
            if key == "SEQNUM":
                words = (said.get(name, "") for name in ("ACTION", "SUBSYSTEM", "DEVPATH"))
                self.heard.append(KernelEvent(time.monotonic(), *words))
                said = {}
