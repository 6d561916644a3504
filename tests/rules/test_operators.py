"""Every operator on values that are there, missing, or flags, and with mistakes in the rule."""

from __future__ import annotations

import time

import pytest

from nfd.errors import RuleError
from nfd.rules.operators import OPERATORS, compile_matcher

ERROR = "error"
VALUED = ("In", "NotIn", "InRegexp", "IsTrue", "IsFalse", "Gt", "Ge", "Lt", "Le", "GtLt", "GeLe")


def judged(op: str, values: tuple[str, ...], text: str | None, kind: str = "") -> bool | str:
    try:
        return compile_matcher(op, values, kind).holds(text)
    except RuleError:
        return ERROR


def judged_flag(op: str, values: tuple[str, ...], present: bool) -> bool | str:
    try:
        return compile_matcher(op, values).holds_for_flag(present)
    except RuleError:
        return ERROR


@pytest.mark.parametrize(
    ("op", "values", "text", "expected"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), "A", False),
        ("In", ("a",), None, False),
        ("In", (), "a", ERROR),
        ("In", (), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a", "b"), "b", False),
        ("NotIn", ("a",), None, False),
        ("NotIn", (), "a", ERROR),
        ("InRegexp", ("^a", "z$"), "xyz", True),
        ("InRegexp", ("b",), "abc", True),
        ("InRegexp", ("^b$",), "b\n", False),
        ("InRegexp", ("B",), "b", False),
        ("InRegexp", ("a", "("), "a", ERROR),
        ("InRegexp", ("(",), None, False),
        ("InRegexp", (r"\d",), "٣", False),
        ("InRegexp", (r"(?=a)",), "a", ERROR),
        ("InRegexp", (r"a\C",), "ab", ERROR),
        ("InRegexp", (r"\\C|\QD\C\E",), r"D\C", True),
        ("InRegexp", ("é.",), "xéy", True),
        ("InRegexp", ("\x00",), "a\x00b", True),
        ("InRegexp", ("",), "", True),
        ("InRegexp", (), "a", ERROR),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("Exists", ("a",), "a", ERROR),
        ("Exists", ("a",), None, ERROR),
        ("DoesNotExist", (), "", False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", ("a",), None, ERROR),
        ("DoesNotExist", ("a",), "a", ERROR),
        ("Gt", ("1",), "2", True),
        ("Gt", ("2",), "2", False),
        ("Gt", ("-3",), "-2", True),
        ("Gt", ("007",), "+8", True),
        ("Gt", ("1",), "9223372036854775807", True),
        ("Gt", ("1",), "9223372036854775808", ERROR),
        ("Gt", ("-9223372036854775808",), "-9223372036854775809", ERROR),
        *(("Gt", ("1",), text, ERROR) for text in ("", " 2", "2 ", "2.0", "0x2", "1e3", "1_0", "٣", "--2", "2\n")),
        ("Gt", ("1",), "9" * 5_000, ERROR),
        ("Gt", ("x",), "1", ERROR),
        ("Gt", ("x",), None, False),
        ("Gt", (), "1", ERROR),
        ("Gt", ("1", "2"), "1", ERROR),
        ("Ge", ("2",), "2", True),
        ("Ge", ("2",), "1", False),
        ("Lt", ("2",), "1", True),
        ("Lt", ("2",), "2", False),
        ("Le", ("2",), "2", True),
        ("Le", ("2",), "3", False),
        ("GtLt", ("1", "3"), "2", True),
        ("GtLt", ("1", "3"), "1", False),
        ("GtLt", ("1", "3"), "3", False),
        ("GtLt", ("3", "1"), "2", ERROR),
        ("GtLt", ("3", "3"), "3", ERROR),
        ("GtLt", ("1",), "3", ERROR),
        ("GtLt", ("1",), None, False),
        ("GeLe", ("1", "3"), "1", True),
        ("GeLe", ("1", "3"), "3", True),
        ("GeLe", ("1", "3"), "4", False),
        ("GeLe", ("3", "3"), "3", True),
        ("GeLe", ("3", "1"), "2", ERROR),
        ("IsTrue", (), "true", True),
        ("IsTrue", (), "True", False),
        ("IsTrue", (), None, False),
        ("IsTrue", ("true",), "true", ERROR),
        ("IsTrue", ("true",), None, False),
        ("IsFalse", (), "false", True),
        ("IsFalse", (), "", False),
        ("IsFalse", (), None, False),
        ("", (), "x", True),
        ("", (), None, True),
        ("", ("x",), None, ERROR),
        ("Nope", (), "x", ERROR),
        ("Nope", (), None, ERROR),
        ("in", ("x",), "x", ERROR),
    ],
)
def test_values(op: str, values: tuple[str, ...], text: str | None, expected: bool | str) -> None:
    assert judged(op, values, text) == expected


