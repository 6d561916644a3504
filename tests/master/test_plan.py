"""Planning one kind of keys, as a table."""

from __future__ import annotations

import pytest

from nfd.master.node.plan import Change, plan

ROWS = {
    "new": ({"a": "1"}, {}, {}, Change(write={"a": "1"})),
    "same": ({"a": "1"}, {"a"}, {"a": "1"}, Change()),
    "changed": ({"a": "2"}, {"a"}, {"a": "1"}, Change(write={"a": "2"})),
    "gone": ({}, {"a"}, {"a": "1"}, Change(remove=frozenset({"a"}))),
    "gone already": ({}, {"a"}, {}, Change()),
    "not ours": ({}, set(), {"a": "1"}, Change()),
    "foreign, same value": ({"a": "1"}, set(), {"a": "1"}, Change()),
    "foreign, other value": ({"a": "2"}, set(), {"a": "1"}, Change(refused=frozenset({"a"}))),
    "removed by somebody": ({"a": "1"}, {"a"}, {}, Change(write={"a": "1"})),
    "empty value": ({"a": ""}, {"a"}, {"a": "1"}, Change(write={"a": ""})),
}


@pytest.mark.parametrize("row", ROWS)
def test_without_overwrite(row: str) -> None:
    desired, owned, actual, expected = ROWS[row]
    assert plan(desired, owned, actual, overwrite=False) == expected


def test_overwrite_takes_foreign_keys_over() -> None:
    assert plan({"a": "2"}, set(), {"a": "1"}, overwrite=True) == Change(write={"a": "2"})


@pytest.mark.parametrize("value", ["1", "2"])
def test_shared_key_of_somebody_else_is_theirs_whatever_it_says(value: str) -> None:
    change = plan({"a": value}, set(), {"a": "1"}, overwrite=True, shared={"a"})
    assert change == Change(refused=frozenset({"a"}))


@pytest.mark.parametrize(("owned", "actual"), [(set(), {}), ({"a"}, {"a": "1"})])
def test_shared_key_that_is_absent_or_ours_is_written(owned: set[str], actual: dict[str, str]) -> None:
    assert plan({"a": "2"}, owned, actual, overwrite=True, shared={"a"}).write == {"a": "2"}


def test_held_keys_are_neither_written_nor_removed() -> None:
    change = plan({"a": "2"}, {"a", "b"}, {"a": "1", "b": "1"}, overwrite=True, kept={"a", "b", "c"})
    assert change == Change(kept=frozenset({"a", "b"}))
