"""Host, the only way to read the machine.

Sources read the machine through a Host and nothing else, so that a pod (`--host-root /host`), a recorded machine
(`--replay DIR`) and the running machine look the same to them. Paths are written without a leading slash, as they are
below the root (`sys/class/net`); links resolve as if the root were `/`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

from nfd.errors import HostError
from nfd.host.blanks_and_numbers import BLANK
from nfd.host.tree import LIST, Tree

T = TypeVar("T")

MAX_FILE = 16 * 1024 * 1024
MAX_NOTES = 500
"""Notes that are kept for one source; of further ones only their number is."""

YOUNG = 2.0
"""Seconds after a change in which a file's times do not show whether it changed again."""

PROC = "proc"
CUSTOM_D = "etc/kubernetes/node-feature-discovery/custom.d"
PLUGIN_D = "etc/kubernetes/node-feature-discovery/device-plugin.d"
_OWN = (PROC, CUSTOM_D, PLUGIN_D)
_ABSENT = (errno.ENOENT, errno.ENOTDIR)

DENIED = frozenset({errno.EACCES, errno.EPERM})
"""What a security policy answers, today and tomorrow: no reason to wait for a better answer."""

NOT_NOW = frozenset({errno.EINVAL, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ENETDOWN})
"""What drivers answer for a value they do not have just now, such as the speed of a link that is down."""

NO_VALUE = DENIED | NOT_NOW | {0, errno.EISDIR, errno.ELOOP, errno.EFBIG}
"""Errors that show that there is no value to read: the two above, and what is no sysfs file at all, but a directory, a
pipe, a loop of links, or too large. Other errors, such as EIO, may pass."""


