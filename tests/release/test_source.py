"""What a release is built from: one version in all places, a clean commit, the tag's, and the notes of that version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from release.errors import ReleaseError
from release.source import find_commit, notes, unpack
from release.version import CHART, SAMPLE, check_version, versions, write_version
from tests.children import run

ROOT = Path(__file__).parents[2]
WRITTEN = ("nfd/__init__.py", f"{CHART}/Chart.yaml", SAMPLE)
"""The files that `make version` writes."""
COMMIT = ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=x")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the files that say the version, as 2.0.0-rc1."""
    for name in WRITTEN:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    write_version("2.0.0-rc1", tmp_path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(clone: Path, *words: str) -> str:
    return run(["git", *words], cwd=clone).stdout.strip()


def commit(clone: Path) -> None:
    git(clone, "add", "--all")
    git(clone, *COMMIT, "--allow-empty")


def test_one_version() -> None:
    """As in `make version`, of which nothing is left to do; the chart's is the images' tag."""
    written = versions(ROOT)
    assert written["version"] == written["appVersion"]
    before = {name: (ROOT / name).read_bytes() for name in WRITTEN}
    write_version(written["version"], ROOT)
    assert {name: (ROOT / name).read_bytes() for name in before} == before


def test_a_version_is_written_everywhere(clone: Path) -> None:
    assert versions(clone) == {"nfd/__init__.py": "2.0.0rc1", "version": "2.0.0-rc1", "appVersion": "2.0.0-rc1"}
    assert {image["newTag"] for image in yaml.safe_load((clone / SAMPLE).read_text())["images"]} == {"2.0.0-rc1"}
    source = find_commit("2.0.0-rc1", clone)
    assert (source.wheel_version, source.commit) == ("2.0.0rc1", git(clone, "rev-parse", "HEAD"))
    assert source.epoch == int(git(clone, "log", "-1", "--format=%ct"))


@pytest.mark.parametrize(
    "text", ["", "v1.0.0", "1.0", "1.0.0rc1", "1.0.0-rc.1", "1.0.0+x", "1.0.0-rc1 --into=/", "1.0.0\n"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    """Helm refuses 1.0.0rc1, pip cannot say 1.0.0-rc.1, and an image's tag has no plus sign."""
    with pytest.raises(ReleaseError, match="is not a version"):
        check_version(text)


def test_another_version_than_the_files_say(clone: Path) -> None:
    with pytest.raises(ReleaseError, match=r"make version VERSION=2\.0\.0`"):
        find_commit("2.0.0", clone)


@pytest.mark.parametrize("name", ["nfd/__init__.py", "new"])
def test_what_is_not_committed(clone: Path, name: str) -> None:
    with (clone / name).open("a") as file:
        file.write("# changed\n")
    with pytest.raises(ReleaseError, match=name):
        find_commit("2.0.0-rc1", clone)


@pytest.mark.parametrize("options", [(), ("--annotate", "--message=x")], ids=["plain tag", "annotated tag"])
def test_the_tag_is_where_the_release_is_built(clone: Path, options: tuple[str, ...]) -> None:
    git(clone, "-c", "user.name=a", "-c", "user.email=a@example.com", "tag", *options, "v2.0.0-rc1")
    assert find_commit("2.0.0-rc1", clone)
    commit(clone)
    with pytest.raises(ReleaseError, match="git switch --detach"):
        find_commit("2.0.0-rc1", clone)


def test_only_committed_files_are_built(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever else lies in the clone, such as byte code, and with the commit's time."""
    (clone / ".gitignore").write_text("*.pyc\n")
    commit(clone)
    (clone / "nfd/x.pyc").write_text("")
    source = unpack(find_commit("2.0.0-rc1", clone), tmp_path_factory.mktemp("unpacked"))
    files = {str(path.relative_to(source.folder)) for path in source.folder.rglob("*") if path.is_file()}
    assert files == {".gitignore", *WRITTEN}
    assert int((source.folder / "nfd/__init__.py").stat().st_mtime) == source.epoch


CHANGELOG = """# Changelog

## [Unreleased]

new

## [1.1.0] - 2026-01-02

### Fixed

- b

## [1.0.0] - 2026-01-01

a
"""


@pytest.mark.parametrize(
    ("version", "body"), [("1.0.0", "a"), ("1.1.0", "### Fixed\n\n- b"), ("1.2.0-rc1", "new"), ("1.2.0", None)]
)
def test_notes(version: str, body: str | None) -> None:
    """A release candidate's are those of what is not released yet."""
    if body is None:
        with pytest.raises(ReleaseError, match=r"no section \[1\.2\.0\]"):
            notes(CHANGELOG, version)
    else:
        assert notes(CHANGELOG, version) == f"# {version}\n\n{body}\n"
