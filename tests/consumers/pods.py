"""One pod on its node, through its life: started, probed, restarted, ended with grace."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from itertools import count
from typing import Any

from tests.consumers.container import Container
from tests.consumers.probes import Probe
from tests.controlplane.api import ApiError

Json = dict[str, Any]
REFRESH = 1.0
"""Seconds between two looks at mounted files; a kubelet takes a minute."""
BACK_OFF = 1.0
"""Seconds before a container that ended is started again; a kubelet begins with ten."""
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
_addresses = count(1)


class Running:
    """One pod on its node."""

    def __init__(self, container: Container, pod: Json) -> None:
        self.container, self.pod = container, pod
        self.address = f"10.244.0.{next(_addresses)}"
        """Endpoints must not be on loopback; the process, which is, is told so (container.py)."""
        self.told: Json = {}
        """The status that was written last."""
        self.restarts = -1
        self.ending: float | None = None
        self._start_at = 0.0
        self._refreshed = time.monotonic()
        self.probes: dict[str, Probe] = {}

    @property
    def phase(self) -> str:
        program = self.container.program
        if self.restarts < 0:
            return "Pending"
        if self.pod["spec"]["restartPolicy"] != "Never" or program.alive():
            return "Running"
        return "Succeeded" if program.wait() == 0 else "Failed"

    @property
    def ready(self) -> bool:
        if not self.container.program.alive() or self.phase != "Running":
            return False
        return all(self.probes[name].passed for name in ("startupProbe", "readinessProbe") if name in self.probes)

    def turn(self) -> None:
        """Start what should run, look at the probes, kill what they say is dead."""
        now = time.monotonic()
        if now > self._refreshed + REFRESH:
            self._refreshed = now
            with suppress(ApiError):  # a volume's object that is gone leaves the files
                self.container.refresh()
        if not self.container.program.alive():
            self._start(now)
            return
        for name in self._due():
            self.probes[name].look()
        if any(self.probes[name].failed for name in ("startupProbe", "livenessProbe") if name in self.probes):
            self.container.program.kill()

    def _due(self) -> list[str]:
        """Until the start-up probe succeeds, nothing else is asked."""
        start = self.probes.get("startupProbe")
        if start is not None and not start.passed:
            return ["startupProbe"]
        return [name for name in self.probes if name != "startupProbe"]

    def _start(self, now: float) -> None:
        if self.ending is not None or (self.restarts >= 0 and self.pod["spec"]["restartPolicy"] == "Never"):
            return
        if self.restarts >= 0 and not self._start_at:
            self._start_at = now + BACK_OFF
        if now >= self._start_at:
            self._start_at = 0.0
            self.restarts += 1
            self.container.program.start()
            self.probes = {
                name: self._probe(self.container.spec[name]) for name in PROBES if name in self.container.spec
            }

    def _probe(self, spec: Json) -> Probe:
        return Probe(spec, self.container.port(spec["httpGet"]["port"]))

    def end(self) -> bool:
        """SIGTERM, SIGKILL when the grace is over; true once the process is gone."""
        now = time.monotonic()
        if self.ending is None:
            self.ending = now + self.pod["metadata"]["deletionGracePeriodSeconds"]
            if self.container.program.alive():
                self.container.program.signal(signal.SIGTERM)
        elif now > self.ending:
            self.container.program.kill()
        return not self.container.program.alive()
