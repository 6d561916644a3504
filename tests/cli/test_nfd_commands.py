"""NFD's own commands: `export`, and `validate`, `test`, `dryrun` of its plug-in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.cli import main
from nfd.master.rules.nodefeatures import NODE_NAME
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.place import DEPLOY
from tests.master.custom_resources import API

Run = Callable[..., tuple[int, str, str]]
F = "feature.node.kubernetes.io/"

RULES = """apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: b}
spec:
  rules:
    - name: all of it
      labels: {zone: "@custom.place.zone", vendor.example/own: "1", other.kubernetes.io/x: "1"}
      annotations: {note: text}
      extendedResources: {vendor.example/slots: "4"}
      taints:
        - {key: vendor.example/only, value: gpu, effect: NoSchedule}
        - {key: bare, effect: NoExecute}
      matchFeatures: [{feature: custom.place, matchExpressions: {zone: {op: Exists}}}]
    - name: after it
      labels: {later: "true"}
      matchFeatures: [{feature: rule.matched, matchExpressions: {vendor.example/own: {op: IsFalse}}}]
---
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: a}
spec:
  rules:
    - name: first
      labels: {first: "true"}
---
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureGroup
metadata: {name: g, namespace: x}
spec:
  featureGroupRules:
    - name: in
      vars: {size: "1"}
    - name: out
      matchFeatures: [{feature: no.such}]
