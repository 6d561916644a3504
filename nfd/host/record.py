"""Recorder: a Host that remembers what a scan saw of another one, and writes it as a directory that Replay reads.

Everything is kept in memory until `write`, and scrubbed there. The directory is made of plain files and folders: where
the machine has links, the recording has what they lead to, under the path that was asked for.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from nfd.errors import ConfigError, HostError
from nfd.host import MAX_FILE, Host
from nfd.host.replay import RECORD, RECORDED_VARIABLES, Answer
from nfd.host.scrub_files import Scrubber

PROBE_FILES = ("cpuid", "auxv")
"""Probes that stand in a file of their own."""
ARCH_FILE = "proc/sys/kernel/arch"
_NOWHERE = "./.nowhere"


def _clear(directory: Path) -> None:
    """Remove an incomplete recording, which would be replayed as a different machine; the directory was empty
    before."""
    with suppress(OSError):
        for one in directory.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink()


class Recorder(Host):
    """Answers as `host` does and keeps every answer."""

    recorded = True

    def __init__(self, host: Host) -> None:
        super().__init__(host.root)
        self._host = host
        self._time = host.now()
        self._files: dict[str, bytes] = {}
        self._folders: set[str] = set()
        self._others: set[str] = set()
        self._dangling: set[str] = set()
        self._probes: dict[str, str] = {}
        self._failures: dict[str, Answer] = {}
        self._unreachable: dict[str, Answer] = {}
        self._variables: dict[str, str] = {}

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        return self._keep(path, lambda: self._host.data(path, limit))

    def head(self, path: str, size: int) -> bytes | None:
        return self._keep(path, lambda: self._host.head(path, size))

    def _keep(self, path: str, read: Callable[[], bytes | None]) -> bytes | None:
        try:
            data = read()
        except HostError as error:
            self._failures[path] = (error.errno, error.reason)
            self._stat(path)
            raise
        if data is not None:
            if not self._files.get(path, b"").startswith(data):  # a whole file is not replaced by its head
                self._files[path] = data
            self._others.add(path)
        return data

    def names(self, path: str) -> tuple[str, ...]:
        return self._keep_names(path, self._host.names)

    def folders(self, path: str) -> tuple[str, ...]:
        return self._keep_names(path, self._host.folders)

    def _keep_names(self, path: str, read: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        try:
            names = read(path)
        except HostError as error:
            self._failures[f"{path}/"] = (error.errno, error.reason)
            self._stat(path)
            raise
        self._stat(path)
        for name in names:
            self._list(f"{path}/{name}")
        return names

    def probe(self, name: str, live: Callable[[], str | None]) -> str | None:
        try:
            text = self._host.probe(name, live)
        except HostError as error:
            self._failures[f"probe:{name}"] = (error.errno, error.reason)
            raise
        if text is not None:
            self._probes[name] = text
        return text

    def arch(self) -> str:
        arch = self._host.arch()
        self._files[ARCH_FILE] = f"{arch}\n".encode()
        self._others.add(ARCH_FILE)
        return arch

    def env(self, name: str) -> str:
        value = self._host.env(name)
        if value and name in RECORDED_VARIABLES:
            self._variables[name] = value
        return value

    def now(self) -> float:
        return self._time

    def write(self, directory: str | Path, scrubber: Scrubber | None = None) -> int:
        """Write the recording and return how many files it has. Raises ConfigError if the directory cannot be used."""
        check_empty(directory)
        scrub = scrubber or Scrubber()
        probes = {name: scrub.text(text) for name, text in self._probes.items()}
        record = {
            "probes": {name: text for name, text in probes.items() if name not in PROBE_FILES},
            "failures": {scrub.name(path): answer for path, answer in self._failures.items()},
            "unreachable": {scrub.name(path): answer for path, answer in self._unreachable.items()},
            "environment": {name: scrub.text(value) for name, value in self._variables.items()},
            "time": self._time,
            "folders": [scrub.name(path) for path in sorted(self._empty())],
        }
        named = {name: probes[name].encode("utf-8", "surrogateescape") for name in PROBE_FILES if name in probes}
        named[RECORD] = json.dumps(record, indent=1, sort_keys=True).encode()
        try:
            return self._write(_Target(Path(directory)), scrub) + _write_named(Path(directory), named)
        except OSError as error:
            _clear(Path(directory))
            raise ConfigError(f"{error.filename or directory}: {error.strerror}") from error

    def _empty(self) -> set[str]:
        """Folders of which nothing else is recorded."""
        paths = self._folders | self._others | self._dangling
        return self._folders - {str(parent) for path in paths for parent in PurePosixPath(path).parents}

    def _write(self, target: _Target, scrub: Scrubber) -> int:
        for path in sorted(self._folders):
            target.folder(scrub.name(path))
        for path in sorted(self._others - self._folders):
            target.file(scrub.name(path), scrub.file(path, self._files.get(path, b"")))
        for path in sorted(self._dangling):
            target.link(scrub.name(path))
        return len(self._others)

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            found = self._host._stat(path)
        except HostError as error:
            self._unreachable[path] = (error.errno, error.reason)
            raise
        if found is not None:
            (self._folders if stat.S_ISDIR(found.st_mode) else self._others).add(path)
        return found

    def _list(self, path: str) -> None:
        """Remember what kind of thing a listed name is; what leads nowhere becomes a dangling link."""
        try:
            if self._stat(path) is None:
                self._dangling.add(path)
        except HostError:
            self._others.add(path)


def check_empty(directory: str | Path) -> None:
    """Raise ConfigError unless the directory is absent or empty."""
    try:
        if next(Path(directory).iterdir(), None) is not None:
            raise ConfigError(f"{directory}: is not empty")
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ConfigError(f"{directory}: {getattr(error, 'strerror', None) or error}") from error


class _Target:
    """The directory that is written. No path leads out of it: `..` is taken by its letters, no link is followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def file(self, path: str, data: bytes) -> None:
        where = self._place(path)
        if where is not None and not where.is_dir():
            _write(where, data)

    def link(self, path: str) -> None:
        """A link that leads nowhere, for a name that is listed."""
        where = self._place(path)
        if where is not None and not os.path.lexists(where):
            where.symlink_to(_NOWHERE)

    def _place(self, path: str) -> Path | None:
        above, _, name = path.rpartition("/")
        folder = self.folder(above)
        return None if folder is None or name in ("", ".", "..") or self._is_ours(folder / name) else folder / name

    def folder(self, path: str) -> Path | None:
        """Make a folder and those above it; None if something else is in the way."""
        here = [self._root]
        for part in path.split("/"):
            if part == "..":
                here = here[:-1] or here
            elif part not in ("", "."):
                here.append(here[-1] / part)
                if self._is_ours(here[-1]) or not _make_folder(here[-1]):
                    return None
        return here[-1]

    def _is_ours(self, path: Path) -> bool:
        return path.parent == self._root and path.name in (RECORD, *PROBE_FILES)


def _make_folder(path: Path) -> bool:
    try:
        path.mkdir()
    except FileExistsError:
        return stat.S_ISDIR(path.lstat().st_mode)
    return True


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _write_named(directory: Path, contents: Mapping[str, bytes]) -> int:
    for name, data in contents.items():
        _write(directory / name, data if data.endswith(b"\n") else data + b"\n")
    return len(contents)
