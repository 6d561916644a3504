"""YAML as Go reads it, and hostile YAML."""

from __future__ import annotations

import json
import struct
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.config.yamltext import MAX_BYTES, MAX_DEPTH, documents, parse, resolve, scalar_text
from nfd.errors import ConfigError

SCALARS: list[tuple[str, Any, str]] = [
    # plain text, value, text where text belongs: as go-yaml 2 and sigs.k8s.io/yaml give them
    ("0300", 192, "192"),
    ("0302", 194, "194"),
    ("03", 3, "3"),
    ("0o17", 15, "15"),
    ("0b40", "0b40", "0b40"),
    ("0b11", 3, "3"),
    ("0800", 800.0, "800"),
    ("0x1F", 31, "31"),
    ("-017", -15, "-15"),
    ("12", 12, "12"),
    ("+5", 5, "5"),
    ("1_000", 1000, "1000"),
    ("_1", "_1", "_1"),
    ("03e0", 3.0, "3"),
    ("0e", "0e", "0e"),
    ("1e3", 1000.0, "1000"),
    ("1.5", 1.5, "1.5"),
    ("1.50", 1.5, "1.5"),
    (".5", 0.5, "0.5"),
    ("1e6", 1e6, "1e+06"),
    ("123456789.0", 123456789.0, "1.2345679e+08"),
    ("0.00001", 1e-05, "1e-05"),
    ("0.0001", 0.0001, "0.0001"),
    ("-0.0", -0.0, "-0"),
    ("1e400", "1e400", "1e400"),
    ("18446744073709551615", 2**64 - 1, "18446744073709551615"),
    ("18446744073709551616", 1.8446744073709552e19, "1.8446744e+19"),
    (".inf", float("inf"), "+Inf"),
    ("9" * 5000, "9" * 5000, "9" * 5000),
    (f"-0b{'1' * 63}", 1 - 2**63, str(1 - 2**63)),
    ("y", True, "true"),
    ("Yes", True, "true"),
    ("on", True, "true"),
    ("n", False, "false"),
    ("OFF", False, "false"),
    ("yES", "yES", "yES"),
    ("2024-01-01", "2024-01-01", "2024-01-01"),
    ("1:30", "1:30", "1:30"),
    ("123456.789", 123456.789, "123456.79"),
    ("16777217.0", 16777217.0, "1.6777216e+07"),
    ("-1e39", -1e39, "-Inf"),
    ("1e-50", 1e-50, "0"),
    ("0000:01:00.0", "0000:01:00.0", "0000:01:00.0"),
    ("10de", "10de", "10de"),
    ("v1.2", "v1.2", "v1.2"),
]


@pytest.mark.parametrize(("text", "value", "shown"), SCALARS)
def test_scalars_as_go_reads_them(text: str, value: Any, shown: str) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)
    assert (scalar_text(value) if not isinstance(value, str) else value) == shown
    assert parse(f"a: {text}", "f").data == {"a": value}
    assert parse(f"a: '{text}'", "f").data == {"a": text}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_scalar_text_is_read_back_as_the_same_number(value: float) -> None:
    """In single precision, which is what NFD keeps of it; beyond that it is infinite."""
    try:
        near = struct.unpack("<f", struct.pack("<f", value))
        assert struct.unpack("<f", struct.pack("<f", float(scalar_text(value)))) == near
    except OverflowError:
        assert scalar_text(value).endswith("Inf")


def test_lines_keys_duplicates_and_merges() -> None:
    document = parse("a: 1\n1: x\ntrue: z\na: 2\nb: &b {c: 1, d: 2}\ne:\n  <<: *b\n  c: 3\nf: [x,\n  z]\n", "f")
    assert document.data == {
        "a": 2,
        "1": "x",
        "true": "z",
        "b": {"c": 1, "d": 2},
        "e": {"d": 2, "c": 3},
        "f": ["x", "z"],
    }
    assert document.lines[("a",)] == 4
    assert document.lines[("e", "c")] == 8
    assert document.lines[("f", 1)] == 10
    assert document.repeated == (("a",),)


def test_merge_key_in_quotes_is_a_key() -> None:
    assert parse("'<<': {a: 1}\nb: {\"<<\": x}", "f").data == {"<<": {"a": 1}, "b": {"<<": "x"}}


