"""hadolint has nothing to say about the Dockerfiles; a rule that is switched off stands beside its reason."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.deploy.rendering import ROOT


@pytest.mark.parametrize("path", sorted(ROOT.glob("Dockerfile.*")), ids=lambda path: path.name)
def test_hadolint(path: Path) -> None:
    program = Path(sysconfig.get_path("scripts")) / "hadolint"
    found = subprocess.run([str(program), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")
