"""The small machine and the command line as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.cli import main
from tests.cli.small import MACHINE, make


@pytest.fixture
def machine(tmp_path: Path) -> str:
    return str(make(tmp_path / "machine", MACHINE))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*words: str) -> tuple[int, str, str]:
        status = main(words)
        out, err = capsys.readouterr()
        return status, out, err

    return call
