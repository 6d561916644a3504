"""Metrics of `nfd-gc`, named as NFD names them (NFD documentation, "Metrics")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from nfd import __version__
from nfd.runtime.http_server import Family, failures_family


class Metrics:
    """`deleted` and `failed` count by kind of object, from 0 on: Prometheus sees an increase of what was there."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.started = time.time()
        self.deleted = Counter(dict.fromkeys(kinds, 0))
        self.failed = self.deleted.copy()

    def families(self) -> Iterator[Family]:
        about = "Start time in seconds since the epoch, with the version as label."
        yield Family("nfd_gc_build_info", "gauge", about, [("", {"version": __version__}, self.started)])
        yield _counter("nfd_gc_objects_deleted", "Objects deleted because their Node no longer exists.", self.deleted)
        yield _counter("nfd_gc_object_delete_failures", "Objects that nfd-gc could not delete.", self.failed)
        yield failures_family("nfd_gc_")


def _counter(name: str, about: str, counts: Mapping[str, int]) -> Family:
    return Family(name, "counter", about, [("_total", {"kind": kind}, count) for kind, count in counts.items()])
