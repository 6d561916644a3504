"""`nfd.errors.said`: the text of an exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.errors import said


class Told(OSError):
    """One that has words of its own."""

    def __str__(self) -> str:
        return "told"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory", "/a/b"), "/a/b: No such file or directory"),
        (OSError(98, "the port is taken"), "the port is taken"),
        (OSError("plain"), "plain"),
        (Told(2, "No such file or directory", "/a/b"), "told"),
        (TimeoutError(), "TimeoutError"),
        (ValueError("no number"), "no number"),
    ],
)
def test_said(error: Exception, words: str) -> None:
    assert said(error) == words


def test_what_the_system_says(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Is a directory") as caught:
        tmp_path.open()
    assert said(caught.value) == f"{tmp_path}: Is a directory"