"""
FEATURES = "features: {attributes: {custom.place: {elements: {zone: north}}}}\n"
SECTIONS = f"""Processing rule:  first
Processing rule:  all of it
Processing rule:  after it
***\tTaints\t***
bare:NoExecute
vendor.example/only=gpu:NoSchedule
\t-Validation errors-
taint 'bare': key 'bare' has no namespace
***\tLabels\t***
{F}first=true
{F}zone=north
other.kubernetes.io/x=1
vendor.example/own=1
\t-Validation errors-
label 'other.kubernetes.io/x': namespace 'other.kubernetes.io' is not allowed
***\tExtended Resources\t***
vendor.example/slots=4
***\tAnnotations\t***
{F}note=text
Processing rule:  in
Rule "in" matched
***\tVars\t***
size=1
Processing rule:  out
Rule "out" did not match
"""


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "features.yaml").write_text(FEATURES)


def test_dryrun_tells_what_rules_ask_for(run: Run) -> None:
    """All documents, names prefixed, in a stable order; what the master refuses is told and fails nothing."""
    words = 'NodeFeatureRule "rules.yaml"'
    head = f'Evaluating {words} against NodeFeature "features.yaml"\n'
    verdict = f'{words} is valid for NodeFeature "features.yaml"\n'
    assert run("dryrun", "-f", "rules.yaml", "-n", "features.yaml") == (0, head + SECTIONS + verdict, "")


FAILING = [
    ("labels: {a: '@x.y.z'}", "failed to get dynamic value for label 'feature.node.kubernetes.io/a': reference"),
    ("matchFeatures: [{feature: custom.place, matchExpressions: {zone: {op: Gt, value: ['1']}}}]", "'bad': "),
    ("labelsTemplate: 'x'", "failed to process rule 'bad': template: output line 'x'"),
    ("labels: []", "failed to process rule 'bad': labels must be a mapping"),
]


@pytest.mark.parametrize(("rule", "said"), FAILING)
def test_a_rule_that_fails(run: Run, tmp_path: Path, rule: str, said: str) -> None:
    """Exit status 1; the rules beside it are evaluated."""
    good = "    - {name: good, labels: {good: '1'}}\n"
    matching = "" if "matchFeatures" in rule else ", matchFeatures: [{feature: custom.place}]"
    rules = RULES.partition("  rules:\n")[0] + f"  rules:\n    - {{name: bad, {rule}{matching}}}\n{good}"
    (tmp_path / "rules.yaml").write_text(rules)
    status, out, err = run("dryrun", "--nodefeaturerule-file", "rules.yaml", "--nodefeature-file", "features.yaml")
    assert (status, said in err, err.count("\n")) == (1, True, 1), err
    assert f"{F}good=1\n" in out
    assert out.endswith('NodeFeatureRule "rules.yaml" is not valid for NodeFeature "features.yaml"\n')


USAGE = [
    (("dryrun", "-f", "rules.yaml"), "--nodefeature-file"),
    (("dryrun", "-f", "none", "-n", "features.yaml"), "none: No such file"),
    (("dryrun", "-f", "features.yaml", "-n", "features.yaml"), "features.yaml:1: kind None is neither"),
    (("dryrun", "-f", "rules.yaml", "-n", "rules.yaml"), "rules.yaml: expected one document"),
    (("test", "-f", "rules.yaml"), "--nodename"),
    (("validate",), "--nodefeaturerule-file"),
    (("export", "x"), "'x'"),
    (("export", "labels", "--replay", "/nowhere"), "--replay /nowhere"),
    (("compat", "validate-node"), "--image"),
    (("compat", "validate-node", "--image=x"), "--image 'x' is not of the form"),
    (("compat", "validate-node", "--image=h/x", "--platform=a/b/c/d"), "--platform 'a/b/c/d' is not of the form"),
    (("compat", "validate-node", "--image=h/x", "--registry-password-stdin"), "needs --registry-username"),
    (
        ("compat", "validate-node", "--image=h/x", "--registry-password-stdin", "--registry-token-stdin"),
        "not allowed with argument",
    ),
]


@pytest.mark.parametrize(("words", "said"), USAGE, ids=lambda value: " ".join(value[:2]) if value[0] else "")
def test_usage(run: Run, words: tuple[str, ...], said: str) -> None:
    status, out, err = run(*words)
    assert (status, out, err.count("\n"), said in err) == (2, "", 1, True), err


def test_an_object_that_is_none_is_told_with_its_line(run: Run, tmp_path: Path) -> None:
    """Not the broken rule before it."""
    broken = RULES.replace('labels: {first: "true"}', "labels: []")
    odd = broken + "---\nkind: Node\n"
    for text, said in ((odd, f"rules.yaml:{len(odd.splitlines())}: kind 'Node'"), (broken + "a: [", "rules.yaml:3")):
        (tmp_path / "rules.yaml").write_text(text)
        status, out, err = run("dryrun", "-f", "rules.yaml", "-n", "features.yaml")
        assert (status, out, err.startswith(f"nfd dryrun: {said}")) == (2, "", True), err


def test_validate(run: Run, tmp_path: Path) -> None:
    lines = [f"Validating rule:  {name}\n" for name in ("all of it", "after it", "first", "in", "out")]
    status, out, err = run("validate", "-f", "rules.yaml")
    head, verdict = "Validating NodeFeatureRule rules.yaml\n", "NodeFeatureRule rules.yaml is not valid\n"
    assert (status, out) == (1, head + "".join(lines) + verdict)
    assert err.splitlines() == [
        "rules.yaml:7: label 'other.kubernetes.io/x': namespace 'other.kubernetes.io' is not allowed",
        "rules.yaml:12: taint 'bare': key 'bare' has no namespace",
    ]
    (tmp_path / "rules.yaml").write_text(RULES.replace(', other.kubernetes.io/x: "1"', "").replace("bare", "a/b"))
    assert run("validate", "-f", "rules.yaml")[0] == 0


def test_export(run: Run, machine: str, tmp_path: Path) -> None:
    """JSON with four blanks, a last line end on standard output alone."""
    status, out, err = run("export", "features", "--replay", machine)
    assert (status, err) == (0, "")
    features = json.loads(out)
    assert out == json.dumps(features, indent=4) + "\n"
    assert features["attributes"]["kernel.version"]["elements"]["full"] == "6.1.0-18-amd64"
    assert run("export", "labels", "-p", "labels.json", "--replay", machine) == (0, "", "")
    text = (tmp_path / "labels.json").read_text()
    assert text == json.dumps(json.loads(text), indent=4)
    lines = run("discover", "--replay", machine)[1].splitlines()
    assert json.loads(text) == dict(line.split("=", 1) for line in lines)
    assert run("export", "labels", "--path", "/nowhere/x", "--replay", machine)[::2] == (
        1,
        "nfd export: --path /nowhere/x: No such file or directory\n",
    )


def test_export_of_a_machine_that_cannot_be_read(run: Run, machine: str) -> None:
    """No output if a source fails."""
    record = {"failures": {"sys/class/net/": [5, "Input/output error"]}}
    (Path(machine) / "host.json").write_text(json.dumps(record))
    (Path(machine) / "sys/class/net").mkdir(parents=True)
    status, out, err = run("export", "labels", "--replay", machine)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("nfd export: source network failed: ")


def test_test_on_a_cluster(control_plane: ControlPlane, node_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --master on NodeFeature objects, in the order in which a master merges them."""
    files = [f"--filename={file}" for file in sorted((DEPLOY / "crds").glob("nodefeature*.yaml"))]
    control_plane.kubectl("apply", *files)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
    words = ["test", "-f", "rules.yaml", "-n", node_name, "-k", str(control_plane.kubeconfig)]
    eventually(lambda: main(words) == 2)  # the API server answers 429 until its storage is ready
    assert f"--nodename {node_name}: no NodeFeature object is for this node" in capsys.readouterr().err
    path = f"{API}/namespaces/default/nodefeatures"
    for name, zone in (("z", "north"), ("y", "south")):
        features = {"attributes": {"custom.place": {"elements": {"zone": zone}}}}
        metadata = {"name": f"{node_name}-{name}", "labels": {NODE_NAME: node_name}}
        kind = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature"}
        control_plane.request("POST", path, {**kind, "metadata": metadata, "spec": {"features": features}})
    try:
        assert main(words) == 0
        head, verdict = "Evaluating NodeFeatureRule against Node", "NodeFeatureRule is valid for Node"
        assert capsys.readouterr().out == f"{head} {node_name}\n{SECTIONS}{verdict} {node_name}\n"
    finally:
        for name in ("z", "y"):
            control_plane.request("DELETE", f"{path}/{node_name}-{name}")
