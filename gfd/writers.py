"""Outputs that need no cluster."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gfd import output
from nfd.stdout import write


class FileOutput:
    """The feature file."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def place(self) -> str:
        path = Path(self._path)
        return str(path.parent.resolve() / path.name)

    @property
    def identity(self) -> object:
        return output.identity(self._path)

    def read(self) -> Mapping[str, str]:
        return output.read(self._path)

    def write(self, labels: Mapping[str, str]) -> bool:
        return output.write(self._path, labels)

    def remove(self) -> None:
        output.remove(self._path)


class StandardOutput:
    """Every pass is printed, and what is printed stays."""

    place = identity = "standard output"

    def read(self) -> Mapping[str, str]:
        return {}

    def write(self, labels: Mapping[str, str]) -> bool:
        write(output.render(labels))
        return True

    def remove(self) -> None:
        return
