"""Writes requirements/*.txt, the hashes of all that images contain: `python -m release.lock`, called by `make lock`.

Versions are those of constraints.txt. A file lists the wheels for each Python and each architecture of the images.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any

from tests.children import run

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
TAGS = ("manylinux2014", "manylinux_2_28")
HEADER = "# {about}. Written by `make lock`; do not edit.\n"


def files() -> dict[str, tuple[str, list[str]]]:
    """By the name of a file, what it is for, and what is asked of pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    runtime = project["dependencies"]
    return {
        "worker": ("What nfd-worker is installed with", runtime),
        "master": ("What nfd-master and gpu-feature-discovery are installed with", runtime + extras["master"]),
        "build": ("What images are built with, and do not contain", ["cyclonedx-bom", "setuptools"]),
    }


def wheels(wanted: list[str]) -> dict[str, set[str]]:
    """By `NAME==VERSION`, the SHA-256 of its wheels."""
    found: dict[str, set[str]] = defaultdict(set)
    for python, machine in product(PYTHONS, MACHINES):
        for one in resolve(wanted, python, machine)["install"]:
            about = one["metadata"]
            found[f"{about['name'].lower()}=={about['version']}"].add(
                one["download_info"]["archive_info"]["hashes"]["sha256"]
            )
    return found


def resolve(wanted: list[str], python: str, machine: str) -> Any:
    """pip's installation report. Source: pip documentation, "Installation Report"."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report=-"]
        command += [f"--target={folder}", f"--python-version={python}", "--implementation=cp", "--only-binary=:all:"]
        command += [f"--platform={tag}_{machine}" for tag in TAGS]
        return json.loads(run([*command, f"--constraint={ROOT / 'constraints.txt'}", *wanted]).stdout)


def text(about: str, found: dict[str, set[str]]) -> str:
    entries = (
        " \\\n    ".join([name, *(f"--hash=sha256:{one}" for one in sorted(found[name]))]) for name in sorted(found)
    )
    return HEADER.format(about=about) + "\n".join(entries) + "\n"


def main() -> None:
    for name, (about, wanted) in files().items():
        path = ROOT / "requirements" / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(about, wheels(wanted)))
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
