"""What was made of a file is kept for as long as the file is the same, whatever its times and size say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nfd import host
from nfd.host import Host


def rewrite(file: Path, data: bytes) -> None:
    """In place, with the time of modification that the file had, as `cp -p`, `rsync -t` and `tar` do."""
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        file.write_bytes(data)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("young", [host.YOUNG, -1.0], ids=["young", "old"])
def test_other_content_of_the_same_size_and_time(young: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "YOUNG", young)
    file = tmp_path / "rules"
    file.write_bytes(b"one")
    machine = Host(tmp_path, {})
    for content in (b"two", b"six", b"ten"):
        machine.parsed("rules", bytes)
        rewrite(file, content)
        assert machine.parsed("rules", bytes) == content


def test_two_changes_within_a_tick(tmp_path: Path) -> None:
    file, machine = tmp_path / "rules", Host(tmp_path, {})
    for number in range(200):
        content = b"%04d" % number
        file.write_bytes(content)
        assert machine.parsed("rules", bytes) == content
