"""Files that are none, broken ones, pipes, and what the commands say of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nfd.config.load import files, load
from nfd.errors import ConfigError
from nfd.master.config import Config
from tests.cli.test_commands import RULES, Run


def test_a_rule_file_that_is_no_yaml_is_a_failure(run: Run, tmp_path: Path) -> None:
    rules, features = tmp_path / "r.yaml", tmp_path / "f.yaml"
    features.write_text("features: {}")
    rules.write_text(f"{RULES}\n---\na: [")
    status, out, err = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    assert (status, err) == (1, "")
    assert [one["kind"] for one in json.loads(out)["problems"]] == ["ruleFile"]
    rules.write_text(RULES.replace("labels: {ruled: 'yes'}", "labels: 5"))
    status, out, err = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    assert (status, [one["rule"] for one in json.loads(out)["errors"]]) == (1, ["good"])
    features.write_text("a: b: c")
    status, out, err = run("rules", "eval", "--rules", str(rules), "--features", str(features))
    assert (status, out) == (1, "")
    assert err.startswith(f"nfd rules: {features}:1: not YAML")


def test_pipes_and_the_null_device(machine: str, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(RULES)
    nfd = f"'{sys.executable}' -m nfd.cli"
    script = f"""
        {nfd} discover --replay '{machine}' --config /dev/null
        {nfd} discover --replay '{machine}' --config <(echo 'core: {{labelSources: [system]}}') -o json
        {nfd} rules eval --rules <(cat '{tmp_path}/r.yaml') --features <(echo 'features: {{}}')
        cat '{tmp_path}/r.yaml' | {nfd} rules validate /dev/stdin
        {nfd} explain --replay '{machine}' --rules <(cat '{tmp_path}/r.yaml') - ruled
    """
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "regular file" in done.stderr) == (0, False)
    assert "set by rule 'good'" in done.stdout


def test_explain_never_denies_a_source_that_makes_it(run: Run) -> None:
    host = str(Path(__file__).parents[1] / "hosts/notebook")
    for label, source in (("memory-numa", "memory.numa (is_numa=false"), ("nvidia.com/gpu.product", "nvidia.node (")):
        status, out, _ = run("explain", "--replay", host, "-", label)
        assert (status, source in out, "no source" in out) == (0, True, False)
    off = run("explain", "--replay", host, "--sources", "cpu", "-", "memory-numa")[1]
    assert "those of source memory, which core.featureSources disables" in off


def test_nothing_is_left_of_a_recording_that_does_not_fit(tmp_path: Path) -> None:
    machine, target = tmp_path / "machine", tmp_path / "out"
    (machine / "proc").mkdir(parents=True)
    (machine / "proc/modules").write_text("kvm 1\n" * 1000)
    (machine / "proc/swaps").write_text("Filename\n")
    script = f"ulimit -f 1; '{sys.executable}' -m nfd.cli record --replay '{machine}' '{target}'"
    done = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "File too large" in done.stderr) == (2, True)
    assert list(target.iterdir()) == []


def test_a_configuration_that_is_a_folder_without_a_name(run: Run) -> None:
    for path in (".", "..", "/"):
        for words in (("discover", "--config", path), ("config", "validate", path)):
            status, out, err = run(*words)
            assert (status, out, err) == (2, "", f"nfd {words[0]}: {path}: is not a regular file\n")


@pytest.mark.parametrize("text", ["", "[]", "kind: Node", "{kind: Node, metadata: {name: n, labels: [1]}}"])
def test_a_node_file_that_is_no_node(machine: str, tmp_path: Path, text: str) -> None:
    """In a process of its own: `up` sets signals and the log up for good."""
    (tmp_path / "n.yaml").write_text(text)
    words = ["up", "--replay", machine, "--nodes", str(tmp_path), "--oneshot"]
    command, variables = [sys.executable, "-m", "nfd.cli", *words], os.environ | {"NODE_NAME": "n"}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, timeout=60, check=False)
    assert done.returncode == 1
    assert f"nfd up: {tmp_path / 'n.yaml'}: " in done.stderr


TERM = """sources:
  custom:
  - name: r
    labels: {{x: '1'}}
    matchFeatures:
    - feature: a.b
      matchExpressions: {{c: {}}}
"""
BAD_CONFIGS = [
    ("nfd-master.conf", "leaderElection: {leaseDuration: 1s}", "leaderElection: needs leaseDuration > renewDeadline"),
    ("nfd-worker.conf", "core: {ownerRefs: [pod, pod]}", "core.ownerRefs: 'pod' is listed twice"),
    ("nfd-worker.conf", "core: {labelWhiteList: '('}", "is not a regular expression (RE2): missing ): ("),
    ("nfd-worker.conf", "sources: {custom: [{name: r, labels: 5}]}", "rule 'r': labels must be a mapping"),
    (
        "nfd-worker.conf",
        "sources:\n  custom:\n  - labelsTemplate: '{{ range .x }}'",
        ":3: sources.custom: rule '': template:",
    ),
    ("nfd-worker.conf", TERM.format("{op: Foo}"), ":7: sources.custom: rule 'r': invalid operator 'Foo'"),
    (
        "nfd-worker.conf",
        TERM.format("{op: InRegexp, value: ['(']}"),
        ":7: sources.custom: rule 'r': regular expression '('",
    ),
]


@pytest.mark.parametrize(("name", "text", "reason"), BAD_CONFIGS)
def test_config_validate_tells_it_once(run: Run, tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    status, out, _ = run("config", "validate", str(tmp_path / name))
    assert (status, out.count("\n"), reason in out) == (1, 1, True)


def test_times_of_an_election_that_is_off_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("leaderElection: {leaseDuration: 1s}")
    config, _ = load(Config, files(tmp_path / "c"))
    with pytest.raises(ConfigError, match="leaderElection: needs leaseDuration"):
        config.leader_election.check()


@pytest.mark.parametrize(("name", "is_byte"), [("a\ud800b", False), ("a\udcffb", True)])
@pytest.mark.parametrize(
    "record",
    [
        {"environment": {"NODE_NAME": "{}"}},
        {"probes": {"auxv": "{}"}},
        {"probes": {"{}": "x"}},
        {"failures": {"sys/{}": [5, "x"]}},
        {"failures": {"sys/x": [5, "{}"]}},
        {"unreachable": {"sys/{}": [5, "x"]}},
        {"folders": ["sys/class/net/{}"]},
    ],
    ids=json.dumps,
)
def test_a_recording_may_have_what_file_names_have(
    record: dict[str, Any], name: str, is_byte: bool, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "host.json").write_text(json.dumps(record).replace("{}", json.dumps(name)[1:-1]))
    status, out, err = run("discover", "--replay", str(tmp_path), "-o", "features")
    if is_byte:
        assert status in (0, 1), err
        out.encode()
    else:
        assert (status, out) == (2, "")
        assert f"{tmp_path}/host.json: is not Unicode: lone surrogate '\\ud800'" in err
