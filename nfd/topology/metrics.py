"""Metrics of `nfd-topology-updater`, named as NFD names them (NFD documentation, "Metrics"); and additional ones."""

from __future__ import annotations

import time
from collections.abc import Iterator

from nfd import __version__
from nfd.runtime.http_server import Family, failures_family


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self.started = time.time()
        self.scan_errors = 0
        self.publish_errors = 0
        self.written = 0

    def families(self) -> Iterator[Family]:
        about = "Start time in seconds since the epoch, with the version as label."
        yield Family("nfd_topology_updater_build_info", "gauge", about, [("", {"version": __version__}, self.started)])
        yield _counter(
            "scan_errors", "Scans that failed. The NodeResourceTopology object stays as it was.", self.scan_errors
        )
        yield _counter("publish_errors", "Writes that failed. The program tries again.", self.publish_errors)
        yield _counter("writes", "Writes of the NodeResourceTopology object after a change.", self.written)
        yield failures_family("nfd_topology_updater_")


def _counter(name: str, about: str, count: int) -> Family:
    return Family(f"nfd_topology_updater_{name}", "counter", about, [("_total", {}, count)])
