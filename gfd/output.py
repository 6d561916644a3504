"""Where labels are written: the feature file for NFD's local source, and standard output.

The feature file has `key=value` lines and is replaced in one step. NodeFeature objects are in `gfd.nodefeature`.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from nfd.errors import HostError
from nfd.runtime.file_watches import Folder, Watches
from nfd.runtime.files import replace_file
from nfd.runtime.stdout import write as print_out

MODE = 0o644
_OLD_TEMPORARIES = "gfd-tmp"
"""Folder beside the file that releases before 0.16 kept their temporary files in."""


class Output(ABC):
    """Where labels go."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Name of the place. Two outputs with the same place replace each other's labels."""

    @property
    def identity(self) -> object:
        """Identity of what is at the place now. If it is equal, two places are two names of one file or object."""
        return self.place

    def read(self) -> Mapping[str, str]:
        """The labels that are there already."""
        return {}

    @abstractmethod
    def write(self, labels: Mapping[str, str]) -> bool:
        """Whether anything had to be written. Raises HostError, KubeError."""

    def remove(self) -> None:
        """Remove what was written. Raises HostError, KubeError."""
        return

    def watch(self) -> Watches | None:
        """What is readable when the labels may have been removed; None where that is not noticed."""
        return None

    def restore(self) -> bool:
        """Write the last labels again if another program removed them; whether it did. Raises HostError."""
        return False


def render(labels: Mapping[str, str]) -> str:
    """One label a line, sorted by key."""
    return "".join(f"{key}={value}\n" for key, value in sorted(labels.items()))


def parse(text: str) -> dict[str, str]:
    """The inverse of `render`; lines that are no label are left out."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key: value for key, equals, value in pairs if equals}


class FileOutput(Output):
    """The feature file. A pipe or a device in its place is neither read, which might never end, nor replaced, nor
    removed."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._written: Mapping[str, str] | None = None
        """The labels that are in the file as long as no other program changes it."""

    @property
    def place(self) -> str:
        return str(self._path.parent.resolve() / self._path.name)

    @property
    def identity(self) -> object:
        """Device and inode of the file there: what two paths have in common if they are one file. Absent: the path."""
        try:
            status = self._path.stat()
        except OSError:
            return self._path
        return status.st_dev, status.st_ino

    def read(self) -> Mapping[str, str]:
        """The labels in the file; none if there is no readable one."""
        try:
            return parse(self._path.read_text(errors="replace")) if self._path.is_file() else {}
        except OSError:
            return {}

    def write(self, labels: Mapping[str, str]) -> bool:
        """Replace the file unless it says the same already; whether it did. Its folder must be there.

        A reader sees the old content or the new one, never a part. Raises HostError.
        """
        self._written = None
        content = render(labels).encode()
        with self._translated():
            changed = not self._says(content)
            if changed:  # NFD ignores the temporary file, whose name begins with a dot
                replace_file(self._path, content, MODE)
        self._written = labels
        return changed

    def remove(self) -> None:
        """Remove the file, and what old releases left beside it.

        Raises HostError if it cannot be removed, and for what `write` would never have put there: `/dev/null` stays.
        """
        self._written = None
        with self._translated():
            self._check_kind()
            if self._path.is_symlink() and not self._path.exists():
                raise OSError(errno.EINVAL, "is a link to nothing")
            self._path.unlink(missing_ok=True)
            with suppress(FileNotFoundError, NotADirectoryError):
                (self._path.parent / _OLD_TEMPORARIES).rmdir()

    def watch(self) -> Watches | None:
        try:
            folder = str(self._path.parent.absolute())
            return Watches([Folder("file", folder, deep=False, counts=self._path.name.__eq__)])
        except OSError:  # the kernel has no watch left
            return None

    def restore(self) -> bool:
        """GFD deletes the file when it ends, whoever wrote it last."""
        if self._written is None or os.path.lexists(self._path):
            return False
        return self.write(self._written)

    def _says(self, content: bytes) -> bool:
        self._check_kind()
        try:
            return self._path.read_bytes() == content and self._path.stat().st_mode & 0o777 == MODE
        except FileNotFoundError:
            return False

    def _check_kind(self) -> None:
        """Raises OSError for what is no file."""
        if self._path.exists() and not self._path.is_file():
            raise OSError(errno.EINVAL, "is not a regular file")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raises HostError instead of OSError."""
        try:
            yield
        except OSError as error:
            raise HostError(str(self._path), error.strerror or str(error), error.errno) from error


class StandardOutput(Output):
    """Every pass is printed, and what is printed stays."""

    place = "standard output"

    def write(self, labels: Mapping[str, str]) -> bool:
        print_out(render(labels))
        return True