def test_json_has_letters_in_two_halves() -> None:
    text = r'{"a": "\ud83d\ude00 \\ud83d\\ude00 \u00e9"}'
    assert parse(text, "f").data == json.loads(text) == {"a": "\U0001f600 \\ud83d\\ude00 é"}
    with pytest.raises(ConfigError, match="Unicode"):
        parse(f"a: {text}", "f")


def test_what_is_written_twice_is_named_with_its_last_line_and_leaves_none_of_the_first() -> None:
    document = parse("a: {b: [1,\n  {c: 2}]}\na:\n  b: 3\n  <<: {d: 4}\nb: {x: 1, x: 2}\nb: 5\n", "f")
    assert document.data == {"a": {"b": 3, "d": 4}, "b": 5}
    assert document.lines == {(): 1, ("a",): 3, ("a", "b"): 4, ("b",): 7}
    assert document.repeated == (("a",), ("b",))


def test_the_first_document_counts_and_the_others_can_be_had() -> None:
    assert parse("a: 1\n---\n{: broken", "f").data == {"a": 1}
    assert [one.data for one in documents("a: 1\n---\nb: 2\n", "f")] == [{"a": 1}, {"b": 2}]
    assert parse("", "f").data is None
    assert parse("# nothing\n", "f").data is None


@pytest.mark.parametrize(
    "data", ['\ufeff{"a": "é"}'.encode(), '{"a": "é"}'.encode("utf-16"), '{\n\t"a":\t"é"\n}'.encode()]
)
def test_json_and_byte_order_marks(data: bytes) -> None:
    assert parse(data, "f").data == {"a": "é"}


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE: list[tuple[str, str | bytes, str]] = [
    ("deep list", "[" * 100_000, "f:1: not YAML: exceeded maximum nesting depth"),
    ("deep map", "{a: " * 100_000, f"f:1: is nested more than {MAX_DEPTH} levels deep"),
    ("deep block", "".join(" " * n + "a:\n" for n in range(MAX_DEPTH + 1)), "levels deep"),
    ("deep dashes", "- " * 5000 + "x", "levels deep"),
    ("bomb", BOMB, "aliases counted each time"),
    ("merge bomb", BOMB.replace("[", "{k: ").replace(", ", ", k: ").replace("]", "}"), "f:"),
    ("own alias", "a: &a [*a]", "f:1: alias *a has no anchor"),
    ("no anchor", "a: *b", "f:1: alias *b has no anchor"),
    ("tab", "a:\n\tb: 1\n", "f:2: not YAML: a tab indents the line, where YAML has only blanks"),
    ("nul", b"a: \0", "f: not YAML"),
    ("control", "a: \x07", "f: not YAML"),
    ("latin-1", "a: é".encode("latin-1"), "f: is not UTF-8"),
    ("huge", b"#" * (MAX_BYTES + 1), "f: is larger than 1024 KiB"),
    ("many", "[" + "1," * 200_000 + "]", "holds more than 100000 values"),
    ("unclosed", "a: [1", "f:2: not YAML"),
    ("colon", "a: b: c", "f:1: not YAML"),
    ("key", "? [a]\n: 1", "f:1: a key must be text"),
    ("null key", "~: 1", "f:1: a key must be text"),
    ("merge", "<<: 3", "f:1: << must be a mapping"),
    ("directive", "%YAML 9.9\n---\na: 1", "f:"),
]


@pytest.mark.parametrize(
    ("text", "reason"), [(text, reason) for _, text, reason in HOSTILE], ids=[h[0] for h in HOSTILE]
)
def test_hostile_text_is_one_clear_line(text: str | bytes, reason: str) -> None:
    start = time.process_time()
    with pytest.raises(ConfigError) as caught:
        list(documents(text, "f"))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.process_time() - start < 5


@given(st.text(alphabet="ab:-[]{}&*!<>|?%@'\"#,~ \n\t0", max_size=60))
def test_any_text_is_a_value_or_a_config_error(text: str) -> None:
    assert "\n" not in reason_of(text)


@given(st.text(alphabet="ab<:{}[], \n1", max_size=60))
def test_every_line_is_that_of_a_value(text: str) -> None:
    with suppress(ConfigError):
        for document in documents(text, "f"):
            for path in document.lines:
                value = document.data
                for step in path:
                    value = value[step]


def reason_of(text: str) -> str:
    try:
        list(documents(text, "f"))
    except ConfigError as error:
        return str(error)
    return ""
