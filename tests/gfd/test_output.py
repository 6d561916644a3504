"""Where the feature file should go, and something else is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gfd.output import FileOutput
from nfd.errors import HostError
from tests.gfd.cases import Start, run_process

LABELS = {"a": "1"}


def device(path: Path) -> None:
    """The numbers of /dev/null."""
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("making a device needs root")


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def link_to_folder(path: Path) -> None:
    path.symlink_to("/")


OTHERS = [os.mkfifo, os.mkdir, device, link_to_device, link_to_folder]
NAMES = ["pipe", "folder", "device", "link to a device", "link to a folder"]


@pytest.mark.parametrize("make", OTHERS, ids=NAMES)
def test_what_is_no_file_is_refused_never_read_and_never_removed(make: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    make(path)
    before = path.lstat()
    assert FileOutput(str(path)).read() == {}
    for act in (lambda: FileOutput(str(path)).write(LABELS), lambda: FileOutput(str(path)).remove()):
        with pytest.raises(HostError, match="is not a regular file"):
            act()
    assert path.lstat().st_ino == before.st_ino


@pytest.mark.parametrize("name", ["pipe", "device", "link"])
def test_the_program_cleans_up_nothing_that_it_would_not_write(name: str, tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    {"pipe": os.mkfifo, "device": device, "link": link_to_device}[name](path)
    flags = ("--cleanup", "--use-node-feature-api=false", f"--output-file={path}")
    outcome = run_process(Start(flags, dict(os.environ), tmp_path))
    assert outcome.code == 1
    assert outcome.stderr == f"gpu-feature-discovery: {path}: is not a regular file\n"
    assert path.lstat()


def test_a_link_to_a_file_is_removed_and_the_file_stays(tmp_path: Path) -> None:
    FileOutput(str(tmp_path / "file")).write(LABELS)
    (tmp_path / "gfd").symlink_to("file")
    FileOutput(str(tmp_path / "gfd")).remove()
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    FileOutput(str(tmp_path / "gfd")).remove()


def test_a_link_to_nothing_is_replaced_but_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    path.symlink_to("nowhere")
    with pytest.raises(HostError, match="is a link to nothing"):
        FileOutput(str(path)).remove()
    assert FileOutput(str(path)).write(LABELS)
    assert FileOutput(str(path)).read() == LABELS
    assert not path.is_symlink()
