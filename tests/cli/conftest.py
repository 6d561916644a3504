"""The small machine as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import MACHINE, make


@pytest.fixture
def machine(tmp_path: Path) -> str:
    return str(make(tmp_path / "machine", MACHINE))