class Host:
    """The running machine, its files below `root`.

    In a pod some things may be missing below the root and are then read from the process's own file system, as NFD
    always does: /proc (the kernel is the same), and custom.d and device-plugin.d (mounted from ConfigMaps beside the
    worker's own configuration).

    Absent is a value: `data` and `text` give None, `names` gives an empty tuple. What is there but cannot be read is a
    HostError. `notes` collects (subject, reason) pairs about what was skipped; discovery takes them after each source.
    """

    recorded: ClassVar[bool] = False
    """Whether answers of probes go into a recording, or come from one."""

    def __init__(self, root: str | Path = "/", environment: Mapping[str, str] | None = None) -> None:
        self.root = Path(root)
        self.notes: list[tuple[str, str]] = []
        self._further_notes = 0
        self.node_labels: Mapping[str, str] | None = {}
        """Labels of the Node from the master's latest reply (`nfd.report.labels_for_worker`); None before the first."""
        self.awaits_labels = False
        """Whether the first of these replies is about to come: what they may forbid waits for it."""
        self._tree = Tree(root)
        self._own = Tree("/") if self.root != Path("/") else self._tree
        self._environment = os.environ if environment is None else environment
        self._parsed: dict[str, tuple[tuple[int, ...], object]] = {}
        self._good: dict[str, dict[str, object]] = {}
        self._each: dict[tuple[str, str], dict[str, tuple[int, object]]] = {}

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        """The bytes of a regular file, at most `limit` of them."""
        try:
            data = self._tree_of(path).read(path, limit + 1)
        except OSError as error:
            _check_absent(path, error)
            return None
        if len(data) > limit:
            raise HostError(path, f"is larger than {limit} bytes", errno.EFBIG)
        return data

    def head(self, path: str, size: int) -> bytes | None:
        """The first bytes of a regular file, for what costs to read: each word of a PCI configuration space is an
        access to the device, which in a virtual machine leads out of it.
        """
        try:
            return self._tree_of(path).read(path, size)
        except OSError as error:
            _check_absent(path, error)
            return None

    def text(self, path: str, limit: int = MAX_FILE) -> str | None:
        """The text of a file, bytes that are not UTF-8 replaced by U+FFFD."""
        data = self.data(path, limit)
        return None if data is None else data.decode("utf-8", "replace")

    def value(self, path: str, *, trimmed: bool = True) -> str | None:
        """One sysfs value, without the white space at its ends.

        None, and a note, if permission is denied, its driver has no value now, or what is there is no such file.
        Raises: HostError of any other failure, which does not show that there is no value.
        """
        try:
            text = self.text(path)
        except HostError as error:
            if error.errno not in NO_VALUE:
                raise
            self.note(error.path, error.reason)
            return None
        return text if text is None or not trimmed else text.strip(BLANK)

    def names(self, path: str) -> tuple[str, ...]:
        """Names in a directory, sorted; empty if nothing is there. Something else in its place is a HostError."""
        return tuple(self._listed(path, lambda: self._tree_of(path).names(path)))

    def listing(self, path: str) -> list[str]:
        """Names in a directory, in the order of the kernel; empty if it cannot be listed. For frequent comparisons."""
        try:
            return self._tree_of(path).listing(path)
        except OSError:
            return []

    def folders(self, path: str) -> tuple[str, ...]:
        """As `names`, but only directories; a link to one is none."""
        return tuple(self._listed(path, lambda: self._tree_of(path).folders(path)))

    def inodes(self, path: str) -> tuple[tuple[str, int], ...]:
        """Names and inode numbers: in sysfs, what comes again under the name of another thing has another number."""
        return tuple(self._listed(path, lambda: self._tree_of(path).inodes(path)))

    def _listed(self, path: str, read: Callable[[], list[T]]) -> list[T]:
        try:
            return read()
        except OSError as error:
            _check_absent(path, error)
            if error.errno == errno.ENOTDIR and self.exists(path):
                raise HostError(path, "is not a directory", error.errno) from error
            return []

    def directory(self, path: str) -> int:
        """A descriptor of a directory, for watching it; the caller closes it. Raises OSError as the kernel does."""
        return self._tree_of(path).open(path, LIST)

    def exists(self, path: str) -> bool:
        return self._stat(path) is not None

    def is_dir(self, path: str) -> bool:
        found = self._stat(path)
        return found is not None and stat.S_ISDIR(found.st_mode)

    def is_file(self, path: str) -> bool:
        found = self._stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def parsed(self, path: str, parse: Callable[[bytes], T]) -> T | None:
        """`parse` of the file's bytes, kept for as long as path, inode, size and change time stay the same.

        Not the time of modification, which a copy may keep; what changed just now may change again within one tick of
        the file system's clock, and is parsed anew next time.
        """
        found = self._stat(path)
        if found is None:
            return None
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
        kept = self._parsed.pop(path, None)
        if kept is None or kept[0] != identity:
            data = self.data(path)
            if data is None:
                return None
            kept = (identity, parse(data))
        if time.time() - found.st_ctime > YOUNG:
            self._parsed[path] = kept
        return kept[1]  # type: ignore[return-value]  # stored under its path by the same parse

    def each(self, folder: str, read: Callable[[str], T | None], what: str) -> Iterator[tuple[str, T]]:
        """Names in a folder, sorted, each with `read` of it, kept for as long as name and inode number are the same.

        For what cannot change about a thing in sysfs, such as the ids of a PCI device. None is left out and read again.
        `what` names what `read` reads, as different callers keep different facts of one folder.
        """
        if self.recorded:
            return ((name, value) for name in self.names(folder) if (value := read(name)) is not None)
        before = self._each.get((folder, what), {})
        found: dict[str, tuple[int, object]] = {}
        for name, inode in self.inodes(folder):
            known = before.get(name)
            one: object = known[1] if known is not None and known[0] == inode else read(name)
            if one is not None:
                found[name] = (inode, one)
        self._each[folder, what] = found
        return ((name, value) for name, (_, value) in found.items())  # type: ignore[misc]  # by the same read

    def good(self, folder: str) -> dict[str, object]:
        """What the files of a folder said when they could be used last, by path; the reader of the folder writes it.

        A file that cannot be used any more keeps that, and no other file is touched by it.
        """
        return self._good.setdefault(folder, {})

    def probe(self, name: str, live: Callable[[], str | None]) -> str | None:
        """What is not a file (CPUID, auxiliary vector, GPU inventory) as text; a replay answers from its record."""
        return live()

    def probe_value(
        self, name: str, live: Callable[[], T], dump: Callable[[T], str], parse: Callable[[str], T]
    ) -> T | None:
        """A probe whose answer is a value. A recording stores it as text; a live machine makes no text of it.

        `parse` raises ValueError. Raises: HostError if the text in a recording is invalid.
        """
        if not self.recorded:
            return live()
        text = self.probe(name, lambda: dump(live()))
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise HostError(f"probe {name}", str(error)) from error

    def arch(self) -> str:
        """The architecture as uname(2) names it; that of this process where a 64-bit ARM kernel runs a 32-bit one."""
        machine = os.uname().machine
        return "armv8l" if machine == "aarch64" and sys.maxsize < 2**32 else machine

    def env(self, name: str) -> str:
        """An environment variable of the scan, empty if unset."""
        return self._environment.get(name, "")

    def now(self) -> float:
        """Seconds since the epoch, for expiry times in feature files."""
        return time.time()

    def note(self, subject: str, reason: str) -> None:
        """Remember that something was skipped, and why."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append((subject, reason))
        else:
            self._further_notes += 1

    def take_notes(self) -> list[tuple[str, str]]:
        notes, self.notes = self.notes, []
        if self._further_notes:
            notes.append((str(self.root), f"{self._further_notes} further problems are not listed"))
            self._further_notes = 0
        return notes

    def _tree_of(self, path: str) -> Tree:
        if self._own is self._tree or not path.startswith(_OWN):
            return self._tree
        return self._tree if self._is_below_root(next(filter(path.startswith, _OWN))) else self._own

    def _is_below_root(self, path: str) -> bool:
        """Whether to read it there. A folder behind one that this process may not enter counts as missing."""
        try:
            return self._tree.has(path)
        except OSError as error:
            if error.errno not in DENIED:
                raise
            return False

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            return self._tree_of(path).stat(path)
        except OSError as error:
            _check_absent(path, error)
            return None


def _check_absent(path: str, error: OSError) -> None:
    """Raise a HostError unless the error says that nothing is there."""
    if error.errno not in _ABSENT:
        raise HostError(path, error.strerror or str(error), error.errno) from error
