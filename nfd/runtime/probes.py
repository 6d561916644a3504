"""The endpoints of a daemon: when `/healthz` and `/readyz` answer 503, and `/metrics`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from nfd.runtime.http_server import OK, Answer, Handler
from nfd.runtime.prometheus import OPENMETRICS, PLAIN, Family, render

STUCK = 300.0
"""Seconds after which a pass that does not end makes /healthz fail."""


def metrics_answer(families: Iterable[Family], accept: str) -> Answer:
    """The metrics in the form that an Accept header asks for."""
    openmetrics = "application/openmetrics-text" in accept
    return Answer(render(families, openmetrics=openmetrics), content_type=OPENMETRICS if openmetrics else PLAIN)


def alive_answer(busy_since: float | None) -> Answer:
    """`/healthz` of a program whose pass began then, or has time until then for what it does (monotonic seconds; None:
    it is between two)."""
    busy = 0.0 if busy_since is None else time.monotonic() - busy_since
    return Answer(f"busy for {busy:.0f} s\n", 503) if busy > STUCK else OK


def probes(
    alive: Callable[[], Answer], missing: Callable[[], str], families: Callable[[], Iterable[Family]]
) -> Handler:
    """What a daemon serves: `/healthz`, `/readyz` (503 while `missing` names what it waits for), and `/metrics`."""

    def answer(path: str, accept: str) -> Answer | None:
        match path:
            case "/healthz":
                return alive()
            case "/readyz":
                return Answer(f"{waits}\n", 503) if (waits := missing()) else OK
            case "/metrics":
                return metrics_answer(families(), accept)
        return None

    return answer
