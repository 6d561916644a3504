"""What asks for a scan before the interval is over: files in which the kubelet keeps what it has given out, and pods.

The kubelet replaces `cpu_manager_state` and `memory_manager_state` in its own folder, `kubelet_internal_checkpoint` in
`device-plugins`, whenever it gives CPUs, memory or devices to a container or takes them back.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from pathlib import Path

from nfd.config.named_files import read_bytes
from nfd.runtime import log
from nfd.runtime.file_watches import Folder, Watches

FILES = (
    "cpu_manager_state",
    "memory_manager_state",
    "kubelet_internal_checkpoint",
    "device-plugins/kubelet_internal_checkpoint",
)
QUIET = 0.5
"""Seconds to wait after an event, since one seldom comes alone."""

_log = log.get("topology")


class Triggers:
    """`state_dir` is the kubelet's folder; "" watches no files."""

    def __init__(self, state_dir: str) -> None:
        self._event = asyncio.Event()
        self._state_dir = state_dir
        self._files: tuple[bytes | tuple[int, ...], ...] = ()
        self._watches = self._watch() if state_dir else None
        if self._watches is not None:
            self._files = self._contents()
            asyncio.get_running_loop().add_reader(self._watches.fileno(), self._read)

    def close(self) -> None:
        if self._watches is not None:
            asyncio.get_running_loop().remove_reader(self._watches.fileno())
            self._watches.close()

    def pull(self) -> None:
        """Something has happened."""
        self._event.set()

    async def wait(self, seconds: float) -> None:
        """Until something happens, that long at most; then until what came along with it is known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._event.wait()
            await asyncio.sleep(QUIET)
        self._event.clear()

    def _read(self) -> None:
        """Other files come and go in these folders, and the kubelet writes the same again: only what is new counts."""
        if self._watches is not None and not self._watches.read():
            return
        found = self._contents()
        if found != self._files:
            self._files = found
            self.pull()

    def _contents(self) -> tuple[bytes | tuple[int, ...], ...]:
        return tuple(_content(Path(self._state_dir, name)) for name in FILES)

    def _watch(self) -> Watches | None:
        names = {Path(name).name for name in FILES}
        folders = [Folder("state", path, deep=False, counts=names.__contains__) for path in self._folders()]
        try:
            return Watches(folders)
        except OSError as error:
            _log.warning(
                "files cannot be watched; changes are noticed at the interval and from pods",
                path=self._state_dir,
                error=error,
            )
            return None

    def _folders(self) -> tuple[str, str]:
        path = str(Path(self._state_dir).absolute())
        return path, f"{path}/device-plugins"


def _content(path: Path) -> bytes | tuple[int, ...]:
    """The content of a file; for one that is too large or unreadable, its identity and time."""
    with suppress(OSError):
        return read_bytes(path)
    with suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return ()
