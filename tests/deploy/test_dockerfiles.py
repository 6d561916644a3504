"""hadolint has nothing to say about the Dockerfiles, and all they install comes as wheels for both architectures."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

from tests.deploy.rendering import ROOT


@pytest.mark.parametrize("path", sorted(ROOT.glob("Dockerfile.*")), ids=lambda path: path.name)
def test_hadolint(path: Path) -> None:
    """A rule that is switched off stands beside its reason."""
    program = Path(sysconfig.get_path("scripts")) / "hadolint"
    found = subprocess.run([str(program), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_nothing_has_to_be_compiled(machine: str, tmp_path: Path) -> None:
    """The images have no compiler: every pinned dependency is a wheel for Python 3.11 on glibc 2.28, as in the base."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["master"]]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += [f"--target={tmp_path}", "--python-version=3.11", "--implementation=cp", "--only-binary=:all:"]
    command += [f"--platform={tag}_{machine}" for tag in ("manylinux2014", "manylinux_2_28")]
    command += [f"--constraint={ROOT / 'constraints.txt'}", *wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
