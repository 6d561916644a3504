"""QEMU's control socket (QEMU documentation, QMP): commands and their answers; events are kept until asked for."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class QmpError(Exception):
    """QEMU refused a command; the message is the command and the reason."""


class Qmp:
    def __init__(self, path: Path) -> None:
        self._link = connect(path)
        self._lines = self._link.makefile("rb")
        self.events: list[Json] = []
        try:
            self._answer()  # the greeting
            self.ask("qmp_capabilities")
        except BaseException:
            self.close()
            raise

    def ask(self, command: str, **arguments: object) -> Any:
        """What the command returns. Raises: QmpError."""
        self._link.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        answer = self._answer()
        if "error" in answer:
            raise QmpError(f"{command} {arguments}: {answer['error']['desc']}")
        return answer["return"]

    def event(self, name: str, seconds: float = 60) -> Json:
        """Wait for the next event of that name, those that came before not counted twice."""
        deadline = time.monotonic() + seconds
        while not any(one["event"] == name for one in self.events):
            left = deadline - time.monotonic()
            assert left > 0, f"no {name} within {seconds} s, but {[one['event'] for one in self.events]}"
            self.ask("query-status")
            time.sleep(0.02)
        position = next(index for index, one in enumerate(self.events) if one["event"] == name)
        return self.events.pop(position)

    def close(self) -> None:
        self._lines.close()
        self._link.close()

    def _answer(self) -> Json:
        while line := self._lines.readline():
            said: Json = json.loads(line)
            if "event" not in said:
                return said
            self.events.append(said)
        raise QmpError("QEMU has gone")


def connect(path: Path, seconds: float = 20) -> socket.socket:
    """A connection to a socket that a program has just begun to make; reads wait for a minute at most."""
    deadline = time.monotonic() + seconds
    while True:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(60)
        try:
            link.connect(str(path))
            return link
        except OSError:
            link.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
