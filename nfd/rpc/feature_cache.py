"""Feature contents: one parsed copy per digest, kept while a call or a node's latest report uses it.

Thousands of nodes share most of their features, for example the kernel configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from nfd.rpc.convert import Content, Incoming, digest, from_blob
from nfd.rpc.replication_messages import Part, Uses

MAX_BYTES = 8 * 1024 * 1024
"""Features of one report, as blobs; usually they have some 50 kB."""


class FeatureCache:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Part] = {}
        self._uses = Uses()

    def __len__(self) -> int:
        return len(self._kept)

    @contextmanager
    def use(self, incoming: Incoming) -> Iterator[tuple[bytes, ...]]:
        """Store the call's blobs and keep, during the call, all features that it names. Yields the digests that are
        missing.

        Raises: ValueError for a blob that is malformed or that the report does not name, and for too many bytes.
        """
        wanted = dict.fromkeys(key for _, key in incoming.refs)
        brought = {digest(blob): blob for blob in incoming.blobs}
        if brought.keys() - wanted.keys():
            raise ValueError("a blob is not among the features that this report names")
        fresh = {key: Part(from_blob(blob), len(blob)) for key, blob in brought.items() if key not in self._kept}
        total = sum((fresh.get(key) or self._kept[key]).size for key in wanted if key in fresh or key in self._kept)
        if total > MAX_BYTES:
            raise ValueError(f"{total} bytes of features, at most {MAX_BYTES} are allowed")
        self._kept |= fresh
        found = [key for key in wanted if key in self._kept]
        self._uses.acquire(found)
        try:
            yield tuple(key for key in wanted if key not in self._kept)
        finally:
            self._drop(self._uses.release(found))

    def contents(self, incoming: Incoming) -> Iterator[tuple[str, Content]]:
        """Name and content of each feature, inside a `use` that misses nothing."""
        return ((name, self._kept[key].content) for name, key in incoming.refs)

    def hold(self, node: str, incoming: Incoming) -> None:
        """Keep the features of this report, which is now the node's latest."""
        self._drop(self._uses.replace(node, tuple({key for _, key in incoming.refs})))

    def known(self, key: bytes) -> Content | None:
        """The content of a feature that a node's latest report uses."""
        kept = self._kept.get(key)
        return kept.content if kept is not None else None

    def adopt(self, node: str, parts: Mapping[bytes, Part]) -> None:
        """Keep the features of a report that another master has accepted, or that was in a snapshot."""
        for key, part in parts.items():
            self._kept.setdefault(key, part)
        self._drop(self._uses.replace(node, tuple(parts)))

    def forget(self, node: str) -> None:
        """Drop the features that only this node's latest report uses."""
        self._drop(self._uses.forget(node))

    def _drop(self, gone: Iterable[bytes]) -> None:
        for key in gone:
            del self._kept[key]
