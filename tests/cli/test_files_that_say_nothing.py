"""Files in which there is nothing of what a command reads them for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_commands import RULES, Run

NO_RULES = (
    "",
    "# later\n",
    "---\n",
    "{apiVersion: nfd.k8s-sigs.io/v1alpha1, kind: NodeFeatureRule, metadata: {name: none}, spec: {rules: []}}",
)


@pytest.mark.parametrize("text", NO_RULES)
def test_a_file_without_a_rule_is_valid_and_said_to_be_one(run: Run, tmp_path: Path, text: str) -> None:
    rules, features = tmp_path / "r.yaml", tmp_path / "f.yaml"
    rules.write_text(text)
    features.write_text("features: {}")
    for words in (
        ("rules", "validate", str(rules)),
        ("validate", "-f", str(rules)),
        ("dryrun", "-f", str(rules), "-n", str(features)),
    ):
        status, _, err = run(*words)
        assert (status, err) == (0, f"{rules}: has no rules\n"), words


def test_of_a_file_with_rules_nothing_of_the_kind_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RULES)
    (tmp_path / "bad.yaml").write_text("kind: NodeFeatureRule")
    assert run("rules", "validate", str(tmp_path / "r.yaml"))[::2] == (0, "")
    status, out, err = run("rules", "validate", str(tmp_path / "bad.yaml"))
    assert (status, bool(out), err) == (1, True, "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RULES, "kind is 'NodeFeatureRule', expected NodeFeature"),
        ("{kind: Node, metadata: {name: n}, spec: {}}", "kind is 'Node', expected NodeFeature"),
        ("{kind: [1], features: {}}", "expected NodeFeature"),
        ("[]", "expected a mapping with features"),
    ],
)
def test_a_file_of_something_else_is_no_file_of_features(run: Run, tmp_path: Path, text: str, reason: str) -> None:
    rules, features = tmp_path / "r.yaml", tmp_path / "f.yaml"
    rules.write_text(RULES)
    features.write_text(text)
    status, out, err = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    assert (status, out, f"nfd rules: {features}: " in err, reason in err) == (1, "", True, True)
    status, out, err = run("dryrun", "-f", str(rules), "-n", str(features))
    assert (status, out, reason in err) == (2, "", True)


def test_keys_that_no_features_have_are_named(run: Run, tmp_path: Path) -> None:
    rules, features = tmp_path / "r.yaml", tmp_path / "f.yaml"
    rules.write_text(RULES)
    features.write_text("flags: {a.b: {elements: {}}}")
    status, out, err = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    assert (status, "unknown key 'flags'" in out, err) == (0, True, "")
    assert run("dryrun", "-f", str(rules), "-n", str(features))[2] == f"{features}: line 1: unknown key 'flags'\n"
