"""What identifies is nowhere in a snapshot, nor on Nodes without a report; an edited one gives a clear error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nfd.cli import main
from nfd.cli.export.anonymous import Anonymizer
from nfd.cli.namespace_selector import ObjectDocuments
from nfd.cli.plan.cluster import ClusterDocuments, input_of
from nfd.cli.plan.model import Files, plan_nodes
from nfd.cli.plan.snapshot import parse_snapshot, render_snapshot
from nfd.config.overlay import Layer
from nfd.errors import ConfigError
from nfd.features import Features
from nfd.master.http.reports_api import MasterState
from nfd.master.node.known_rejections import Unwritten
from nfd.master.node.ownership import Owned, annotation, render_owned
from nfd.master.node.proof import Proof
from nfd.master.rules.nodefeatures import NODE_NAME
from nfd.names import FEATURE_NS
from nfd.report import Report, SourceState, State
from nfd.rules.policy import Policy
from nfd.store.base import Kind, trim
from tests.cli.test_plan_on_cluster import rule_object

Json = dict[str, Any]
SERIAL, SHORT, MADE_UP = "CZ3A9X77Q1", "1234567", "Q7X1A9Z3C5"
ERROR = "GPU-8f3c2b11-0d2e-4f6a-9b1c-77aa12cd34ef at 10.1.2.3 host db7.corp.example.com"
DOUBT = (
    "it needs the labels of namespaces; GET https://k8s.corp.example.com:6443/api/v1/namespaces: "
    'namespaces is forbidden: User "erika.muster" cannot list resource "namespaces"'
)
VALUES = {"serial": SERIAL, "bmc": "10.9.8.7", "mac": "a4-bf-01-22-33-44", "asset": MADE_UP, "unit-serial": SHORT}
NOTES = {"nic": "a4:bf:01:22:33:44", "bmc": "10.9.8.6", "serial": "CZ3A9X77Q2"}
TAINTS = {"for": "10.9.8.5", "serial": "CZ3A9X77Q3", "asset": "Z9Q8X7W6V5"}
HIDDEN = (
    *("8f3c2b11", "10.1.2.3", "db7", "k8s.corp", "erika", "alma.corp", "hook7"),
    *VALUES.values(),
    *NOTES.values(),
    *TAINTS.values(),
)


def keys(values: Json) -> dict[str, str]:
    return {f"{FEATURE_NS}/{name}": value for name, value in values.items()}


def node(name: str, origin: str) -> Json:
    """A Node whose labels, annotations and taints a rule made; one more taint of a person."""
    labels, notes = keys(VALUES), keys(NOTES)
    taints = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in keys(TAINTS).items()]
    ids = {f"{one['key']}:NoSchedule": one["value"] for one in taints}
    owned = Owned(
        {
            Kind.LABELS: dict.fromkeys(labels, origin),
            Kind.ANNOTATIONS: dict.fromkeys(notes, origin),
            Kind.TAINTS: dict.fromkeys(ids, origin),
        },
        ids,
    )
    annotations = notes | render_owned(owned, proof=Proof(b"key"))
    other = {"key": "example.com/for", "value": "alma.corp.internal", "effect": "NoExecute"}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"taints": [*taints, other]},
    }


def documents() -> ClusterDocuments:
    rule = {
        "name": "r",
        "labels": {"serial": "@local.board.serial", "pin-token": "abc"},
        "matchFeatures": [{"feature": "local.board", "matchExpressions": {"serial": {"op": "Exists"}}}],
    }
    features = Features(attributes={"local.board": {"serial": "CZ3A9X77Q9"}})
    failed = {"nvidia": SourceState(State.FAILED, ERROR, 3.0), "local": SourceState(State.FRESH)}
    report = Report("bare-2", labels={"a": "b"}, origins={"a": "local"}, sources=failed, features=features)
    item = {
        "metadata": {"namespace": "ns", "name": "extra", "labels": {NODE_NAME: "bare-3"}},
        "spec": {"labels": {"x": "y"}, "features": {"attributes": {"local.board": {"elements": {"serial": SHORT}}}}},
    }
    rejected = Unwritten("labels", f"{FEATURE_NS}/x", "hook7.corp.internal", "not on 10.1.2.3", ("bare-1",))
    third: Json = {"metadata": {"name": "bare-3", "labels": {}, "annotations": {}}, "spec": {}}
    return ClusterDocuments(
        [node("bare-1", "rule:copies/r"), node("bare-2", "local"), third, node("bare-4", "object:ns/gone")],
        {"bare-2": report},
        MasterState(Policy(enable_taints=True), unwritten=(rejected,)),
        {"copies": rule_object("copies", [rule])},
        ObjectDocuments([item], None, DOUBT),
        Layer("x", {"core": {"labelSources": ["all"]}}),
    )


def test_no_part_of_a_cluster_keeps_what_identifies() -> None:
    """Errors of sources, the API server's refusal, webhooks, taints, and keys of rules on Nodes without a report."""
    found = documents()
    found = replace(found, objects=replace(found.objects, items=()))
    text = "".join(render_snapshot(Anonymizer(found).documents().documents))
    assert [hidden for hidden in HIDDEN if hidden in text] == []
    made = parse_snapshot(text.encode(), "x")
    assert made.objects.doubt
    assert [one.sources["nvidia"].state for one in made.reports.values()] == [State.FAILED]


