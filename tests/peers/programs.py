"""The programs of the others: NFD's from Go modules, and those that a person has put into `PROGRAMS`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests import nfd016, nfd019

VARIABLE = "NFD_PEERS"
NFD = {"0.16": (nfd016.ensure, nfd016.MODULE), "0.19": (nfd019.ensure, nfd019.MODULE)}
"""Release -> what builds a program of it, and its Go module."""


def folder() -> Path | None:
    """Where the programs are that are no Go modules; None without `make peers`."""
    return Path(os.environ[VARIABLE]).resolve() if os.environ.get(VARIABLE) else None


def nfd(release: str, name: str) -> Path:
    """`nfd-worker` or `nfd-master` of a release. Raises: BuildError."""
    ensure, _ = NFD[release]
    return ensure(name)


def nfd_version(release: str) -> str:
    """The version that its go.mod requires."""
    _, module = NFD[release]
    text = (module / "go.mod").read_text()
    found = re.search(r"sigs\.k8s\.io/node-feature-discovery v([\d.]+)", text)
    assert found, "go.mod names no version"
    return found[1]


def given(*parts: str) -> Path:
    """A file or folder below `PROGRAMS`; without it the test is skipped."""
    path = (folder() or Path()).joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{path} is missing: see docs/testing.md")
    return path


def given_version(*parts: str) -> str:
    """What the file `VERSION` beside a program says."""
    return given(*parts, "VERSION").read_text().strip()
