"""What can be wrong with a master's snapshot when its process starts: damage, age, another owner."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

LATER = b"nfd-master reports 2\n"


def earlier(file: Path) -> Path:
    """Where an earlier snapshot of that master is kept."""
    return file.with_name(f"{file.name}.earlier")


def spoil(file: Path, other: Path, dice: random.Random) -> str:
    """Make something of the file, with that of another master; what was done. A copy is kept for the next time."""
    possible = [name for name in WAYS if not (name == ANOTHER and not other.exists())]
    if not earlier(file).exists():
        possible.remove(EARLIER)
    name, before = dice.choice(possible), file.read_bytes()
    WAYS[name](file, other)
    earlier(file).write_bytes(before)
    return name


def _write(file: Path, data: bytes) -> None:
    """Readable by its owner alone, as a master writes it."""
    file.unlink(missing_ok=True)
    file.touch(0o600)
    file.write_bytes(data)


def _corrupt(file: Path, other: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    _write(file, bytes(data))


def _truncate(file: Path, other: Path) -> None:
    data = file.read_bytes()
    _write(file, data[: len(data) // 2])


def _rename_version(file: Path, other: Path) -> None:
    _write(file, LATER + file.read_bytes().partition(b"\n")[2])


def _link(file: Path, other: Path) -> None:
    """To a file that could be read."""
    target = file.with_name(f"{file.name}.target")
    shutil.copy2(file, target)
    file.unlink()
    file.symlink_to(target)


ANOTHER, EARLIER = "another master's", "an earlier one"
WAYS: Mapping[str, Callable[[Path, Path], None]] = {
    "corrupted": _corrupt,
    "truncated": _truncate,
    "empty": lambda file, other: _write(file, b""),
    "of another version": _rename_version,
    "a link": _link,
    "readable by all": lambda file, other: file.chmod(0o644),
    ANOTHER: lambda file, other: _write(file, other.read_bytes()),
    EARLIER: lambda file, other: _write(file, earlier(file).read_bytes()),
}
