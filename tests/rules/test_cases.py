"""The rule cases: what rules make of a node's features, as NFD gives it (tests/cases/rules/README.md), and rules in
use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli.rules import eval_files

FOLDER = Path(__file__).parents[1] / "cases" / "rules"
SAMPLES = Path(__file__).with_name("samples.yaml")
PARTS = ("labels", "annotations", "extendedResources", "vars")


def load_cases() -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    cases = [case for path in (*sorted(FOLDER.glob("*.yaml")), SAMPLES) for case in yaml.load(path.read_text(), loader)]
    return [pytest.param(case, id=case["name"]) for case in cases]


def as_set(taints: list[dict[str, str]]) -> set[tuple[str, str, str]]:
    return {(taint["key"], taint.get("value") or "", taint["effect"]) for taint in taints}


@pytest.mark.parametrize("case", load_cases())
def test_case(case: dict[str, Any]) -> None:
    expected = case.get("sensible", case["expect"])
    rules = yaml.safe_dump_all(case["rules"], sort_keys=False)
    got = eval_files([rules], yaml.safe_dump(case["features"], sort_keys=False))
    assert {part: got[part] for part in PARTS} == {part: expected.get(part) or {} for part in PARTS}
    assert as_set(got["taints"]) == as_set(expected.get("taints") or [])
    assert sorted(error["rule"] for error in got["errors"]) == sorted(expected.get("errors") or [])
