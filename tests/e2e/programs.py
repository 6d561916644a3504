"""Our programs as processes: the installed console scripts, watched through their metrics, logs and exit statuses."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.children import LOGS
from tests.controlplane.process import TETHER, without_proxy

T = TypeVar("T")
SCRIPTS = Path(sysconfig.get_path("scripts"))
POLL = 0.05


def eventually(condition: Callable[[], T], seconds: float = 30.0) -> T:
    """The first true value that `condition` gives; none within that time is a failure."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(POLL)
    return value


@dataclass
class Program:
    """One console script; `log` collects stdout and stderr of all its lives. It ends with the test run."""

    name: str
    flags: tuple[str, ...]
    log: Path
    http_port: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)
    _running: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        command = [sys.executable, "-I", "-S", "-c", TETHER, str(os.getpid()), str(SCRIPTS / self.name), *self.flags]
        env = {**without_proxy(), "PYTHONWARNINGS": "error", **self.variables}
        LOGS[self.log] = self.name
        with self.log.open("ab") as out:
            self._running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env)

    def stop(self, number: int = signal.SIGTERM, seconds: float = 20) -> int:
        """Send a signal and wait; the exit status."""
        self.signal(number)
        return self.wait(seconds)

    def kill(self) -> None:
        """`kill -9`."""
        if self.alive():
            self.stop(signal.SIGKILL)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float = 20) -> int:
        return self._process.wait(seconds)

    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self._running is not None, f"{self.name} was never started"
        return self._running

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self) -> list[dict[str, Any]]:
        """The log lines so far, all lives together; half a line at the end is left out."""
        whole = self.text().splitlines(keepends=True)
        return [json.loads(line) for line in whole if line.startswith("{") and line.endswith("\n")]

    def said(self, event: str) -> list[dict[str, Any]]:
        """The log lines with that phrase."""
        return [line for line in self.events() if line["event"] == event]

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a GET on the HTTP port. Raises: OSError if nobody answers."""
        link = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()

    def ready(self) -> bool:
        """Whether /readyz says so. A program that has ended never will be."""
        assert self.alive(), f"{self.name} ended:\n{self.text()}"
        try:
            return self.get("/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def metric(self, sample: str) -> float:
        """The value of one sample of /metrics, 0 if there is none of that name and these labels."""
        for line in self.get("/metrics")[1].splitlines():
            name, _, value = line.rpartition(" ")
            if name == sample:
                return float(value)
        return 0.0


def port_of(master: Program) -> int:
    """Where it takes reports, by its own flag."""
    return int(next(flag for flag in master.flags if flag.startswith("-port=")).removeprefix("-port="))


def leads(master: Program) -> float:
    """1 if it does, else 0."""
    return master.metric("nfd_master_leading")


def reports(worker: Program) -> float:
    """How many reports of this worker process the master took; 0 while it does not serve yet."""
    try:
        return worker.metric("nfd_worker_reports_total")
    except OSError:
        return 0.0


def scans(worker: Program) -> float:
    """How many passes over all its sources this worker process has made."""
    return worker.metric('nfd_worker_scans_total{kind="full"}')


def passes(master: Program) -> float:
    """How many passes over a node this master process has begun."""
    return master.metric("nfd_master_node_update_requests_total")


def pass_again(worker: Program) -> None:
    """Make the worker scan everything, and wait until it has."""
    before = scans(worker)
    worker.signal(signal.SIGHUP)
    eventually(lambda: scans(worker) > before)
