"""Changed files in watched directories, through inotify; it works on real file systems, not on sysfs or procfs.

A directory may appear, vanish or be replaced (as a mounted ConfigMap is) at any time: until it is there, the nearest
directory above it is watched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType

import inotify_simple
from inotify_simple import flags

from nfd.runtime.files import open_folder

MAX_FOLDERS = 64
"""Sub-directories watched in one directory."""

_MASK = (
    flags.CLOSE_WRITE | flags.ATTRIB | flags.CREATE | flags.DELETE | flags.MOVED_FROM | flags.MOVED_TO
    | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory of interest and, if `deep`, those in it; `topic` is what a change in it is called.

    `open` gives a readable descriptor of a directory by its path, or raises OSError. `counts` says which names in it
    are of interest; None: all. What happens to a directory in it always is.
    """

    topic: str
    path: str
    open: Callable[[str], int] = open_folder
    deep: bool = True
    counts: Callable[[str], bool] | None = None


def visible_names(name: str) -> bool:
    """All but hidden ones, such as unfinished files; two dots begin the names of a kubelet's links in a volume."""
    return not name.startswith(".") or name.startswith("..")


class Watches:
    """inotify watches on folders; raises OSError if the kernel has none left."""

    def __init__(self, folders: Iterable[Folder]) -> None:
        self._folders = tuple(folders)
        with finding(inotify_simple, lambda name: None):  # libc is part of this process
            self._inotify = inotify_simple.INotify(nonblocking=True)
        self._watched: dict[int, set[Folder]] = {}
        self._inside: dict[Folder, list[int]] = {}
        self.sync()

    def fileno(self) -> int:
        return int(self._inotify.fileno())

    def close(self) -> None:
        self._inotify.close()

    def read(self) -> frozenset[str]:
        """Topics of the pending events, without waiting."""
        found: set[str] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                found |= {folder.topic for folder in self._folders}
            whole = not event.name or bool(event.mask & flags.ISDIR)
            for folder in self._watched.get(event.wd, ()):
                if whole or folder.counts is None or folder.counts(event.name):
                    found.add(folder.topic)
        return frozenset(found) | self.sync()

    def sync(self) -> frozenset[str]:
        """Watch what is there now; gives the topics whose directories appeared, vanished or were replaced."""
        watched: dict[int, set[Folder]] = {}
        changed: set[str] = set()
        for folder in self._folders:
            inside = self._watch(folder)
            for watch in inside:
                watched.setdefault(watch, set()).add(folder)
            if not inside and (above := self._watch_above(folder)) is not None:
                watched.setdefault(above, set())
            if self._inside.setdefault(folder, inside) != inside:
                changed.add(folder.topic)
            self._inside[folder] = inside
        for watch in self._watched.keys() - watched.keys():
            with suppress(OSError):  # it ends by itself when its directory is deleted
                self._inotify.rm_watch(watch)
        self._watched = watched
        return frozenset(changed)

    def _watch(self, folder: Folder) -> list[int]:
        """Watch descriptors of the folder and the directories in it; adding one again gives the same number."""
        watches: list[int] = []
        with suppress(OSError), _opened(folder, folder.path) as descriptor:
            watches.append(self._add(descriptor))
            for name in _folders_in(descriptor) if folder.deep else ():
                with suppress(OSError), _opened(folder, f"{folder.path}/{name}") as below:
                    watches.append(self._add(below))
        return watches

    def _watch_above(self, folder: Folder) -> int | None:
        path = folder.path
        while path:
            path = path.rpartition("/")[0]
            with suppress(OSError), _opened(folder, path) as descriptor:
                return self._add(descriptor)
        return None

    def _add(self, descriptor: int) -> int:
        """By descriptor, since only the folder's own `open` follows links correctly."""
        return int(self._inotify.add_watch(f"/proc/self/fd/{descriptor}", _MASK))


@contextmanager
def finding(module: ModuleType, find: Callable[[str], str | None]) -> Iterator[None]:
    """Let a module find its C library by `find` instead of `ctypes.util.find_library`.

    The latter runs ldconfig, gcc and ld, which slim images lack and which take longer than a scan.
    """
    usual = module.find_library
    module.find_library = find  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.find_library = usual  # type: ignore[attr-defined]


@contextmanager
def _opened(folder: Folder, path: str) -> Iterator[int]:
    descriptor = folder.open(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _folders_in(descriptor: int) -> list[str]:
    """Names of directories and links, sorted."""
    with os.scandir(descriptor) as entries:
        found = sorted(one.name for one in entries if one.is_symlink() or one.is_dir(follow_symlinks=False))
    return found[:MAX_FOLDERS]
