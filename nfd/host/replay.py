"""A recorded or hand-made machine in a directory; nothing of the running one is looked at.

Beside the files, the directory may hold one file per probe, named after it (`cpuid`, `auxv`), and `host.json`:
`{"probes": {name: text}, "failures": {path: [errno, reason]}, "unreachable": {path: [errno, reason]},
"environment": {name: value}, "time": seconds, "folders": [path]}`. Failures are of reading a file, of listing a folder
(its path ends with a slash) or, as `probe:NAME`, of a probe; of an unreachable path not even its kind is known.

Recordings are not trusted: nothing in one decides what a program loads, opens outside it, or connects to.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from nfd.errors import ConfigError, HostError
from nfd.host import MAX_FILE, Host

RECORD = "host.json"
_ROOTS = (RECORD, "boot", "etc", "lib", "proc", "sys", "usr", "auxv", "cpuid")
NOBODY = "no machine is recorded there"
LIBRARY_VARIABLE = "NFD_NVML_LIBRARY"
"""The library that reports a replayed machine's GPUs, which may be all there is of it. Only the caller names one."""
RECORDED_VARIABLES = frozenset({"NODE_NAME"})
"""The variables that a recording may set. Any other one could name a library, a file or a server."""
_LONGEST_REASON = 500
"""Characters of a recorded reason."""
_LATEST = 253402300800
"""The year 10000 in seconds since the epoch, which Python's calendar does not have."""

Answer = tuple[int | None, str]
"""Error number and reason of a failed read."""


@dataclass(frozen=True, slots=True)
class Record:
    """The content of host.json. Raises TypeError for anything that does not fit."""

    probes: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Answer] = field(default_factory=dict)
    unreachable: Mapping[str, Answer] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    time: float | None = None
    folders: Sequence[str] = ()
    """Empty ones: git and many archives keep none."""

    def __post_init__(self) -> None:
        for name in ("probes", "environment"):
            if not _all_texts(getattr(self, name)):
                raise TypeError(f"{name}: expected a mapping of texts")
        for name in ("failures", "unreachable"):
            answers = getattr(self, name)
            if not isinstance(answers, dict) or not all(map(_is_answer, answers.values())):
                raise TypeError(f"{name}: expected a mapping of [errno, reason]")
        if not isinstance(self.folders, list | tuple) or not all(isinstance(path, str) for path in self.folders):
            raise TypeError("folders: expected a list of texts")
        if not isinstance(self.time, int | float | None) or not 0 <= (self.time or 0) < _LATEST:  # nor NaN
            raise TypeError("time: expected seconds since the epoch")


def _all_texts(values: object) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())


def _is_answer(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and isinstance(value[1], str)
        and isinstance(value[0], int | None)
    )


