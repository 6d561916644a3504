"""Files written in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """A reader sees the old content or the new one, never a part; the new one survives a crash. Raises: OSError."""
    with _written_beside(path, content, mode) as temporary:
        temporary.replace(path)
    folder = open_folder(str(path.parent))
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def create_file(path: Path, content: bytes, mode: int) -> None:
    """A new file, there as a whole or not at all. Raises: OSError, FileExistsError among them."""
    with _written_beside(path, content, mode) as temporary:
        os.link(temporary, path)


@contextmanager
def _written_beside(path: Path, content: bytes, mode: int) -> Iterator[Path]:
    """A temporary file whose name begins with a dot, as that of no file that others read."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def open_folder(path: str) -> int:
    """A descriptor of a directory. Raises: OSError."""
    return os.open(path or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
