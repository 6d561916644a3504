"""Files written in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.runtime.files import create_file, replace_file


def test_a_replaced_file_is_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a"
    replace_file(path, b"old", 0o600)
    with path.open("rb") as reader:
        replace_file(path, b"new", 0o644)
        assert reader.read() == b"old"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o644)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    create_file(tmp_path / "a", b"first", 0o600)
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second", 0o600)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "a", b"x", 0o600)
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
