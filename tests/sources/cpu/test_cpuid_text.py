"""The text form of CPUID."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import HostError
from nfd.sources.cpu.cpuid import Cpuid, format_cpuid, parse_cpuid

WORD = st.integers(0, 2**32 - 1)
CPUIDS = st.builds(
    Cpuid,
    st.dictionaries(st.tuples(WORD, WORD), st.tuples(WORD, WORD, WORD, WORD), max_size=8),
    st.integers(0, 2**64 - 1),
)


def test_notation() -> None:
    text = "# by hand\n\n0x0 0 0000000D 756E6547 0X6c65746e 49656e69 # vendor\n  1\t0 0 0 0 1\r\nXCR0 0xE7\n"
    found = parse_cpuid(text)
    assert found.leaves == {(0, 0): (0xD, 0x756E6547, 0x6C65746E, 0x49656E69), (1, 0): (0, 0, 0, 1)}
    assert found.xcr0 == 0xE7
    assert found.registers(7) == (0, 0, 0, 0)
    assert found.exact


def test_empty_text_is_a_machine_of_zeros() -> None:
    assert parse_cpuid("# nothing\n") == Cpuid()


def test_last_line_of_a_leaf_counts() -> None:
    assert parse_cpuid("1 0 0 0 0 1\n1 0 0 0 0 2\n").registers(1) == (0, 0, 0, 2)


@pytest.mark.parametrize(
    "line",
    [
        "1 0 0 0 0",
        "1 0 0 0 0 0 0",
        "1 0 0 0 0 g",
        "1 0 0 0 0 -1",
        "1 0 0 0 0 1_0",
        "1 0 0 0 0 123456789",
        "1 0 0 0 0 0x",
        "1 0 0 0 0 １",
        "xcr0",
        "xcr0 7 7",
        "xcr0 zz",
        "xcr0 12345678901234567",
        "xcr1 7",
        "\x00",
    ],
)
def test_malformed_line_is_named(line: str) -> None:
    with pytest.raises(HostError, match=r"^cpuid: line 3: ") as caught:
        parse_cpuid(f"# first\n0 0 0 0 0 0\n{line}\n")
    assert len(str(caught.value)) < 250


@given(CPUIDS)
def test_round_trip(cpuid: Cpuid) -> None:
    assert parse_cpuid(format_cpuid(cpuid)) == cpuid


@given(st.text() | st.text(st.sampled_from("0123456789abcdefx #\n\txcr"), max_size=200))
def test_hostile_text(text: str) -> None:
    """Either understood, and then stable, or refused in one line."""
    try:
        found = parse_cpuid(text)
    except HostError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert parse_cpuid(format_cpuid(found)) == found
    assert "\n" not in refusal
