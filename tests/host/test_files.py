"""How much of a file a Host reads, and where it reads what may be below the root or beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.errors import HostError
from nfd.host import CUSTOM_D, PLUGIN_D, PROC, Host
from nfd.host.tree import Tree


def test_a_file_that_is_too_large_is_an_error_and_its_beginning_is_none(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 101)
    host = Host(tmp_path)
    assert host.data("big", 101) == b"x" * 101
    with pytest.raises(HostError, match="is larger than 100 bytes"):
        host.data("big", 100)
    assert host.head("big", 100) == b"x" * 100


def machine_with_own(tmp_path: Path) -> Host:
    """A live machine; what a Host reads beside its root is in a folder of the test."""
    for folder in (CUSTOM_D, PLUGIN_D, PROC):
        for place in ("root", "own"):
            (tmp_path / place / folder).mkdir(parents=True)
        (tmp_path / "own" / folder / "own").write_text("own")
    host = Host(tmp_path / "root")
    host._own = Tree(tmp_path / "own")
    return host


READS: dict[str, Callable[[Host, str], object]] = {
    "names": Host.names,
    "text": lambda host, path: host.text(f"{path}/own"),
    "exists": Host.exists,
    "is_dir": Host.is_dir,
}


@pytest.mark.parametrize("folder", [CUSTOM_D, PLUGIN_D, PROC])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_only_what_is_not_below_the_root_is_read_beside_it(
    read: Callable[[Host, str], object], folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = machine_with_own(tmp_path)
    assert host.names(folder) == ()
    below = tmp_path / "root" / folder
    below.rmdir()
    assert host.names(folder) == ("own",)
    below.symlink_to(below.name)
    with pytest.raises(HostError, match="Too many levels of symbolic links"):
        read(host, folder)
    for code in (errno.EIO, errno.ESTALE, errno.EMFILE):
        monkeypatch.setattr(host._tree, "_open", refusal(code))
        with pytest.raises(HostError, match=os.strerror(code)):
            read(host, folder)
    for code in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM):
        monkeypatch.setattr(host._tree, "_open", refusal(code))
        assert host.names(folder) == ("own",)


def refusal(code: int) -> Callable[[str, int], int]:
    def refuse(path: str, flags: int) -> int:
        raise OSError(code, os.strerror(code), path)

    return refuse
