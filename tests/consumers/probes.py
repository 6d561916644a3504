"""HTTP probes as a kubelet makes them: initial delay, period, time-out, thresholds."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass
class Probe:
    """One probe of a container that runs. `spec` is the pod's; nothing of it is shortened."""

    spec: Json
    port: int
    started: float = field(default_factory=time.monotonic)
    passed: bool = False
    """What holds at present; false until it first succeeds."""
    failed: bool = False
    """It failed as often in a row as the threshold says."""
    _asked: float = 0.0
    _failures: int = 0

    def look(self) -> None:
        """Ask, if it is time to."""
        now = time.monotonic()
        first = self.started + self.spec.get("initialDelaySeconds", 0)
        if now < max(first, self._asked + self.spec.get("periodSeconds", 10)):
            return
        self._asked = now
        if self._ask():
            self.passed, self.failed, self._failures = True, False, 0
            return
        self._failures += 1
        if self._failures >= self.spec.get("failureThreshold", 3):
            self.passed, self.failed = False, True

    def _ask(self) -> bool:
        """Any status from 200 to 399 is success."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.spec.get("timeoutSeconds", 1))
        try:
            link.request("GET", self.spec["httpGet"]["path"])
            return 200 <= link.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            link.close()
