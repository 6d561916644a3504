"""Files below one directory, links resolved as if that directory were `/`.

On Linux 5.6 and newer the kernel does the resolving: openat2(2) with RESOLVE_IN_ROOT. Where that call is missing or
filtered, the path is walked component by component. Nothing outside the directory is ever opened.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
LIST = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
LOOK = os.O_PATH | os.O_CLOEXEC

MAX_LINKS = 40
CHUNK = 65536
"""Bytes of one read(2), at most."""

T = TypeVar("T")
_SYS_OPENAT2 = 437
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_IN_ROOT = 0x10


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Tree:
    """Opens paths below `root`; every method raises OSError as the kernel does."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._dir = os.open(self.root, LOOK | os.O_DIRECTORY)
        self._open = _opener(self._dir, self.root)

    def close(self) -> None:
        os.close(self._dir)

    def open(self, path: str, flags: int) -> int:
        """Open a path (relative to the root, leading slashes ignored) and return a file descriptor."""
        if "\0" in path:
            raise OSError(errno.EINVAL, "has a NUL byte in its name")
        return self._open(path.lstrip("/") or ".", flags)

    def read(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a regular file, and no read beyond them; EISDIR or EINVAL for anything else."""
        descriptor = self.open(path, READ)
        try:
            _check_regular(descriptor)
            parts: list[bytes] = []
            while size and (part := os.read(descriptor, min(size, CHUNK))):  # sysfs and procfs report no size
                parts.append(part)
                size -= len(part)
        finally:
            os.close(descriptor)
        return b"".join(parts)

    def names(self, path: str) -> list[str]:
        return sorted(self.listing(path), key=os.fsencode)

    def listing(self, path: str) -> list[str]:
        """In the kernel's order."""
        return self._with(path, LIST, os.listdir)

    def folders(self, path: str) -> list[str]:
        """Names of the directories in a directory, links to some not among them."""
        return self._with(path, LIST, _folders)

    def inodes(self, path: str) -> list[tuple[str, int]]:
        return self._with(path, LIST, _inodes)

    def has(self, path: str) -> bool:
        """Whether the path exists; raises if that cannot be found out."""
        try:
            os.close(self.open(path, LOOK))
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def stat(self, path: str) -> os.stat_result:
        return self._with(path, LOOK, os.fstat)

    def _with(self, path: str, flags: int, use: Callable[[int], T]) -> T:
        descriptor = self.open(path, flags)
        try:
            return use(descriptor)
        finally:
            os.close(descriptor)


def _check_regular(descriptor: int) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "is a directory")
    if not stat.S_ISREG(mode):
        raise OSError(0, "is not a regular file")


def _folders(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as found:
        return sorted((one.name for one in found if one.is_dir(follow_symlinks=False)), key=os.fsencode)


def _inodes(descriptor: int) -> list[tuple[str, int]]:
    with os.scandir(descriptor) as found:
        return sorted(((one.name, one.inode()) for one in found), key=lambda one: os.fsencode(one[0]))


def _opener(directory: int, root: Path) -> Callable[[str, int], int]:
    if root == Path("/"):
        return lambda path, flags: os.open("/" + path, flags)
    in_root = _kernel_opener(directory)
    try:
        os.close(in_root(".", LOOK))
    except OSError:
        return lambda path, flags: _walk(directory, path, flags)
    return in_root


def _kernel_opener(directory: int) -> Callable[[str, int], int]:
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    resolve = _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS
    hows = {flags: ctypes.byref(_OpenHow(flags, 0, resolve)) for flags in (READ, LIST, LOOK)}

    def in_root(path: str, flags: int) -> int:
        how = hows[flags]
        for _ in range(MAX_LINKS):  # EAGAIN: something was renamed while the kernel followed a ".."
            descriptor: int = syscall(_SYS_OPENAT2, directory, os.fsencode(path), how, 24)
            if descriptor >= 0:
                return descriptor
            if (code := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
                raise OSError(code, os.strerror(code), path)
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)

    return in_root


def _walk(directory: int, path: str, flags: int) -> int:
    """Resolve links by hand: `todo` holds what is left of the path, `above` the open folders from the root to here."""
    todo = _parts(path)
    links = 0
    above = [os.dup(directory)]
    try:
        while todo:
            part = todo.pop()
            if part == "..":
                os.close(above.pop()) if len(above) > 1 else None
            elif part != ".":
                found = os.open(part, LOOK | os.O_NOFOLLOW, dir_fd=above[-1])
                above.append(found)
                mode = os.fstat(found).st_mode
                if stat.S_ISLNK(mode):
                    links += 1
                    todo += _parts(_target(above, links, path))
                elif not stat.S_ISDIR(mode):
                    os.close(above.pop())
                    if todo:
                        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
                    return os.open(part, flags | os.O_NOFOLLOW, dir_fd=above[-1])
        return os.open(".", flags, dir_fd=above[-1])
    finally:
        for descriptor in above:
            os.close(descriptor)


def _parts(path: str) -> list[str]:
    """Names in a path, the last one first; a slash at the end stands for the folder itself."""
    names = [part for part in path.split("/") if part not in ("", ".")]
    return [*(["."] if path.endswith(("/", "/.")) else []), *reversed(names)]


def _target(above: list[int], links: int, path: str) -> str:
    """Where the link leads that is open as the last of `above`; leaves there the folder it starts from."""
    link = above.pop()
    try:
        target = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    if links > MAX_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    while target.startswith("/") and len(above) > 1:
        os.close(above.pop())
    return target
