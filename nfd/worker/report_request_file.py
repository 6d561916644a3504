"""The mounted file of the epoch: a change of it asks for a report."""

from __future__ import annotations

import math
import os
import random
import stat
import time
from contextlib import suppress
from pathlib import Path

from nfd.report_request import LONGEST, Epoch, parse
from nfd.runtime.file_watches import Folder

TOPIC = "report request"
APART = 300.0
"""The least seconds between two reports that an epoch asks for: whoever changes it often gains nothing."""


class EpochFile:
    """`due` is when to report because of a changed epoch, by the monotonic clock; infinite if none asks for it.

    Without a path nothing ever asks. What the file says first, or that there is none, is no change.
    """

    def __init__(self, path: str = "") -> None:
        self.due = math.inf
        self._path = path
        self._earliest = -math.inf
        self._seen = self._read()

    @property
    def folders(self) -> tuple[Folder, ...]:
        """What to watch: the kubelet replaces the files of a volume by renaming a link with two dots in front."""
        if not self._path:
            return ()
        file = Path(self._path).absolute()
        return (Folder(TOPIC, str(file.parent), deep=False, counts=lambda one: one == file.name or one[:2] == ".."),)

    def look(self) -> None:
        """Read the file. After a change, a report is due within the epoch's spread."""
        found = self._read()
        if found is None or (self._seen is not None and found.identity == self._seen.identity):
            return
        self._seen = found
        at = max(time.monotonic() + random.uniform(0, found.spread), self._earliest)
        self.due = min(self.due, at)

    def answered(self) -> bool:
        """A report was accepted. Returns whether it was due because of the epoch."""
        now, early = time.monotonic(), time.monotonic() >= self.due
        if early:
            self._earliest = now + APART
        self.due = math.inf
        return early

    def _read(self) -> Epoch | None:
        """The epoch; None if it is malformed, or the file is missing or no regular one."""
        with suppress(OSError, ValueError):
            descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return parse(os.read(descriptor, LONGEST).decode("ascii"))
            finally:
                os.close(descriptor)
        return None
