"""The text of an epoch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.report_request import LONGEST, LONGEST_SPREAD, Epoch, parse, spread_for

identities = st.text("0123456789abcdef", min_size=16, max_size=16)


@given(identities, st.integers(1, LONGEST_SPREAD), st.sampled_from(["", "\n"]))
def test_what_a_master_writes_is_what_a_worker_reads(identity: str, spread: int, end: str) -> None:
    text = f"{Epoch(identity, spread)}{end}"
    assert parse(text) == Epoch(identity, spread)
    assert len(text) < LONGEST


@given(st.text() | st.from_regex(r"[0-9a-f]{14,18} ?-?[0-9]{0,4}\s*", fullmatch=True))
def test_any_other_text_is_malformed(text: str) -> None:
    """A result says the same as the text, and its spread is within the limits."""
    found = parse(text)
    if found is None:
        return
    identity, _, seconds = text.removesuffix("\n").partition(" ")
    assert (found.identity, found.spread) == (identity, min(int(seconds), LONGEST_SPREAD))
    assert 1 <= found.spread <= LONGEST_SPREAD
    assert len(identity) == 16


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0123456789abcdef",
        "0123456789abcdef 0",
        "0123456789abcdef -1",
        "0123456789abcdef 1.5",
        "0123456789ABCDEF 5",
        "0123456789abcde 5",
        "0123456789abcdef 5\n\n",
        " 0123456789abcdef 5",
        "0123456789abcdef 1000",
        "0123456789abcdef ٥",
    ],
)
def test_malformed(text: str) -> None:
    assert parse(text) is None


@given(st.integers(0, 10**7))
def test_larger_fleets_take_longer_within_limits(nodes: int) -> None:
    assert 1 <= spread_for(nodes) <= spread_for(nodes + 1) <= LONGEST_SPREAD


def test_the_spread_of_known_fleets() -> None:
    assert [spread_for(nodes) for nodes in (0, 1, 100, 101, 5000, 15000)] == [1, 1, 1, 2, 50, 60]
