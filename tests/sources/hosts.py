"""Small machines made in place, and what the sources find on them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from nfd.discovery import Discovery, Plan, discover
from nfd.errors import HostError
from nfd.host import MAX_FILE, Host
from nfd.host.replay import Replay
from nfd.source import Source

T = TypeVar("T")


def make_host(root: Path, files: Mapping[str, str | bytes], **environment: str) -> Replay:
    """A machine that has these files; a path that ends in a slash is an empty directory."""
    for name, content in files.items():
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Replay(root, environment)


def scan(host: Host, source: Source, previous: Discovery | None = None, **options: Any) -> Discovery:
    """One pass of one source, configured with these options."""
    config = source.config.model_validate(options)
    return discover(host, Plan((source,), (source,), {source.name: config}), previous)


def labels_of(found: Discovery, source: Source) -> dict[str, str]:
    """The labels without the prefix of the source."""
    prefix = f"feature.node.kubernetes.io/{source.name}-"
    return {key.removeprefix(prefix): value for key, value in found.labels.items()}


class Counting(Host):
    """A running machine of which each access is noted; of a folder with a slash at the end."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.seen: list[str] = []

    def data(self, path: str, limit: int = 1 << 20) -> bytes | None:
        self.seen.append(path)
        return super().data(path, limit)

    def inodes(self, path: str) -> tuple[tuple[str, int], ...]:
        self.seen.append(f"{path}/")
        return super().inodes(path)


class Failing(Replay):
    """Notes what is read, and what is listed with a slash at the end; what is in `broken` gives the error `code`."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.seen: set[str] = set()
        self.broken: frozenset[str] = frozenset()
        self.code = errno.EIO
        super().__init__(folder, environment)
        self.seen.clear()

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        return self.unless_broken(path, lambda: super(Failing, self).data(path, limit))

    def head(self, path: str, size: int) -> bytes | None:
        return self.unless_broken(path, lambda: super(Failing, self).head(path, size))

    def names(self, path: str) -> tuple[str, ...]:
        return self.unless_broken(f"{path}/", lambda: super(Failing, self).names(path))

    def unless_broken(self, path: str, read: Callable[[], T]) -> T:
        """What `read` gives. Raises: HostError if the path is broken."""
        self.seen.add(path)
        if path in self.broken:
            raise HostError(path, os.strerror(self.code), self.code)
        return read()
