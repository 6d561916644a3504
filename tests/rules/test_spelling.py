"""Keys of the worker's rules count in any case, as in NFD."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.features import Features
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_custom
from nfd.rules.parse import parse_custom

FEATURES = Features(flags={"f.flags": frozenset("ab")}, attributes={"f.attributes": {"x": "1"}})
NAMED = {"feature": "f.flags", "matchname": {"OP": "In", "Value": "a"}}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"Name": "r", "LABELS": {"L": "1"}}, {"L": "1"}),
        ({"labels": {"L": "1"}, "matchfeatures": [{"Feature": "f.attributes", "MatchExpressions": ["z"]}]}, {}),
        ({"labels": {"L": "1"}, "matchFeatures": [{"feature": "f.attributes", "matchexpressions": {"X": None}}]}, {}),
        (
            {"labels": {"L": "1"}, "MatchAny": [{"MATCHFEATURES": [NAMED]}]},
            {"L": "1"},
        ),
        ({"labels": {"l": "1"}, "Labels": {"L": "1"}}, {"l": "1"}),
    ],
)
def test_keys_of_worker_rules_in_any_case(rule: Any, expected: dict[str, str]) -> None:
    before = repr(rule)
    wanted = run_custom(map(compile_rule, parse_custom([rule])), FEATURES)
    assert (wanted.labels, wanted.errors) == (expected, [])
    assert repr(rule) == before
