"""Quantities are compared as amounts."""

from __future__ import annotations

import pytest

from nfd.quantity import same_quantity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1000", "1k"),
        ("1Ki", "1024"),
        ("1e3", "1k"),
        ("0.5", "500m"),
        ("+5", "5"),
        ("5.", "5"),
        ("2Mi", "2048Ki"),
        ("8Ei", "9223372036854775807"),
    ],
)
def test_same(one: str, other: str) -> None:
    assert same_quantity(one, other)


@pytest.mark.parametrize(
    ("one", "other"), [("1", "2"), ("1k", "1Ki"), ("", "0"), ("x", "y"), ("9" * 100, "9" * 99), ("1e999", "1")]
)
def test_different(one: str, other: str) -> None:
    assert not same_quantity(one, other)
