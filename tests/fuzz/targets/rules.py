"""What rule authors write: rule files, templates, patterns, and the feature files they try them on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from nfd.cli.rules import eval_objects
from nfd.features import Features, from_json, to_json
from nfd.report import Report
from nfd.rules.check import validate_text
from nfd.rules.compile import compile_rule
from nfd.rules.evaluate import run_custom
from nfd.rules.feature_files import parse_features
from nfd.rules.parse import parse_custom_text, parse_text
from nfd.rules.regexp import PatternError, compile_pattern, encode
from nfd.rules.template import Data, Template, TemplateError
from tests.fuzz import legal
from tests.fuzz.mutate import Bytes, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.trees import Trees, encoded

RULES = Path(__file__).parents[2] / "rules"
WHEN = datetime(2030, 1, 1, tzinfo=UTC)
FEATURES = Features(
    {"cpu.cpuid": frozenset({"AVX", "SSE4"}), "kernel.loadedmodule": frozenset({"nvidia"})},
    {"kernel.version": {"full": "6.8.0-41", "major": "6", "minor": "8"}, "local.label": {"x": "y"}},
    {"pci.device": ({"class": "0300", "vendor": "10de", "device": "2330"}, {"class": "0200", "vendor": "15b3",
    "vfs": "8"})},
)  # fmt: skip
FEATURE_TEXT = json.dumps({"features": to_json(FEATURES), "labels": {"own": "1"}})
DATA: Data = {"pci": {"device": list(FEATURES.instances["pci.device"])}, "cpu": {"cpuid": [{"Name": "AVX"}]}}


def terms(op: str, *values: str) -> list[dict[str, Any]]:
    expression = {"op": op, "value": list(values)} if values else {"op": op}
    return [
        {"feature": "pci.device", "matchExpressions": {"vendor": expression}, "matchName": {"op": "InRegexp",
        "value": ["^c"]}},
        {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Gt", "value": ["5"], "type": "version"}}},
    ]  # fmt: skip


def rule(**fields: Any) -> dict[str, Any]:
    return {"name": "r", "labels": {"a": "1", "vendor.io/b": "@kernel.version.major"}, "vars": {"v": "1"}, **fields}


def objects() -> list[dict[str, Any]]:
    whole = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "metadata": {"name": "o"}}
    first = rule(
        annotations={"note": "any"},
        extendedResources={"dongle": "3", "vendor.io/x": "@kernel.version.minor"},
        taints=[{"key": "vendor.io/t", "value": "v", "effect": "NoSchedule"}],
        labelsTemplate="{{ range .pci.device }}pci-{{ .vendor }}=true\n{{ end }}",
        matchFeatures=terms("In", "10de"),
    )
    second = rule(
        matchAny=[{"matchFeatures": terms("Exists")}, {"matchFeatures": terms("InRegexp", "^1")}],
        varsTemplate="x={{ . }}",
    )
    group = {"name": "g", "matchFeatures": [{"feature": "rule.matched", "matchExpressions": {"a": {"op": "IsTrue"}}}]}
    return [
        whole | {"kind": "NodeFeatureRule", "spec": {"rules": [first]}},
        whole | {"kind": "NodeFeatureRule", "spec": {"rules": [second]}},
        whole | {"kind": "NodeFeatureGroup", "spec": {"featureGroupRules": [group]}},
    ]


def rule_files() -> Sequence[bytes]:
    made = objects()
    return [
        *encoded(*made),
        yaml.safe_dump(made[1]).encode(),
        yaml.safe_dump(made[0]).encode(),
        b"a: &x [*x]\n---\n{}\n<<: *y\n",
    ]


def run_rules(data: bytes) -> Made:
    text = data.decode("utf-8", "replace")
    parsed = parse_text(text)
    made = eval_objects(parsed.objects, Report("", features=FEATURES))
    check(json.dumps(made).isascii(), "the outcome is JSON")
    legal.check_labels(made["labels"])
    for kind in ("labels", "annotations", "extendedResources"):
        legal.check_foreign(made[kind])
    wrong = validate_text("file", text) if len(data) % 3 == 0 else []
    check(all("\n" not in line for line in wrong), "one mistake a line")
    return f"{[len(value) for value in made.values()]} {min(len(wrong), 4)}", (made, wrong)


def run_custom_file(data: bytes) -> Made:
    parsed = parse_custom_text(data.decode("utf-8", "replace"))
    given = run_custom(map(compile_rule, parsed.rules), FEATURES, clock=lambda: WHEN)
    return f"{len(parsed.rules)} {len(parsed.findings)} {len(given.labels)} {len(given.errors)}", (
        given.labels,
        given.errors,
        parsed.findings,
    )


def run_features(data: bytes) -> Made:
    features, labels, odd = parse_features(data.decode("utf-8", "replace"))
    check(from_json(to_json(features)) == features, "features in JSON are the same features")
    return f"{len(features.names())} {len(labels)} {len(odd)}", (features, labels, odd)


def run_template(data: bytes) -> Made:
    made = Template(data.decode("utf-8", "surrogateescape")).render(DATA, clock=lambda: WHEN)
    check(len(made) <= 1 << 20, "output is bounded")
    return f"output {len(made).bit_length()}", made


def run_pattern(data: bytes) -> Made:
    pattern, _, searched = data.decode("utf-8", "surrogateescape").partition("\n")
    found = compile_pattern.__wrapped__(pattern).search(encode(searched))
    return f"{found is not None}", None if found is None else found.span()


def templates() -> Sequence[bytes]:
    """Every template of the rule engine's own tests that works."""
    lines = (json.loads(line) for line in (RULES / "templates.jsonl").read_text().splitlines())
    return [text.encode("utf-8", "surrogatepass") for text, wanted in lines if wanted is not None and len(text) < 300]


