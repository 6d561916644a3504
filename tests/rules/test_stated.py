"""Keys that several rules set, as `nfd rules validate` reports them from the text alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

import nfd.sources
from nfd.rules.check import remarks_on, validate_text
from nfd.rules.known_features import ATTRIBUTES, KNOWN
from nfd.rules.model import Rule
from nfd.rules.output_keys import stated_by
from nfd.rules.parse import parse_rule
from tests.rules.test_parse import rule_file

HOSTS = Path(__file__).parents[1] / "hosts"
LOSES = "where both hold, rule 'b' overwrites the value of rule 'a' in line"
SAME = "rule 'a' in line 8 sets it to the same value"


def remarks(one: str, other: str) -> list[str]:
    """Of a file in which the rule `a` begins in line 7, and `b` in line 9."""
    text = f"{rule_file('name: a', one)}  - name: b\n    {other}\n"
    assert not validate_text("f", text) or "5" in other
    return remarks_on([("f", text)]).get("f", [])


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("labels: {x: '1'}", "labels: {x: '2'}", f"warning: label 'x': {LOSES} 8"),
        ("labels: {x: '1'}", "labels: {feature.node.kubernetes.io/x: '2'}", f"warning: label 'x': {LOSES} 8"),
        ("labels: {x: '1'}", "labels: {x: '1'}", f"note: label 'x': {SAME}"),
        ("labels: {x: '1'}", "labelsTemplate: 'x={{ len .a }}'", f"warning: label 'x': {LOSES} 8"),
        ("labelsTemplate: 'v.io/x=1'", "labelsTemplate: 'v.io/x=1'", f"note: label 'v.io/x': {SAME}"),
        ("labelsTemplate: 'v.io/x=1'", "labels: {v.io/x: '2'}", f"warning: label 'v.io/x': {LOSES} 8"),
        ("annotations: {x: '1'}", "annotations: {x: '2'}", f"warning: annotation 'x': {LOSES} 8"),
        (
            "extendedResources: {v.io/x: '1'}",
            "extendedResources: {v.io/x: '2'}",
            f"warning: extendedResource 'v.io/x': {LOSES} 8",
        ),
        (
            "taints: [{key: v.io/x, effect: NoExecute}]",
            "taints: [{key: v.io/x, effect: NoExecute, value: '2'}]",
            f"warning: taint 'v.io/x:NoExecute': {LOSES} 8",
        ),
        ("vars: {x: '1'}", "vars: {x: '2'}", f"note: var 'x': {LOSES} 8"),
        ("varsTemplate: 'x=1'", "vars: {x: '2'}", f"note: var 'x': {LOSES} 8"),
        ("labels: {x: '1'}", "annotations: {x: '2'}", None),
        ("labels: {x: '1'}", "labels: {v.io/x: '2'}", None),
        ("taints: [{key: v.io/x, effect: NoExecute}]", "taints: [{key: v.io/x, effect: NoSchedule}]", None),
        ("labels: {x: '1'}", "labels: 5", None),
    ],
)
def test_a_key_of_two_rules(one: str, other: str, expected: str | None) -> None:
    assert remarks(one, other) == ([f"f:10: {expected}"] if expected else [])


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a=1\\nb={{ .x }}\\n", {"a": "1", "b": None}),
        ("{{ range .pci.device }}a={{ .class }}\\n{{ .vendor }}.present=1\\n{{ end }}", {"a": None}),
        ("{{ if .x }}a=1{{ else }}a=2{{ end }}", {"a": None}),
        ("{{ if .x }}a=1\\n{{ else }}a=2\\n{{ end }}", {"a": "2"}),
        ("{{ if .x }}a{{ else }}b{{ end }}=1", {}),
        ("{{ range .x }}a{{ end }}=1", {}),
        ("{{ $x := 1 }}a={{ $x }}", {"a": None}),
        ("a\\n{{- if .x }}b=1{{ end }}", {}),
        ("{{/* a=1 */}}", {}),
        ("{{ define `n` }}a=1{{ end }}{{ template `n` }}", {}),
        ("  a = 1 \\n=2\\nc", {"a ": " 1"}),
        ("{{ `}}` }}a=1\\nb=2", {"b": "2"}),
        ("{{ broken", {}),
    ],
)
def test_keys_that_stand_in_a_template(template: str, expected: dict[str, str | None]) -> None:
    data = {"name": "r", "varsTemplate": template.replace("\\n", "\n")}
    rule = parse_rule(data, Rule).rule
    assert rule is not None
    assert {one.key: one.value for one in stated_by(rule)} == expected


def test_rules_of_several_files_go_by_the_names_of_their_objects() -> None:
    """An object of the same name takes the earlier one's place, so that nothing of it is written over."""
    first, second = rule_file("name: a", "labels: {x: '1'}"), rule_file("name: b", "labels: {x: '2'}")
    other = first.replace("name: x", "name: w")
    assert remarks_on([("f", first), ("g", second)]) == {}
    assert remarks_on([("f", second), ("g", other)]) == {
        "f": ["f:8: warning: label 'x': where both hold, rule 'b' overwrites the value of rule 'a' in g:8"]
    }


