"""Where labels are written: the feature file for NFD's local source, and standard output.

The feature file has `key=value` lines and is replaced in one step. NodeFeature objects are in `gfd.nodefeature`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from nfd.errors import HostError
from nfd.runtime.file_watches import Folder, Watches
from nfd.runtime.files import replace_file
from nfd.runtime.stdout import write as print_out

MODE = 0o644
_OLD_TEMPORARIES = "gfd-tmp"
"""Folder beside the file that releases before 0.16 kept their temporary files in."""


class Output(Protocol):
    """Where labels go."""

    @property
    def place(self) -> str:
        """Name of the place. Two outputs with the same place replace each other's labels."""
        ...

    @property
    def identity(self) -> object:
        """Identity of what is at the place now. If it is equal, two places are two names of one file or object."""
        ...

    def read(self) -> Mapping[str, str]:
        """The labels that are there already."""
        ...

    def write(self, labels: Mapping[str, str]) -> bool:
        """Whether anything had to be written. Raises HostError, KubeError."""
        ...

    def remove(self) -> None:
        """Remove what was written. Raises HostError, KubeError."""
        ...

    def watch(self) -> Watches | None:
        """What is readable when the labels may have been removed; None where that is not noticed."""
        ...

    def restore(self) -> bool:
        """Write the last labels again if another program removed them; whether it did. Raises HostError."""
        ...


def render(labels: Mapping[str, str]) -> str:
    """One label a line, sorted by key."""
    return "".join(f"{key}={value}\n" for key, value in sorted(labels.items()))


def parse(text: str) -> dict[str, str]:
    """The inverse of `render`; lines that are no label are left out."""
    pairs = (line.partition("=") for line in text.splitlines() if not line.startswith("#"))
    return {key: value for key, equals, value in pairs if equals}


def read(path: str) -> dict[str, str]:
    """The labels in the file; none if there is no readable one."""
    target = Path(path)
    try:
        return parse(target.read_text(errors="replace")) if target.is_file() else {}
    except OSError:
        return {}


def write(path: str, labels: Mapping[str, str]) -> bool:
    """Replace the file unless it says the same already; whether it did. Its folder must be there.

    A reader sees the old content or the new one, never a part. Raises HostError.
    """
    target = Path(path)
    content = render(labels).encode()
    try:
        if _is_written(target, content):
            return False
        replace_file(target, content, MODE)  # NFD ignores the temporary file, whose name begins with a dot
    except OSError as error:
        raise HostError(str(target), error.strerror or str(error), error.errno) from error
    return True


def identity(path: str) -> object:
    """Device and inode of the file there: what two paths have in common if they are one file. Absent: the path."""
    try:
        status = Path(path).stat()
    except OSError:
        return path
    return status.st_dev, status.st_ino


def remove(path: str) -> None:
    """Remove the file, and what old releases left beside it.

    Raises HostError if it cannot be removed, and for what `write` would never have put there: `/dev/null` stays.
    """
    target = Path(path)
    try:
        _check_kind(target)
        if target.is_symlink() and not target.exists():
            raise OSError(errno.EINVAL, "is a link to nothing")
        target.unlink(missing_ok=True)
        with suppress(FileNotFoundError, NotADirectoryError):
            (target.parent / _OLD_TEMPORARIES).rmdir()
    except OSError as error:
        raise HostError(str(target), error.strerror or str(error), error.errno) from error


def _is_written(target: Path, content: bytes) -> bool:
    _check_kind(target)
    try:
        return target.read_bytes() == content and target.stat().st_mode & 0o777 == MODE
    except FileNotFoundError:
        return False


def _check_kind(target: Path) -> None:
    """A pipe or a device is neither read, which might never end, nor replaced, nor removed. Raises OSError."""
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "is not a regular file")


class FileOutput:
    """The feature file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._written: Mapping[str, str] | None = None
        """The labels that are in the file as long as no other program changes it."""

    @property
    def place(self) -> str:
        path = Path(self._path)
        return str(path.parent.resolve() / path.name)

    @property
    def identity(self) -> object:
        return identity(self._path)

    def read(self) -> Mapping[str, str]:
        return read(self._path)

    def write(self, labels: Mapping[str, str]) -> bool:
        self._written = None
        changed = write(self._path, labels)
        self._written = labels
        return changed

    def remove(self) -> None:
        self._written = None
        remove(self._path)

    def watch(self) -> Watches | None:
        path = Path(self._path)
        try:
            return Watches([Folder("file", str(path.parent.absolute()), deep=False, counts=path.name.__eq__)])
        except OSError:  # the kernel has no watch left
            return None

    def restore(self) -> bool:
        """GFD deletes the file when it ends, whoever wrote it last."""
        if self._written is None or os.path.lexists(self._path):
            return False
        return self.write(self._written)


class StandardOutput:
    """Every pass is printed, and what is printed stays."""

    place = identity = "standard output"

    def read(self) -> Mapping[str, str]:
        return {}

    def write(self, labels: Mapping[str, str]) -> bool:
        print_out(render(labels))
        return True

    def remove(self) -> None:
        return

    def watch(self) -> None:
        return

    def restore(self) -> bool:
        return False