PATTERNS = (
    rb"^10de$",
    rb"(?i)a+b*|[^a-z\d]{2,3}",
    rb"\p{Greek}\x{10ffff}\b(?P<n>x)",
    b"(a|aa)+$\naaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
)
_KEYS = (
    "matchFeatures", "matchAny", "matchExpressions", "matchName", "feature", "op", "value", "type", "version", "labels",
    "labelsTemplate", "vars", "varsTemplate", "annotations", "extendedResources", "taints", "key", "effect",
    "NoExecute", "spec",
    "rules", "kind", "metadata", "name", "items", "List", "In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt",
    "Lt", "GtLt",
    "IsTrue", "kubernetes.io/x", "node-role.kubernetes.io/master", "feature.node.kubernetes.io/a", "rule.matched",
    "pci.device",
)  # fmt: skip
_YAML = (
    "- ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "!!binary ",
    "!!float ",
    "|\n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "{{ ",
    " }}",
    "\n  ",
)
_TEMPLATE = (
    "{{", "}}", "{{- ", " -}}", "{{ end }}", "{{ else }}", "{{ range $i, $e := .pci.device }}", "{{ with . }}",
    "{{ if ", "{{ define \"a\" }}",
    "{{ template \"a\" . }}", "{{ block \"b\" . }}", "| ", "$", "$x := ", ".", ".pci.device", "(", ")",
    "printf \"%999d\" ", "printf \"%*v\" ",
    "repeat 1000 ", "until 100000 ", "untilStep 0 9 ", "list ", "dict ", "regexReplaceAll ", "substr -1 9 ",
    "seq 1 99999 ", "index . ",
    "len ", "toJson ", "fromJson ", "b64dec ", "atoi ", "int64 ", "add 9223372036854775807 ", "div 1 0", "mod 1 0 ",
    "slice ", "call ", "ge 1 ",
    "semver ", "dateModify ", "indent 1000000 ", "trunc -5 ", "wrap 1 ", "nindent 5 ", "splitList \"\" ", "join . ",
    "/* ", " */", "`", "'\\x'", "1e9",
    "0x_1p-2", "1i", "nil", "break", "continue",
)  # fmt: skip

TARGETS = (
    Target(
        "rules",
        "NodeFeatureRule and NodeFeatureGroup files",
        rule_files,
        either(Trees(*_KEYS), Trees(*_KEYS), Bytes(*_YAML, *_KEYS)),
        run_rules,
        (),
        2.0,
    ),
    Target(
        "custom.d",
        "rule files of the worker",
        lambda: [
            *encoded([rule(matchFeatures=terms("In", "10de"))]),
            yaml.safe_dump([rule(matchFeatures=terms("Lt", "7"))]).encode(),
        ],
        either(Trees(*_KEYS), Bytes(*_YAML, *_KEYS)),
        run_custom_file,
        (),
        2.0,
    ),
    Target(
        "features",
        "feature files of `nfd rules eval`",
        lambda: [FEATURE_TEXT.encode(), yaml.safe_dump(json.loads(FEATURE_TEXT)).encode()],
        either(Trees("features", "flags", "attributes", "instances", "elements", "labels", "spec"), Bytes(*_YAML)),
        run_features,
        (ValueError,),
    ),
    Target(
        "template",
        "labelsTemplate and varsTemplate",
        templates,
        Bytes(*_TEMPLATE, longest=600),
        run_template,
        (TemplateError,),
        2.0,
    ),
    Target(
        "pattern",
        "regular expressions",
        lambda: PATTERNS,
        Bytes(
            "(", ")", "|", "*", "+", "{1000}", "{2,}", "\\C", "\\Q", "[[:alpha:]]", "(?s)", "\\pN", "\\", longest=300
        ),
        run_pattern,
        (PatternError,),
    ),
)
