"""The committed files that a release is built from, and its notes."""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

from packaging.version import Version

from release.errors import ReleaseError
from release.version import CHART, check_version, versions
from tests.children import ChildError, run, run_binary

_TAGGED = "%(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"


@dataclass(frozen=True)
class Source:
    """The files of a commit below `folder`. `epoch` is the commit's time in seconds, for SOURCE_DATE_EPOCH."""

    folder: Path
    version: str
    commit: str
    epoch: int

    @property
    def wheel_version(self) -> str:
        """As PEP 440 writes it: 1.0.0-rc1 is 1.0.0rc1."""
        return str(Version(self.version))

    @property
    def chart(self) -> Path:
        return self.folder / CHART


def find_commit(version: str, clone: Path) -> Source:
    """The commit that is checked out in a clone.

    Raises: ReleaseError if files are changed, if they have another version, or if the version's tag is elsewhere.
    """
    check_version(version)
    try:
        changed = _git(clone, "status", "--porcelain")
        commit, epoch = _git(clone, "log", "-1", "--format=%H %ct").split()
        tagged = _git(clone, "tag", "--list", f"v{version}", f"--format={_TAGGED}")
    except ChildError as error:
        raise ReleaseError(f"a release is built from a git clone: {error}") from error
    if changed:
        raise ReleaseError(f"files are not committed:\n{changed}")
    if tagged and tagged != commit:
        raise ReleaseError(
            f"the tag v{version} is at {tagged}, but {commit} is checked out: git switch --detach v{version}"
        )
    source = Source(clone, version, commit, int(epoch))
    if wrong := {written for written in versions(clone).values() if Version(written) != Version(version)}:
        raise ReleaseError(
            f"the files say that they are {', '.join(sorted(wrong))}: run `make version VERSION={version}` and commit"
        )
    return source


def unpack(source: Source, folder: Path) -> Source:
    """The same commit, its files alone, below an empty folder."""
    archive = run_binary(["git", "archive", "--format=tar", source.commit], cwd=source.folder).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return replace(source, folder=folder)


def notes(changelog: str, version: str) -> str:
    """The version's section of CHANGELOG.md; for a pre-release without one, what is unreleased.

    Raises: ReleaseError if there is none.
    """
    sections = {
        re.split(r"[] ]", heading.removeprefix("["))[0]: body.strip()
        for heading, _, body in (part.partition("\n") for part in re.split(r"^## ", changelog, flags=re.M)[1:])
    }
    body = sections.get(version) or (sections.get("Unreleased") if Version(version).is_prerelease else None)
    if not body:
        raise ReleaseError(f"CHANGELOG.md has no section [{version}]")
    return f"# {version}\n\n{body}\n"


def _git(clone: Path, *words: str) -> str:
    return run(["git", *words], cwd=clone).stdout.strip()
