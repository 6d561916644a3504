"""What was meant: commands, operators, keys, features, attributes, labels; and what `rules validate` and `eval` say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nfd.fleet.query import missing_keys, nearest_key, parse_query
from nfd.rules.check import remarks_on
from nfd.rules.known_features import ATTRIBUTES, KNOWN
from nfd.rules.template import Template

Run = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[2]
HEAD = """\
apiVersion: nfd.k8s-sigs.io/v1alpha1
kind: NodeFeatureRule
metadata: {name: x}
spec:
  rules:
"""
RULE = """\
  - name: a
    labels: {a: "1"}
    matchFeatures:
"""


def test_commands(run: Run) -> None:
    assert run("nods") == (2, "", "nfd: nods: unknown command; did you mean nodes?\n")
    assert run("zzz")[2].startswith("nfd: zzz: unknown command; known are nodes, gpus, ")


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (("rules", "vlidate", "x"), "invalid choice: 'vlidate'", "; did you mean validate? (see nfd rules --help)"),
        (("completion", "bsh"), "invalid choice: 'bsh'", "; did you mean bash? (see nfd completion --help)"),
        (("nodes", "--problms"), "unrecognized arguments: --problms", "; did you mean --problems? (see nfd nodes"),
        (("nodes", "--zzz=1"), "unrecognized arguments: --zzz=1 (see", ""),
    ],
)
def test_flags_and_commands_of_commands(run: Run, words: tuple[str, ...], said: str, hint: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert said in err
    assert hint in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "    - {feature: cpu.model, matchExpressions: {id: {op: Inn, value: [x]}}}\n",
            "operator 'Inn'; did you mean In?",
        ),
        ("    - {feature: cpu.model, matchExpression: {}}\n", "did you mean matchExpressions?"),
        ("    - {feature: cpu.model, matchExpressions: {id: {op: In, values: [x]}}}\n", "did you mean value?"),
        ("    - {feature: cpu.model}\n    lables: {}\n", "unknown key 'lables'; did you mean labels?"),
    ],
)
def test_operators_and_keys(run: Run, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "r.yaml").write_text(HEAD + RULE + text)
    status, out, err = run("rules", "validate", str(tmp_path / "r.yaml"))
    assert (status, err) == (1, "")
    assert said in out
    assert ", ok" not in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "    - {feature: cpu.modell}\n",
            "9: warning: feature 'cpu.modell': no source of nfd provides it; did you mean ",
        ),
        (
            "    - {feature: cpu.model, matchExpressions: {vendorid: {op: Exists}}}\n",
            "9: warning: attribute 'vendorid': feature cpu.model does not have it; did you mean vendor_id?",
        ),
        (
            "    - {feature: system.name, matchExpressions: {q: {op: Exists}}}\n",
            "9: warning: attribute 'q': feature system.name does not have it; it has nodename",
        ),
        (
            "    - {feature: cpu.model}\n    labelsTemplate: '{{ range .pci.device }}v={{ .vendor }}{{ end }}'\n",
            "10: warning: template: .pci.device is empty, as no term of the rule matches pci.device",
        ),
        ("    - {feature: cpu.model}\n    vars:\t{a: b}\n", "10: warning: the line has a tab; use blanks"),
    ],
)
def test_warnings(run: Run, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + RULE + text)
    status, out, err = run("rules", "validate", str(path))
    assert (status, err) == (0, "")
    assert f"{path}:{said}" in out
    assert out.endswith("1 rule, ok\n")


def test_files_without_a_mistake(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(HEAD + RULE + "    - {feature: cpu.model}\n")
    assert run("rules", "validate", str(tmp_path / "r.yaml"))[:2] == (0, "1 rule, ok\n")
    both = ("rules", "validate", str(tmp_path / "r.yaml"), str(ROOT / "deploy/examples/rules.yaml"))
    assert run(*both)[:2] == (0, "3 rules, ok\n")


def test_a_tab_that_indents(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(HEAD + "\t- name: a\n")
    wanted = f"{path}:6: not YAML: a tab indents the line, where YAML has only blanks\n"
    assert run("rules", "validate", str(path)) == (1, wanted, "")


def test_eval_of_an_invalid_rule(run: Run, tmp_path: Path) -> None:
    """The JSON has what the other rules set."""
    (tmp_path / "r.yaml").write_text(HEAD + "  - {name: a, labels: {a: '1'}}\n  - {name: b, labels: 7}\n")
    (tmp_path / "f.yaml").write_text("features: {}\n")
    status, out, _ = run("rules", "eval", "--rules", str(tmp_path / "r.yaml"), "--features", str(tmp_path / "f.yaml"))
    found = json.loads(out)
    assert (status, found["labels"]) == (1, {"feature.node.kubernetes.io/a": "1"})
    assert [one["kind"] for one in found["problems"]] == ["rules"]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("{{ range .a.b }}{{ .c.d }}{{ $.e.f }}{{ end }}", ["a.b", "e.f"]),
        ("{{ if .a.b.c }}{{ .d.e }}{{ else if not .f.g }}{{ end }}", ["a.b", "d.e", "f.g"]),
        ("{{ with .a.b }}{{ .c.d }}{{ else }}{{ .e.f }}{{ end }}", ["a.b", "e.f"]),
        ("{{ len (.a.b) | add (index .c.d 0).e }}{{ .f }}{{ $x := .g.h }}{{ $x.i.j }}", ["a.b", "c.d", "g.h"]),
    ],
)
def test_what_a_template_reads(text: str, read: list[str]) -> None:
    assert Template(text).features_read() == read


def test_a_feature_in_match_any_is_there() -> None:
    text = HEAD + (
        "  - name: a\n    labelsTemplate: '{{ range .pci.device }}a=b{{ end }}'\n"
        "    matchAny: [{matchFeatures: [{feature: pci.device}]}]\n"
    )
    assert remarks_on([("f", text)]) == {}


def test_attributes_are_of_known_features() -> None:
    assert set(ATTRIBUTES) <= KNOWN


def test_keys_that_no_node_has() -> None:
    labels = [{"nvidia.com/gpu.product": "a", "feature.node.kubernetes.io/cpu-model.id": "1", "zone": "x"}]
    found = missing_keys(parse_query("gpu.product and cpu-model.idd = 1 and not /zone and /q"), labels)
    assert list(found) == [
        "no node has the label feature.node.kubernetes.io/gpu.product; did you mean nvidia.com/gpu.product?",
        "no node has the label feature.node.kubernetes.io/cpu-model.idd; "
        "did you mean feature.node.kubernetes.io/cpu-model.id?",
        "no node has the label q",
    ]
    assert nearest_key("a/zone", ["zone", "b/zone"]) == "; did you mean b/zone or zone?"


def test_explain_tries_other_namespaces(run: Run, machine: str) -> None:
    host = str(ROOT / "tests/hosts/dgx-h100")
    status, out, _ = run("explain", "--replay", host, "-", "gpu.present")
    assert status == 0
    assert out.startswith(
        "nvidia.com/gpu.present=true\n"
        "  feature.node.kubernetes.io/gpu.present is missing, this is the label of that name\n  set by source nvidia\n"
    )
    out = run("explain", "--replay", host, "-", "gpu.prodct")[1]
    assert out.startswith("feature.node.kubernetes.io/gpu.prodct is missing\n")
    assert "nvidia.com/gpu.prodct is missing, too: source nvidia makes no such label" in out
    assert "similar labels: nvidia.com/gpu.present" in out
    assert "is missing, too" not in run("explain", "--replay", machine, "-", "unheard")[1]
    assert "no AVX51; did you mean AVX512F?" in run("explain", "--replay", host, "-", "cpu-cpuid.AVX51")[1]
