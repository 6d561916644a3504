"""Why a NodeFeature's label is not on its node, as far as the object and the master's defaults tell."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.cli.explain.cluster import Found, lines_of

NODE = {"metadata": {"name": "n", "labels": {"example.com/there": "1"}}}


def told(labels: Any, key: str) -> list[str]:
    item = {"metadata": {"namespace": "team", "name": "o"}, "spec": {"labels": labels}}
    value, lines = lines_of(Found(NODE, (), (item,)), "n", key)
    assert (value is None) is (key != "example.com/there")
    return lines


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("kubernetes.io/bad", "yes", "namespace 'kubernetes.io' is not allowed"),
        ("example.com/long", "x" * 64, "is 64 characters long, at most 63"),
        ("example.com/odd", "a b", "value 'a b' "),
        ("a/b/c", "1", "key "),
        ("example.com/number", 5, "the object is invalid: spec.labels: "),
        ("example.com/fine", "yes", "nodeFeatureNamespaceSelector may exclude namespace team"),
    ],
)
def test_a_missing_label(key: str, value: Any, reason: str) -> None:
    (line,) = told({key: value}, key)
    assert line.startswith(f"NodeFeature team/o sets it to {value!r}; ")
    assert reason in line


def test_a_label_that_is_there_has_no_refusal() -> None:
    assert told({"example.com/there": "1"}, "example.com/there")[-1] == "NodeFeature team/o sets it to '1'"


def test_who_asks_for_nothing_is_sent_to_the_sources() -> None:
    assert told({}, "x/y")[-1].startswith("for its sources and features, run on n")
