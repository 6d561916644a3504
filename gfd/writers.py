"""Outputs that need no cluster."""

from __future__ import annotations

from collections.abc import Mapping

from gfd import output
from nfd.stdout import write


class FileOutput:
    """The feature file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> Mapping[str, str]:
        return output.read(self._path)

    def write(self, labels: Mapping[str, str]) -> bool:
        return output.write(self._path, labels)


class StandardOutput:
    """Every pass is printed."""

    def read(self) -> Mapping[str, str]:
        return {}

    def write(self, labels: Mapping[str, str]) -> bool:
        write(output.render(labels))
        return True
