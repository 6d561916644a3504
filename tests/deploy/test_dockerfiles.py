"""hadolint has nothing to say about the Dockerfiles, and all they install is a wheel with a known hash."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from release.lock import PYTHONS, TAGS, files
from tests.children import run
from tests.deploy.rendering import ROOT


@pytest.mark.parametrize("path", sorted(ROOT.glob("Dockerfile.*")), ids=lambda path: path.name)
def test_hadolint(path: Path) -> None:
    """A rule that is switched off stands beside its reason."""
    program = Path(sysconfig.get_path("scripts")) / "hadolint"
    found = subprocess.run([str(program), "--no-color", str(path)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["worker", "master"])
def test_what_images_contain_is_locked_by_hash(name: str, machine: str, tmp_path: Path) -> None:
    """The images have no compiler: all are wheels for glibc 2.28 and Python 3.11, whose hashes `make lock` wrote."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--require-hashes"]
    command += [f"--target={tmp_path}", f"--python-version={PYTHONS[0]}", "--implementation=cp", "--only-binary=:all:"]
    command += [f"--platform={tag}_{machine}" for tag in TAGS]
    run([*command, f"--requirement={ROOT / 'requirements' / name}.txt"])


def test_locked_versions_are_the_tested_ones() -> None:
    """Those of constraints.txt, and all that pyproject.toml asks for."""
    tested = set((ROOT / "constraints.txt").read_text().lower().splitlines())
    for name, (_, wanted) in files().items():
        lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
        locked = {line.split()[0] for line in lines if "==" in line}
        assert locked <= tested, name
        assert {re.split("[><=]", each)[0].lower() for each in wanted} <= {each.split("==")[0] for each in locked}
