"""How much of a file a Host reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.errors import HostError
from nfd.host import Host


def test_a_file_that_is_too_large_is_an_error_and_its_beginning_is_none(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 101)
    host = Host(tmp_path)
    assert host.data("big", 101) == b"x" * 101
    with pytest.raises(HostError, match="is larger than 100 bytes"):
        host.data("big", 100)
    assert host.head("big", 100) == b"x" * 100
