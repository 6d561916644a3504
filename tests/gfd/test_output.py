"""Where the feature file should go, and something else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gfd import output
from nfd.errors import HostError


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "folder"])
def test_what_is_no_file_is_refused_and_never_read(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "gfd")
    assert output.read(str(tmp_path / "gfd")) == {}
    with pytest.raises(HostError, match="is not a regular file"):
        output.write(str(tmp_path / "gfd"), {"a": "1"})
