"""Cases that users reported about rules: what their README calls right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import MACHINE, make
from tests.cli.test_commands import Run

CASES = Path(__file__).parents[1] / "cases/reports"
F = "feature.node.kubernetes.io/"


def evaluated(run: Run, case: str, rules: str = "rules.yaml") -> tuple[int, dict[str, Any]]:
    folder = CASES / case
    words = ("--rules", str(folder / rules), "--features", str(folder / "features.yaml"), "-o", "json")
    status, out, err = run("rules", "eval", *words)
    assert err == ""
    return status, json.loads(out)


def test_a_rule_of_another_group_gives_nothing_and_says_why(run: Run) -> None:
    """In `eval` and in every other command that takes rules."""
    case, rules = "159-rule-of-another-api-group", CASES / "159-rule-of-another-api-group/rule.yaml"
    why = (
        "apiVersion must be nfd.k8s-sigs.io/v1alpha1; "
        "a master never sees objects of group 'nfd.openshift.io', change it"
    )
    status, found = evaluated(run, case, "rule.yaml")
    assert (status, found["labels"]) == (1, {})
    assert found["errors"] == [{"rule": "amd-gpu-feature-rule", "reason": why}]
    assert found["problems"] == [{"kind": "rules", "key": "", "reason": f"line 1: {why}"}]
    assert run("rules", "validate", str(rules))[:2] == (1, f"{rules}:1: {why}\n")
    features = str(CASES / case / "features.yaml")
    for words in (
        ("dryrun", "-f", str(rules), "-n", features),
        ("test", "-f", str(rules), "-n", "some-node"),
        ("plan", "--rules", str(rules), "--replay", "nowhere"),
        ("explain", "--rules", str(rules), "-", "amd-gpu"),
    ):
        status, out, err = run(*words)
        assert (words[0], status, out) == (words[0], 2, "")
        assert f"{rules}:1: {why}" in err


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("apiVersion: nfd.k8s-sigs.io/v1beta1\nkind: NodeFeatureRule", "apiVersion must be nfd.k8s-sigs.io/v1alpha1"),
        ("apiVersion: v1\nkind: NodeFeatureGroup", "apiVersion must be nfd.k8s-sigs.io/v1alpha1"),
        ("kind: NodeFeatureRule", "apiVersion must be nfd.k8s-sigs.io/v1alpha1"),
        ("apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRules", "kind 'NodeFeatureRules' is neither"),
        ("apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeature", "kind 'NodeFeature' is neither"),
        ("apiVersion: nfd.k8s-sigs.io/v1alpha1", "kind None is neither"),
    ],
)
def test_what_a_master_never_sees_gives_nothing_beside_rules_that_it_sees(
    run: Run, tmp_path: Path, head: str, reason: str
) -> None:
    good = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {name: good}\n"
    features, rules = tmp_path / "features.yaml", tmp_path / "rules.yaml"
    features.write_text("features: {}")
    rules.write_text(
        f"{good}spec: {{rules: [{{name: g, labels: {{g: '1'}}}}]}}\n---\n{head}\nmetadata: {{name: bad}}\n"
        "spec: {rules: [{name: b, labels: {b: '1'}}], featureGroupRules: [{name: b}]}\n"
    )
    status, out, _ = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    found = json.loads(out)
    assert (status, found["labels"], found["groups"]) == (1, {f"{F}g": "1"}, [])
    assert [(one["rule"], reason in one["reason"]) for one in found["errors"]] == [("bad", True)]
    assert reason in run("rules", "validate", str(rules))[1]
    for words in (
        ("dryrun", "-f", str(rules), "-n", str(features)),
        ("test", "-f", str(rules), "-n", "some-node"),
        ("plan", "--rules", str(rules), "--replay", "nowhere"),
    ):
        status, out, err = run(*words)
        assert (words[0], status, out, reason in err) == (words[0], 2, "", True)


def test_a_reference_in_an_annotation_is_looked_up(run: Run) -> None:
    status, found = evaluated(run, "165-annotation-reference")
    assert status == 0
    assert found["annotations"] == {f"{F}asset": "Super Server (X1)"}
    left_out = {one["key"]: one["reason"] for one in found["problems"]}
    assert "no such attribute" in left_out[f"{F}missing"]


OLD, NEW = "rule 'count-arc'", "rule 'count-flex'"


def test_two_rules_of_one_label_are_both_named(run: Run) -> None:
    """Although a template makes the label: by `eval`, `validate`, and the commands that NFD has."""
    case, key = "158-two-rules-one-label", "gpu.example.com/device.count"
    status, found = evaluated(run, case)
    assert (status, found["labels"]) == (0, {key: "1"})
    why = f"{NEW} writes '1' over '2', which {OLD} gives"
    assert found["problems"] == [{"kind": "label", "key": key, "reason": why}]
    rules, features = (str(CASES / case / name) for name in ("rules.yaml", "features.yaml"))
    remark = f"{rules}:10: warning: label '{key}': where both hold, {NEW} overwrites the value of {OLD} in line 7\n"
    assert run("rules", "validate", rules) == (0, f"{remark}2 rules, ok\n", "")
    status, out, err = run("validate", "-f", rules)
    assert (status, out.endswith("is valid\n"), err) == (0, True, remark)
    status, out, err = run("dryrun", "-f", rules, "-n", features)
    assert (status, f"{key}=1\n" in out, err) == (0, True, f"warning: label '{key}': {why}\n")


def test_explain_names_all_rules_that_give_a_label(run: Run, tmp_path: Path) -> None:
    case, key = "158-two-rules-one-label", "gpu.example.com/device.count"
    devices = {f"0000:0{n}:00.0": device for n, device in enumerate(("56a0", "e20b", "56a1"), start=1)}
    parts = {"class": "0x030000", "vendor": "0x8086", "subsystem_vendor": "0x0001", "subsystem_device": "0x0002"}
    files = {
        f"sys/bus/pci/devices/{address}/{name}": f"{text}\n"
        for address, device in devices.items()
        for name, text in {**parts, "device": f"0x{device}"}.items()
    }
    machine = make(tmp_path / "machine", {**MACHINE, **files})
    rules = str(CASES / case / "rules.yaml")
    status, out, err = run("explain", "--replay", str(machine), "--rules", rules, "-", key)
    assert (status, err) == (0, "")
    assert [line.strip() for line in out.splitlines() if "rule" in line] == [
        "set by rule 'count-flex'",
        "rule 'count-arc' sets it to '2', and is overridden",
    ]


def test_plan_warns_of_values_that_are_lost(run: Run, machine: str, tmp_path: Path) -> None:
    """Those that concern the new rules, with the number of nodes; not what two present rules do."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    head = "apiVersion: nfd.k8s-sigs.io/v1alpha1\nkind: NodeFeatureRule\nmetadata: {{name: {}}}\nspec:\n  rules:\n"
    old.write_text(head.format("old") + "  - {name: a, labels: {x: '1', y: '1'}}\n  - {name: b, labels: {y: '2'}}\n")
    new.write_text(head.format("new") + "  - {name: c, labels: {x: '1', z: '1'}}\n")
    words = ("plan", "--replay", machine, "--current-rules", str(old), "--rules", str(new), "-o", "json")
    assert json.loads(run(*words)[1])["warnings"] == []
    new.write_text(head.format("new") + "  - {name: c, labels: {x: '2', pci-10de.present: 'no'}}\n")
    later = "rule 'c' of NodeFeatureRule new"
    assert json.loads(run(*words)[1])["warnings"] == [
        f"label {F}pci-10de.present: {later} overwrites the value of source pci, on 1 node",
        f"label {F}x: rule 'a' of NodeFeatureRule old overwrites the value of {later}, on 1 node",
    ]
