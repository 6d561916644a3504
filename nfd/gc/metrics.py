"""Metrics of `nfd-gc`, named as NFD names them (NFD documentation, "Metrics")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from nfd import __version__
from nfd.health import Family


class Metrics:
    """`deleted` and `failed` count by kind of object."""

    def __init__(self) -> None:
        self.started = time.time()
        self.deleted: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def families(self) -> Iterator[Family]:
        about = "Start time in seconds since the epoch, with the version as label."
        yield Family("nfd_gc_build_info", "gauge", about, [("", {"version": __version__}, self.started)])
        yield _counter("nfd_gc_objects_deleted", "Objects deleted because their node is gone.", self.deleted)
        yield _counter("nfd_gc_object_delete_failures", "Objects that could not be deleted.", self.failed)


def _counter(name: str, about: str, counts: Mapping[str, int]) -> Family:
    return Family(name, "counter", about, [("_total", {"kind": kind}, count) for kind, count in counts.items()])