def test_what_a_master_does_not_see_overwrites_nothing() -> None:
    seen = rule_file("name: a", "labels: {x: '1'}")
    unseen = rule_file("name: b", "labels: {x: '2'}").replace("name: x", "name: z").replace("v1alpha1", "v1")
    assert remarks_on([("f", f"{seen}---\n{unseen}")]) == {}
    assert remarks_on([("f", f"{seen}---\na: [")]) == {}


def test_groups_have_vars_of_their_own() -> None:
    head = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureGroup\nmetadata: {name: %s, namespace: n}\n"
    rules = "spec:\n  featureGroupRules:\n  - {name: a, vars: {x: '1'}}\n  - {name: b, vars: {x: '2'}}\n"
    one, other = (head % name + rules for name in ("one", "other"))
    assert remarks_on([("f", f"{one}---\n{other}")])["f"] == [
        f"f:{line}: note: var 'x': where both hold, rule 'b' overwrites the value of rule 'a' in line {line - 1}"
        for line in (7, 15)
    ]


def test_features_that_no_source_gives() -> None:
    """In any case of letters, in both lists of terms; what is no feature at all is a mistake."""
    lines = (
        "name: r",
        "matchFeatures: [{feature: pci.devise}, {feature: CPU.Cpuid}, {feature: rule.matched}, {feature: x.thing}]",
        "matchAny:",
        "- matchFeatures: [{feature: kernel.konfig}]",
        "- matchFeatures: [{feature: nodot}]",
    )
    assert remarks_on([("f", rule_file(*lines))])["f"] == [
        "f:8: warning: feature 'pci.devise': no source of nfd provides it; did you mean pci.device?",
        "f:8: warning: feature 'x.thing': no source of nfd provides it",
        "f:10: warning: feature 'kernel.konfig': no source of nfd provides it; did you mean kernel.config?",
    ]
    assert remarks_on([("f", rule_file(*lines))], features=False) == {}


def test_features_that_sources_name_are_known() -> None:
    """Also those that no recorded machine has: every text in a source such as `kernel.lsm`, with its own name."""
    folder = Path(nfd.sources.__file__).parent
    named = set()
    for path in folder.rglob("*.py"):
        source = path.relative_to(folder).parts[0].removesuffix(".py")
        texts = (one.value for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Constant))
        named |= {text for text in texts if isinstance(text, str) and re.fullmatch(rf"{source}\.[a-z_]+", text)}
    assert len(named) > 30
    assert named - KNOWN == set()


def test_what_recorded_machines_have_is_known() -> None:
    """A new feature of a source belongs on the list."""
    files = sorted(HOSTS.glob("*/expected/features.yaml"))
    found = [yaml.safe_load(path.read_text())["features"] for path in files]
    names = {name for features in found for kind in features.values() for name in kind}
    assert len(names) > 20
    assert names <= KNOWN
    for features in found:
        for name, value in features.get("attributes", {}).items():
            assert value.get("elements", {}).keys() <= ATTRIBUTES.get(name, value.get("elements", {}).keys()), name
        for name, value in features.get("instances", {}).items():
            for one in value.get("elements", ()):
                assert one["attributes"].keys() <= ATTRIBUTES.get(name, one["attributes"].keys()), name
