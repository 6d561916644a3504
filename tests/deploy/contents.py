"""What is in an image: distributions, byte code and machine code, read from its files without running any."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from importlib import metadata
from importlib.util import source_hash
from pathlib import Path

ENVIRONMENT = Path("opt/nfd")
LEFT_OUT = ("kubernetes/client/models", "kubernetes/aio/client/api", "kubernetes/aio/client/models")
"""Modules of which we load few: compiled for all, they would be 45 MB."""
UNUSED = {"dist-packages", "ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtledemo"}
"""Parts of Python of which we load nothing."""
HOW_IT_WAS_BUILT = "_sysconfigdata_"
"""Names an architecture, and is for who builds extensions."""
MACHINES = {"amd64": 62, "arm64": 183}
"""`e_machine` of elf(5)."""


def packages(root: Path) -> Path:
    (place,) = (root / ENVIRONMENT / "lib").glob("python3.*/site-packages")
    return place


def distributions(root: Path) -> dict[str, str]:
    """Versions by name, from the metadata that pip has left."""
    return {each.metadata["Name"]: each.version for each in metadata.distributions(path=[str(packages(root))])}


def bill(root: Path) -> dict[str, str]:
    """The same, from the bill of materials."""
    found = json.loads((root / ENVIRONMENT / "sbom.cdx.json").read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    return {each["name"]: each["version"] for each in found["components"]}


def uncompiled(root: Path) -> list[str]:
    """Modules without byte code that Python would take: for their time and size (importlib, "Cached bytecode")."""
    place = packages(root)
    modules = (path for path in place.rglob("*.py") if not str(path.relative_to(place)).startswith(LEFT_OUT))
    return [str(path.relative_to(place)) for path in modules if not has_byte_code(path, _by_time(path))]


def uncompiled_of_python(root: Path) -> list[str]:
    """Python's own modules without byte code that is taken for what they contain (PEP 552), whatever their time."""
    (place,) = root.glob("usr/lib/python3.*")
    modules = (path for path in place.rglob("*.py") if not {*path.relative_to(place).parts} & UNUSED)
    missing = [str(path.relative_to(place)) for path in modules if not has_byte_code(path, _by_content(path))]
    return [name for name in missing if not name.startswith(HOW_IT_WAS_BUILT)]


def has_byte_code(module: Path, head: bytes) -> bool:
    """Whose header goes on like that after the magic number."""
    return any(path.read_bytes()[4:16] == head for path in module.parent.glob(f"__pycache__/{module.stem}.*.pyc"))


def _by_time(module: Path) -> bytes:
    status = module.stat()
    return struct.pack("<III", 0, int(status.st_mtime), status.st_size)


def _by_content(module: Path) -> bytes:
    return struct.pack("<I", 0b11) + source_hash(module.read_bytes())


def machine_code(root: Path) -> dict[str, int]:
    """ELF files, and for which machine they are."""
    return {str(path.relative_to(root)): struct.unpack("<H", head[18:20])[0] for path, head in elf_files(root)}


def elf_files(root: Path) -> Iterator[tuple[Path, bytes]]:
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if (head := file.read(20)).startswith(b"\x7fELF"):
                    yield path, head


def files(root: Path) -> set[str]:
    """Paths of all that is ours, with one word for both architectures."""
    names = (str(path.relative_to(root)) for path in (root / "opt").rglob("*"))
    return {name.replace("x86_64-linux-gnu", "-").replace("aarch64-linux-gnu", "-") for name in names}
