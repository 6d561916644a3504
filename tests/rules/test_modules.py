"""Names of kernel modules match in either spelling, whichever the kernel or a file of it has."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.features import Features
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_custom
from nfd.rules.parse import parse_custom

FEATURES = ("kernel.loadedmodule", "kernel.enabledmodule", "Kernel.LoadedModule")


def holds(term: dict[str, Any], names: tuple[str, ...], feature: str) -> bool:
    rule = {"name": "r", "labels": {"x": "1"}, "matchFeatures": [{"feature": feature, **term}]}
    features = Features(flags={feature.lower(): frozenset(names), "other.flags": frozenset(names)})
    given = run_custom([compile_rule(one) for one in parse_custom((rule,))], features)
    assert not given.errors
    return "x" in given.labels


def expression(name: str, op: str) -> dict[str, Any]:
    return {"matchExpressions": {name: {"op": op}}}


def name(op: str, *values: str) -> dict[str, Any]:
    return {"matchName": {"op": op, "value": [*values]}}


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize(
    "there", [("i2c_dev", "snd_hda_intel"), ("i2c-dev", "snd-hda-intel"), ("i2c-dev", "snd_hda-intel")]
)
@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        *((expression(one, "Exists"), True) for one in ("i2c_dev", "i2c-dev", "snd-hda_intel")),
        *((expression(one, "DoesNotExist"), False) for one in ("i2c_dev", "i2c-dev", "snd_hda-intel")),
        (expression("i2cdev", "Exists"), False),
        (expression("i2cdev", "DoesNotExist"), True),
        *((name("In", one), True) for one in ("i2c_dev", "i2c-dev", "snd_hda-intel")),
        (name("In", "8021q"), False),
        (name("NotIn", "i2c-dev", "snd-hda-intel"), False),
        (name("NotIn", "i2c_dev", "snd-hda_intel"), False),
        (name("NotIn", "i2c_dev"), True),
        (name("InRegexp", "^i2c-"), True),
        (name("InRegexp", "^i2c_"), True),
        (name("InRegexp", "^i2cdev"), False),
    ],
)
def test_either_spelling_matches(term: dict[str, Any], wanted: bool, there: tuple[str, ...], feature: str) -> None:
    assert holds(term, there, feature) == wanted


def test_other_names_are_as_they_are_written() -> None:
    assert not holds(expression("i2c-dev", "Exists"), ("i2c_dev",), "other.flags")
    assert not holds(name("In", "i2c-dev"), ("i2c_dev",), "other.flags")


def test_what_matched_is_named_as_the_feature_has_it() -> None:
    template = "{{range .kernel.loadedmodule}}{{.Name}}=1{{end}}"
    rule = {
        "name": "r",
        "labelsTemplate": template,
        "matchFeatures": [{"feature": "kernel.loadedmodule", "matchName": {"op": "In", "value": ["i2c_dev"]}}],
    }
    features = Features(flags={"kernel.loadedmodule": frozenset({"i2c-dev"})})
    given = run_custom([compile_rule(one) for one in parse_custom((rule,))], features)
    assert dict(given.labels) == {"i2c-dev": "1"}
