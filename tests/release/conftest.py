"""A commit of this tree, and what is released of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from release.__main__ import make_twice
from release.source import Source, find_commit
from release.version import versions
from tests.release.test_source import ROOT, commit, git

REGISTRY = "registry.example.com/team"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A clone with this tree's files, ignored ones left out, in one commit."""
    clone = tmp_path_factory.mktemp("clone")
    for name in git(ROOT, "ls-files", "-co", "--exclude-standard").splitlines():
        if (path := ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, clone / name)
    git(clone, "init", "--quiet")
    commit(clone)
    return find_commit(versions(ROOT)["version"], clone)


@pytest.fixture(scope="session")
def made(source: Source, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "dist"
    make_twice(source, folder, REGISTRY)
    return folder
