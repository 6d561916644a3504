"""Metrics of `nfd-gc`, named as NFD names them (NFD documentation, "Metrics")."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator

from nfd import __version__
from nfd.runtime.http_server import Family, build_family, counter, failures_family


class Metrics:
    """`deleted` and `failed` count by kind of object, from 0 on: Prometheus sees an increase of what was there."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.started = time.time()
        self.deleted = Counter(dict.fromkeys(kinds, 0))
        self.failed = self.deleted.copy()

    def families(self) -> Iterator[Family]:
        yield build_family("nfd_gc_", __version__, self.started)
        about = "Objects deleted because their Node no longer exists."
        yield counter("nfd_gc_objects_deleted", about, self.deleted, "kind")
        yield counter("nfd_gc_object_delete_failures", "Objects that nfd-gc could not delete.", self.failed, "kind")
        yield failures_family("nfd_gc_")
