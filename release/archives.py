"""Archives whose bytes depend on what is in them alone: sorted, owned by root, and as old as the commit."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """A file of an archive."""

    data: bytes
    executable: bool = False


def write_tar(path: Path, entries: Mapping[str, Entry], epoch: int) -> Path:
    """A .tar.gz of these files, named relative to its root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, entry in sorted(entries.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(entry.data), epoch, 0o755 if entry.executable else 0o644
            archive.addfile(info, BytesIO(entry.data))
    return path


def read_tar(path: Path) -> dict[str, Entry]:
    """The files of a .tar.gz."""
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name] = Entry(file.read(), bool(member.mode & 0o100))
    return found


def read_folder(folder: Path, prefix: str = "") -> dict[str, Entry]:
    """The files below a folder, links followed."""
    return {
        f"{prefix}{path.relative_to(folder)}": Entry(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if path.is_file()
    }


def write_layout(path: Path, folder: Path, epoch: int) -> None:
    """A folder as a .tar file, not compressed since an OCI layout's layers are; the folder is removed."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for file in sorted(one for one in folder.rglob("*") if one.is_file()):
            info = tarfile.TarInfo(str(file.relative_to(folder)))
            info.size, info.mtime, info.mode = file.stat().st_size, epoch, 0o644
            with file.open("rb") as data:
                archive.addfile(info, data)
    shutil.rmtree(folder)