def test_taints_stay_what_the_record_of_the_node_says() -> None:
    made = Anonymizer(documents()).documents().documents
    for one in made.nodes[:2]:
        listed = one["metadata"]["annotations"][annotation("taints")].split(",")
        taints = [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in one["spec"]["taints"]]
        assert [item for item in taints if item in listed] == taints[:-1]
        assert trim(one).taints[-1]["key"] == "example.com/for"


def outcomes(found: ClusterDocuments) -> list[Json]:
    """How many keys of each kind a plan without changes writes, removes and keeps, by Node."""
    planned = plan_nodes(input_of(found, Files(), Files(), ()))
    return [
        {str(kind): (len(one.write), len(one.remove)) for kind, one in each.planned.changes.items()} for each in planned
    ]


def test_a_plan_of_them_is_that_of_the_cluster() -> None:
    found = documents()
    text = "".join(render_snapshot(Anonymizer(found).documents().documents))
    assert outcomes(parse_snapshot(text.encode(), "x")) == outcomes(found)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"Node": {}}, "metadata.name: is missing"),
        ({"Node": {"metadata": {"name": 5}}}, "metadata.name: 5 is not text"),
        ({"Node": {"metadata": {"name": "a", "labels": ["b"]}}}, "labels: expected a mapping, found list"),
        ({"Node": {"metadata": {"name": "a"}, "spec": {"taints": "b"}}}, "spec.taints: not a list of mappings"),
        ({"object": {"metadata": 5}}, "expected a mapping, found int"),
        ({"object": {}}, "'metadata' is missing"),
    ],
)
def test_an_edited_line_is_named(line: Json, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f"
    first = next(render_snapshot(Anonymizer(ClusterDocuments([], {}, MasterState())).documents().documents))
    path.write_text(first + json.dumps(line) + "\n")
    assert main(["plan", "--rules=/dev/null", f"--cluster-snapshot={path}"]) == 2
    error = capsys.readouterr().err
    assert "f:2: is not a line of a snapshot" in error
    assert told in error


def changed(value: Any) -> Iterator[Any]:
    """Copies of a JSON value with one part replaced by one of another type, or left out."""
    for other in (None, 5, True, "x", [], [5], ["x"], {}, {"x": 5}):
        if type(other) is not type(value) or not isinstance(other, str):
            yield deepcopy(other)
    if isinstance(value, dict):
        for key, one in value.items():
            yield {name: rest for name, rest in value.items() if name != key}
            yield from ({**value, key: other} for other in changed(one))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from ([*value[:index], other, *value[index + 1 :]] for other in changed(one))


def test_a_line_with_a_value_of_another_type_is_an_error_or_a_plan() -> None:
    """Never an exception of the program; each place and type once."""
    lines = "".join(render_snapshot(Anonymizer(documents()).documents().documents)).splitlines()
    errors: list[str] = []
    tracebacks = []
    for number, line in enumerate(lines):
        for other in changed(json.loads(line)):
            text = "\n".join([*lines[:number], json.dumps(other), *lines[number + 1 :]])
            try:
                list(plan_nodes(input_of(parse_snapshot(text.encode(), "f"), Files(), Files(), ())))
            except ConfigError as error:
                errors.append(str(error))
            except Exception as error:
                tracebacks.append((type(error).__name__, str(error), json.dumps(other)))
    assert tracebacks == []
    assert [error for error in errors if not error.startswith("f:") or "\n" in error] == []
    assert len(errors) > 100