@pytest.mark.parametrize(
    ("op", "values", "present", "expected"),
    [
        ("Exists", (), True, True),
        ("Exists", (), False, False),
        ("Exists", ("x",), True, ERROR),
        ("DoesNotExist", (), False, True),
        ("DoesNotExist", (), True, False),
        ("DoesNotExist", ("x",), False, ERROR),
        ("", (), False, True),
        ("Nope", (), True, ERROR),
        *(
            (op, values, True, False)
            for op in ("In", "NotIn", "InRegexp", "IsTrue", "IsFalse")
            for values in ((), ("(",))
        ),
        *((op, values, True, False) for op in VALUED for values in ((), ("(",), ("zz", "1"))),
    ],
)
def test_flags_have_no_value(op: str, values: tuple[str, ...], present: bool, expected: bool | str) -> None:
    assert judged_flag(op, values, present) == expected


@pytest.mark.parametrize(
    ("op", "values", "text", "expected"),
    [
        ("Gt", ("1.9",), "1.10", True),
        ("Ge", ("5.4",), "5.4.0-42-generic", True),
        ("Le", ("5.4",), "5.4.0-42-generic", True),
        ("Ge", ("22.4",), "22.04", True),
        ("Gt", ("1.2.3",), "1.2.3-rc1", False),
        ("Ge", ("v5",), "v5.0.1", True),
        ("Ge", ("5.14",), "5.14.0-427.13.1.el9_4.x86_64", True),
        ("Ge", ("5.10",), "5.10.0+", True),
        ("Ge", ("5.4",), "5.4.0-042", True),
        ("GtLt", ("1", "2"), "1.5", True),
        ("GtLt", ("2", "1"), "1.5", False),
        ("GeLe", ("1.2", "1.2"), "1.2.0", True),
        ("GeLe", ("2", "1"), "1.5", False),
        ("Gt", ("1",), "18446744073709551615", True),
        *(("Gt", ("1",), text, ERROR) for text in ("V1.2", " 1.2", "1.", "1.2.3.4", "-1", "", "5.10_x", "1..2", "x")),
        ("Gt", ("1",), "18446744073709551616", ERROR),
        ("Gt", ("1",), "1" * 5_000, ERROR),
        ("In", ("1.2",), "1.2.0", False),
    ],
)
def test_versions(op: str, values: tuple[str, ...], text: str, expected: bool | str) -> None:
    assert judged(op, values, text, "version") == expected


def test_unknown_type_matters_to_comparisons_only() -> None:
    assert judged("Gt", ("1",), "2", "float") == ERROR
    assert judged("Gt", ("1",), None, "float") is False
    assert judged("In", ("1",), "1", "float") is True


@pytest.mark.parametrize("op", OPERATORS)
def test_odd_values_are_clean_errors_at_most(op: str) -> None:
    for values in ((), ("\udc80",), ("\ud800", "\x00"), ("9" * 10_000,), ("(" * 5_000,), ("a{1000}{1000}", "1")):
        for text in (None, "", "\udc80", "\x00", "9" * 10_000, "v" + "1" * 10_000):
            judged(op, values, text)
            judged(op, values, text, "version")


def test_hostile_patterns_take_no_time() -> None:
    begin = time.process_time()
    assert judged("InRegexp", ("(a+)+$", "(a|aa)*c", "^(([a-z])+.)+[A-Z]([a-z])+$"), "a" * 50_000 + "b") is False
    assert judged("InRegexp", ("(x+x+)+y",), "x" * 50_000) is False
    assert judged("InRegexp", ("((a{1,100}){1,100}){1,100}",), "a") == ERROR
    assert time.process_time() - begin < 2
