"""The wheel, the sdist, and the bill of materials of what the wheel is installed with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from release.archives import read_tar, write_tar
from release.errors import ReleaseError
from release.source import Source
from tests.children import run

NAME = "nfd_gfd"
_PROGRAMS = """
import importlib.metadata
found = importlib.metadata.distribution("nfd-gfd").entry_points
print(*(one.name for one in found if one.group == "console_scripts" and one.name != "kubectl_complete-nfd"))
"""
"""The programs that have --version; kubectl's completion asks the other one to complete whatever its flags are."""
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


def build_python(source: Source, into: Path) -> None:
    """An sdist, and the wheel that is built from it.

    setuptools gives the wheel's files the time of SOURCE_DATE_EPOCH, but not those of the sdist: it is packed anew.
    """
    environ = os.environ | {"SOURCE_DATE_EPOCH": str(source.epoch)}
    command = [sys.executable, "-m", "build", "--no-isolation", f"--outdir={into}", str(source.folder)]
    run(command, env=environ, umask=0o022)
    sdist = into / f"{NAME}-{source.wheel_version}.tar.gz"
    write_tar(sdist, read_tar(sdist), source.epoch)


def install(source: Source, files: Path, folder: Path) -> Path:
    """Install the wheel with the locked dependencies into an empty environment, and run each of its programs.

    Returns: the environment's Python. Raises: ReleaseError if a program does not start or has another version.
    """
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / "bin/python"
    into = [*PIP, "--python", str(python), "install"]
    run(
        [*into, "--require-hashes", "--only-binary=:all:", f"--requirement={source.folder / 'requirements/master.txt'}"]
    )
    run([*into, "--no-deps", "--no-index", f"--find-links={files}", f"{NAME}=={source.wheel_version}"])
    for name in run([python, "-c", _PROGRAMS]).stdout.split():
        said = run([folder / "bin" / name, "--version"]).stdout
        if source.wheel_version not in said:
            raise ReleaseError(f"{name} --version says {said!r}")
    return python


def write_bill(source: Source, python: Path, into: Path) -> None:
    """What an environment contains, as CycloneDX, validated and without times and serial numbers."""
    bill = into / f"{NAME}-{source.wheel_version}.cdx.json"
    options = [
        "--output-reproducible",
        "--validate",
        f"--pyproject={source.folder / 'pyproject.toml'}",
        f"--output-file={bill}",
    ]
    run([sys.executable, "-m", "cyclonedx_py", "environment", *options, str(python)])