class Replay(Host):
    """The machine that `nfd record` wrote to, or somebody made in, a directory.

    `environment` holds the variables of this scan; RECORDED_VARIABLES of the record fill the gaps.
    """

    recorded = True

    def __init__(self, directory: str | Path, environment: Mapping[str, str] | None = None) -> None:
        try:
            super().__init__(directory, {})
        except OSError as error:
            raise ConfigError(f"--replay {directory}: {error.strerror}") from error
        self._own = self._tree  # nothing of the running machine is looked at
        self._failures: Mapping[str, Answer] = {}  # so that the record itself can be read
        self._unreachable: Mapping[str, Answer] = {}
        self._folders: Mapping[str, frozenset[str]] = {}
        try:
            record = self._read_record()
        except ConfigError:
            self._tree.close()
            raise
        self._probes = record.probes
        self._failures = record.failures
        self._unreachable = record.unreachable
        self._folders = _with_parents(record.folders)
        recorded = {name: value for name, value in record.environment.items() if name in RECORDED_VARIABLES}
        self._environment = {**recorded, **(environment or {})}
        self._time = record.time

    def data(self, path: str, limit: int = MAX_FILE) -> bytes | None:
        _fail(self._failures, path)
        self._check_regular(path)
        return super().data(path, limit)

    def head(self, path: str, size: int) -> bytes | None:
        _fail(self._failures, path)
        self._check_regular(path)
        return super().head(path, size)

    def names(self, path: str) -> tuple[str, ...]:
        return self._with_lost(path, super().names)

    def folders(self, path: str) -> tuple[str, ...]:
        return self._with_lost(path, super().folders)

    def _with_lost(self, path: str, read: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        _fail(self._failures, f"{path}/", path)
        lost = self._folders.get(path.strip("/"))
        return read(path) if lost is None else tuple(sorted({*read(path), *lost}, key=os.fsencode))

    def inodes(self, path: str) -> tuple[tuple[str, int], ...]:
        _fail(self._failures, f"{path}/", path)
        return super().inodes(path)

    def probe(self, name: str, live: Callable[[], str | None]) -> str | None:
        _fail(self._failures, f"probe:{name}", name)
        if name in self._probes:
            return self._probes[name]
        return super().text(name) if super().is_file(name) else None

    def arch(self) -> str:
        """Reads: proc/sys/kernel/arch (Linux 6.1); x86_64 without it."""
        return self.value("proc/sys/kernel/arch") or "x86_64"

    def now(self) -> float:
        return super().now() if self._time is None else self._time

    def _check_regular(self, path: str) -> None:
        """Raises: HostError for a device or pipe: only to open one may set something going."""
        found = super()._stat(path)
        if found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise HostError(path, "is not a regular file", 0)

    def _stat(self, path: str) -> os.stat_result | None:
        _fail(self._unreachable, path)
        found = super()._stat(path)
        return self.root.stat() if found is None and path.strip("/") in self._folders else found

    def _read_record(self) -> Record:
        text = super().text(RECORD) if super().exists(RECORD) else None
        if text is None:
            return Record()
        try:
            found = json.loads(text)
            _check_unicode(found)
            if not isinstance(found, dict):
                raise TypeError("must be a mapping")
            if unknown := sorted(found.keys() - {one.name for one in fields(Record)}):
                raise TypeError(f"unknown key {unknown[0][:100]!r}")
            return Record(**found)
        except RecursionError:
            raise ConfigError(f"{self.root / RECORD}: is nested too deeply") from None
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{self.root / RECORD}: {' '.join(str(error).split())}") from error


def _check_unicode(found: object) -> None:
    """Raises: ValueError for a lone surrogate, unless it stands for a byte of a file name (PEP 383)."""
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        around = error.object[max(0, error.start - 20) : error.end + 20]
        raise ValueError(f"is not Unicode: lone surrogate {error.object[error.start]!a} in {around!a}") from error


def _with_parents(folders: Iterable[str]) -> dict[str, frozenset[str]]:
    """Folder → names of the folders in it, of these folders and all above them."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        parts = folder.strip("/").split("/")
        found.setdefault("/".join(parts), set())
        for depth in range(1, len(parts)):
            found.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return {folder: frozenset(names) for folder, names in found.items()}


def _fail(answers: Mapping[str, Answer], key: str, path: str = "") -> None:
    if key in answers:
        code, reason = answers[key]
        raise HostError(path or key, " ".join(reason.split())[:_LONGEST_REASON], code)


def open_host(root: str, replay: str, environment: Mapping[str, str]) -> Host:
    """What `--host-root` and `--replay` name; a recording if both do. Raises ConfigError if it cannot be opened."""
    if replay:
        if Path(replay).is_dir() and not is_machine(replay) and not environment.get(LIBRARY_VARIABLE):
            raise ConfigError(f"--replay {replay}: {NOBODY}")
        return Replay(replay, environment)
    try:
        return Host(root or "/", environment)
    except (OSError, ValueError) as error:
        raise ConfigError(f"--host-root {root}: {getattr(error, 'strerror', None) or error}") from error


def is_machine(directory: str | Path) -> bool:
    """Whether anything is there that a recording, or a machine made by hand, begins with."""
    return any(Path(directory, name).exists() for name in _ROOTS)
