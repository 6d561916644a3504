"""Numbers in files of the machine: none, or one too large for 64 bits, counts as not above zero and harms nobody."""

from __future__ import annotations

import pytest

from nfd.sources.feature_reader import is_positive


@pytest.mark.parametrize(
    ("text", "positive"),
    [
        ("1", True),
        ("+7", True),
        ("0" * 5000 + "1", True),
        (str((1 << 63) - 1), True),
        (str(1 << 63), False),
        ("9" * 5000, False),
        ("0", False),
        ("-1", False),
        ("", False),
        (" 1", False),
        ("1_0", False),
        ("0x1", False),
        ("１", False),
        (None, False),
    ],
)
def test_is_positive(text: str | None, positive: bool) -> None:
    assert is_positive(text) is positive
