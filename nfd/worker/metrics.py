"""The worker's metrics: NFD's names (NFD documentation, "Metrics"), and additional ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from nfd.discovery import Discovery
from nfd.runtime.prometheus import Family, Histogram, build_family, counter, failures_family, gauge

BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""Upper bounds in seconds, as NFD has them."""


@dataclass(slots=True)
class Metrics:
    """Counters and the latest values; `started` in seconds since the epoch, other times by the monotonic clock."""

    version: str
    node: str
    started: float
    durations: Histogram = field(default_factory=lambda: Histogram(BUCKETS))
    full_scans: int = 0
    partial_scans: int = 0
    found: Discovery = field(default_factory=Discovery)
    source_failures: Counter[str] = field(default_factory=Counter)
    reports: int = 0
    early_reports: int = 0
    failures: int = 0
    taken_at: float | None = None

    def scanned(self, found: Discovery, seconds: float, *, full: bool) -> None:
        """Count a pass; NFD's histogram holds those over all sources."""
        before, self.found = self.found.scans, found
        self.source_failures.update(
            name for name in found.failed if name not in found.scans or found.scans[name] is not before.get(name)
        )
        if full:
            self.full_scans += 1
            self.durations.observe(seconds)
        else:
            self.partial_scans += 1

    def families(self, now: float) -> Iterator[Family]:
        """All metrics; `now` by the monotonic clock."""
        yield build_family("nfd_worker_", self.version, self.started)
        yield Family(
            "nfd_worker_feature_discovery_duration_seconds",
            "histogram",
            "Time of a full scan.",
            self.durations.samples({"node": self.node}),
        )
        about = (
            "Scans by kind. full: the scans at the interval core.sleepInterval, and those at the start and after a "
            "reload or an error. partial: scans of only those sources that an event concerns."
        )
        yield counter("nfd_worker_scans", about, {"full": self.full_scans, "partial": self.partial_scans}, "kind")
        yield from self._sources()
        yield from self._reports(now)
        yield failures_family("nfd_worker_")

    def _sources(self) -> Iterator[Family]:
        scans, failed = self.found.scans, self.found.failed
        seconds = {name: scan.seconds for name, scan in scans.items()}
        names = sorted(scans.keys() | failed.keys())
        yield gauge("nfd_worker_source_scan_seconds", "Time of the source's latest run.", seconds, "source")
        about = "1 if the latest run of the source failed. The worker then reports its last good result."
        yield gauge("nfd_worker_source_failed", about, {name: int(name in failed) for name in names}, "source")
        about = "Runs of the source that failed completely or in part."
        failures = {name: self.source_failures[name] for name in names}
        yield counter("nfd_worker_source_failures", about, failures, "source")
        yield from self._devices()
        yield gauge("nfd_worker_labels", "Labels that the worker has found.", len(self.found.labels))

    def _devices(self) -> Iterator[Family]:
        if self.found.devices:
            yield Family(
                "nfd_worker_devices",
                "gauge",
                "Devices of a source by state, such as present (in the machine), usable (by their driver) and failing.",
                [
                    ("", {"source": name, "state": state}, count)
                    for name, states in self.found.devices.items()
                    for state, count in states.items()
                ],
            )

    def _reports(self, now: float) -> Iterator[Family]:
        yield counter("nfd_worker_reports", "Reports that the master accepted.", self.reports)
        about = "Accepted reports that the worker sent because a new master asked all workers to report."
        yield counter("nfd_worker_early_reports", about, self.early_reports)
        yield counter("nfd_worker_report_failures", "Reports that the master did not accept.", self.failures)
        if self.taken_at is not None:
            about = "Time since the master last accepted a report."
            yield gauge("nfd_worker_last_report_age_seconds", about, now - self.taken_at)
