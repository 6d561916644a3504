"""The embedded node store: a folder of v1/Node objects, `NODE.yaml` each.

It keeps what others put there: foreign labels, unknown fields, numbers as numbers; comments alone are lost when it
writes. Files are replaced whole (temporary file, fsync, rename), and writers of this kind keep apart by a lock on the
folder. Edits by hand are noticed through inotify, and by a look at the folder every ten seconds where inotify does not
work (network file systems). A Node's version is a digest of its file, so an edit in between is a Conflict.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfd import names
from nfd.config import yamltext
from nfd.config.named_files import read_bytes
from nfd.errors import ConfigError, Conflict, Invalid, KubeError, NotFound, Unavailable
from nfd.runtime import log, tasks
from nfd.runtime.file_watches import Folder, Watches
from nfd.runtime.files import replace_file
from nfd.store.base import Node, Patch, trim

LOOK_AGAIN = 10.0
"""Seconds."""

_SUFFIX = ".yaml"
_log = log.get("store")


@dataclass(frozen=True, slots=True)
class _Entry:
    """A file as last looked at: what `stat` said of it, and what is wrong with it.

    `stamp` is None if the file could not be read: it is then read at every look, since it may become readable as it is.
    """

    stamp: tuple[int, int, int] | None
    problem: str = ""


class FileStore:
    """A NodeStore in `folder`, which is made if it is not there."""

    selector = ""
    """It reports all Nodes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, _Entry] = {}
        self._nodes: dict[str, Node] = {}
        self._changed: Callable[[str], None] = lambda name: None
        self._watches: Watches | None = None
        self._looking: asyncio.Task[None] | None = None
        self.connected = False
        """Whether the last look at the folder succeeded."""

    async def start(self, changed: Callable[[str], None]) -> None:
        """Raises: ConfigError if the folder cannot be made or read."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._look()
        except OSError as error:
            raise ConfigError(f"node store {self._folder}: {error.strerror}") from error
        self._changed = changed
        self.connected = True
        self._listen()
        self._looking = tasks.start("look at the node store", self._look_again)

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def names(self) -> Collection[str]:
        return self._nodes.keys()

    async def read(self, name: str) -> Node:
        self._look_at(name)
        entry = self._entries.get(name)
        if entry is None:
            raise NotFound(f"{self._path(name)}: no such file")
        if entry.problem:
            raise KubeError(entry.problem)
        return self._nodes[name]

    async def ensure(self, name: str) -> Node | None:
        """Raises: KubeError if there is a file already, but no usable Node in it."""
        with self._locked():
            self._look_at(name)
            if name not in self._entries:
                metadata = {"name": name, "uid": str(uuid.uuid4())}
                self._replace(name, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        return await self.read(name)

    async def patch(self, name: str, patch: Patch) -> Node:
        with self._locked():
            content, node = self._load(name)
            body = _check_guard(name, node, patch)
            if patch.subresource == "status":
                body.pop("spec", None)
            else:
                body.pop("status", None)
            merged = merge(content, _with_conditions(content, body) if patch.strategic else body)
            if merged != content:
                check_node(merged, name)
                self._replace(name, merged)
        return await self.read(name)

    async def close(self) -> None:
        if self._looking is not None:
            await tasks.cancel([self._looking])
        if self._watches is not None:
            asyncio.get_running_loop().remove_reader(self._watches.fileno())
            self._watches.close()
            self._watches = None

    def _listen(self) -> None:
        try:
            self._watches = Watches([Folder("nodes", str(self._folder), deep=False, counts=_is_node_file)])
        except OSError as error:
            _log.info(
                "changes are noticed by comparing files", path=self._folder, seconds=LOOK_AGAIN, error=error.strerror
            )
            return
        asyncio.get_running_loop().add_reader(self._watches.fileno(), self._hear)

    def _hear(self) -> None:
        assert self._watches is not None
        if self._watches.read():
            self._look_safely()

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            self._look_safely()

    def _look_safely(self) -> None:
        try:
            self._look()
        except OSError as error:
            if self.connected:
                _log.warning("cannot read node store", path=self._folder, error=error.strerror)
            self.connected = False
        else:
            self.connected = True

    def _look(self) -> None:
        """Compare every file with what is known of it."""
        with os.scandir(self._folder) as found:
            present = {entry.name.removesuffix(_SUFFIX) for entry in found if _is_node_file(entry.name)}
        for name in present | self._entries.keys():
            if self._look_at(name):
                self._changed(name)

    def _look_at(self, name: str) -> bool:
        """Whether the Node came, changed or went since the last look. A Node whose file cannot be read stays as it was
        last."""
        path = self._path(name)
        before, known = self._entries.get(name), self._nodes.get(name)
        try:
            stamp = _stamp(path)
            if before is not None and before.stamp == stamp:
                return False
            node = self._load(name)[1]
        except NotFound:
            self._nodes.pop(name, None)
            return self._entries.pop(name, None) is not None
        except Unavailable as error:
            self._entries[name] = _Entry(None, str(error))
            if before is None or before.problem != str(error):
                _log.error("node file cannot be read", node=name, error=error)
            return False
        except KubeError as error:
            self._entries[name] = _Entry(stamp, str(error))
            _log.error("node file is invalid", node=name, error=error)
            return self._nodes.pop(name, None) is not None
        self._entries[name], self._nodes[name] = _Entry(stamp), node
        return known is None or not known.same_content(node)

    def _load(self, name: str) -> tuple[dict[str, Any], Node]:
        """Raises: NotFound, Unavailable (unreadable now), Invalid (not a Node)."""
        path = self._path(name)
        with _reading(path):
            text = read_bytes(path)
        try:
            content = yamltext.parse(text, str(path)).data
        except ConfigError as error:
            raise Invalid(str(error)) from error
        node = check_node(content, name, hashlib.blake2b(text, digest_size=8).hexdigest(), str(path))
        return content, node

    def _replace(self, name: str, content: Mapping[str, Any]) -> None:
        path = self._path(name)
        try:
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
            replace_file(path, yamltext.dump(content).encode(), mode)
        except OSError as error:
            raise Unavailable(f"{path}: not written: {error.strerror}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            file = (self._folder / ".lock").open("w")
        except OSError as error:
            raise Unavailable(f"{self._folder}: {error.strerror}") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _path(self, name: str) -> Path:
        """Raises: Invalid for a name that is no object name, so that none leads out of the folder."""
        if problem := names.subdomain_problem(name):
            raise Invalid(f"node name {name[:80]!r} {problem}")
        return self._folder / f"{name}{_SUFFIX}"


def _is_node_file(name: str) -> bool:
    stem = name.removesuffix(_SUFFIX)
    return stem != name and names.subdomain_problem(stem) is None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raises: NotFound, Unavailable."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{path}: no such file") from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def _stamp(path: Path) -> tuple[int, int, int]:
    """Raises: NotFound, Unavailable."""
    with _reading(path):
        found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def check_node(content: Any, name: str, version: str = "", path: str = "") -> Node:
    """Raises: Invalid naming what is not as a v1 Node has it."""
    where = path or f"node {name}"
    if not isinstance(content, Mapping) or content.get("kind") != "Node":
        raise Invalid(f"{where}: not a Node: `kind: Node` is missing")
    try:
        node = trim(content, version)
        _check_conditions((content.get("status") or {}).get("conditions"))
    except ValueError as error:
        raise Invalid(f"{where}: {error}") from error
    if node.name != name:
        raise Invalid(f"{where}: metadata.name is {node.name!r}, the file name says {name!r}")
    return node


def _check_conditions(value: Any) -> None:
    """A patch merges conditions by their type. Raises: ValueError."""
    if not isinstance(value, list | None):
        raise ValueError(f"status.conditions: expected a list, found {type(value).__name__}")
    for number, one in enumerate(value or ()):
        if not isinstance(one, Mapping) or not isinstance(one.get("type"), str):
            raise ValueError(f"status.conditions[{number}]: expected a mapping with a text `type`")


def _check_guard(name: str, node: Node, patch: Patch) -> dict[str, Any]:
    """The patch without its guards. Raises: Conflict."""
    metadata = dict(patch.body.get("metadata", {}))
    for key, actual in (("uid", node.uid), ("resourceVersion", node.version)):
        wanted = metadata.pop(key, actual)
        if wanted != actual:
            raise Conflict(f"node {name}: {key} is {actual!r}, not {wanted!r}")
    return {**patch.body, "metadata": metadata}


def _with_conditions(content: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """A strategic merge patch of a Node as a JSON merge patch: its conditions are merged by type."""
    merged = {one.get("type"): one for one in (content.get("status") or {}).get("conditions") or ()}
    for change in body["status"]["conditions"]:
        if change.get("$patch") == "delete":
            merged.pop(change["type"], None)
        else:
            merged[change["type"]] = merge(merged.get(change["type"]), change)
    return {**body, "status": {**body["status"], "conditions": list(merged.values())}}


def merge(target: Any, patch: Any) -> Any:
    """`target` with `patch` applied; null removes, mappings merge, everything else replaces. Changes neither."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
