"""Lays a host case out as a directory. The format is explained in tests/cases/hosts/README.md."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CASES = Path(__file__).parents[1] / "cases" / "hosts"


def lay_out(case: Mapping[str, Any], root: Path) -> None:
    """Make the machine of the case below `root`, an empty directory; modes come last."""
    make_files(case, root)
    for path in case.get("dirs") or ():
        (root / path).mkdir(parents=True, exist_ok=True)
    for path, target in (case.get("links") or {}).items():
        place(root, path).symlink_to(target)
    for path in case.get("fifos") or ():
        os.mkfifo(place(root, path))
    for path in case.get("sockets") or ():
        bind(place(root, path))
    for path, mode in (case.get("modes") or {}).items():
        (root / path).chmod(int(mode, 8))


def make_files(case: Mapping[str, Any], root: Path) -> None:
    """All that has content."""
    for path, text in flatten(case.get("files") or {}):
        if text is None:
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            write(root, path, text if text.endswith("\n") or not text else text + "\n")
    for path, text in (case.get("raw") or {}).items():
        write(root, path, text)
    for path, digits in (case.get("binary") or {}).items():
        write(root, path, bytes.fromhex(digits))
    for recipe in case.get("generate") or ():
        generate(root, recipe)


def open_up(case: Mapping[str, Any], root: Path) -> None:
    """Take the modes back, so that the directory can be removed."""
    for path in case.get("modes") or {}:
        (root / path).chmod(0o755)


def flatten(tree: Mapping[str, Any], folder: str = "") -> Iterator[tuple[str, str | None]]:
    """(path, text) of each file, (path, None) of each directory; a mapping stands for a directory."""
    for name, entry in tree.items():
        if isinstance(entry, Mapping):
            yield f"{folder}{name}", None
            yield from flatten(entry, f"{folder}{name}/")
        else:
            yield f"{folder}{name}", str(entry)


def generate(root: Path, recipe: Mapping[str, Any]) -> None:
    """One file of a repeated text, or many files that differ in a number."""
    if "count" not in recipe:
        write(root, recipe["path"], recipe["text"] * recipe["times"])
        return
    for number in range(recipe["count"]):
        path, text = (recipe[key].replace("{}", str(number)) for key in ("path", "text"))
        write(root, path, text)


def write(root: Path, path: str, content: str | bytes) -> None:
    data = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    place(root, path).write_bytes(data)


def place(root: Path, path: str) -> Path:
    """The path below the root, its folder made."""
    found = root / path
    found.parent.mkdir(parents=True, exist_ok=True)
    return found


def bind(path: Path) -> None:
    """A socket file; sun_path is short, so its folder becomes the working directory for the moment."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(before)
