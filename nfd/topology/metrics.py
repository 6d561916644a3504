"""Metrics of `nfd-topology-updater`, named as NFD names them (NFD documentation, "Metrics"); and additional ones."""

from __future__ import annotations

import time
from collections.abc import Iterator

from nfd import __version__
from nfd.runtime.http_server import Family, build_family, counter, failures_family

PREFIX = "nfd_topology_updater_"


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self.started = time.time()
        self.scan_errors = 0
        self.publish_errors = 0
        self.written = 0

    def families(self) -> Iterator[Family]:
        yield build_family(PREFIX, __version__, self.started)
        about = "Scans that failed. The NodeResourceTopology object stays as it was."
        yield counter(f"{PREFIX}scan_errors", about, self.scan_errors)
        yield counter(f"{PREFIX}publish_errors", "Writes that failed. The program tries again.", self.publish_errors)
        about = "Writes of the NodeResourceTopology object after a change."
        yield counter(f"{PREFIX}writes", about, self.written)
        yield failures_family(PREFIX)
