"""Definitions that keep less than the rule language has: which fields are named, and by which schema."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import yaml

from nfd.master.rules.definitions import SHAPES, dropped_fields
from nfd.rules.parse import GROUP, RULE
from tests.master.custom_resources import ROOT

Json = dict[str, Any]
FILES = {RULE: "nodefeaturerules", GROUP: "nodefeaturegroups"}


def schema_of(kind: str) -> Json:
    definition = yaml.safe_load((ROOT / f"deploy/crds/{FILES[kind]}.yaml").read_text())
    found: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_our_own_definitions_keep_all(kind: str) -> None:
    assert list(dropped_fields(schema_of(kind), SHAPES[kind])) == []


def rule_of(schema: Json) -> Json:
    found: Json = schema["properties"]["spec"]["properties"]["rules"]["items"]["properties"]
    return found


def without_type(schema: Json) -> None:
    del rule_of(schema)["matchFeatures"]["items"]["properties"]["matchExpressions"]["additionalProperties"][
        "properties"
    ]["type"]


def without_templates(schema: Json) -> None:
    for name in ("labelsTemplate", "varsTemplate"):
        del rule_of(schema)[name]


def without_match_any_inside(schema: Json) -> None:
    del rule_of(schema)["matchAny"]["items"]["properties"]


def without_values(schema: Json) -> None:
    del rule_of(schema)["labels"]["additionalProperties"]


def without_status(schema: Json) -> None:
    del schema["properties"]["status"]


def with_status_of_counts(schema: Json) -> None:
    del schema["properties"]["status"]["properties"]["rules"]["items"]["properties"]["problems"]


def with_any_field(schema: Json) -> None:
    without_templates(schema)
    schema["properties"]["spec"]["properties"]["rules"]["items"]["x-kubernetes-preserve-unknown-fields"] = True
    without_type(schema)


def with_any_spec(schema: Json) -> None:
    schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def with_true(schema: Json) -> None:
    rule_of(schema)["matchFeatures"]["items"]["properties"]["matchExpressions"]["additionalProperties"] = True


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without_type, ["spec.rules[].matchFeatures[].matchExpressions{}.type"]),
        (without_templates, ["spec.rules[].varsTemplate", "spec.rules[].labelsTemplate"]),
        (without_match_any_inside, ["spec.rules[].matchAny[].matchFeatures"]),
        (without_values, ["spec.rules[].labels{}"]),
        (without_status, ["status"]),
        (with_status_of_counts, ["status.rules[].problems"]),
        (with_any_field, ["spec.rules[].matchFeatures[].matchExpressions{}.type"]),
        (with_any_spec, []),
        (with_true, []),
    ],
)
def test_what_a_definition_drops(change: Callable[[Json], None], expected: list[str]) -> None:
    """What is inside of a field that is not there is not named again; unknown fields may be kept on purpose."""
    schema = deepcopy(schema_of(RULE))
    change(schema)
    assert list(dropped_fields(schema, SHAPES[RULE])) == expected


def test_groups_have_a_part_of_the_language() -> None:
    schema = schema_of(GROUP)
    rule = schema["properties"]["spec"]["properties"]["featureGroupRules"]["items"]["properties"]
    del rule["vars"]
    assert list(dropped_fields(schema, SHAPES[GROUP])) == ["spec.featureGroupRules[].vars"]
