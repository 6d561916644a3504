"""A rule file with a part of another type: `nfd plan`, in each of its forms, and `nfd rules validate` report it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nfd.cli.plan.cluster import ClusterDocuments
from nfd.cli.plan.snapshot import render_snapshot
from nfd.features import Features
from nfd.master.http.reports_api import MasterState
from nfd.names import API_VERSION
from nfd.report import Report, SourceState, State
from tests.cli.small import make

Run = Callable[..., tuple[int, str, str]]
NODE = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}
RELEASE = {"system.osrelease": {"ID": "debian"}}
TERM = {"feature": "system.osrelease", "matchExpressions": {"ID": {"op": "In", "value": ["debian"]}}}
NAMES = {"feature": "system.osrelease", "matchName": {"op": "In", "value": ["ID"]}}
GOOD = {"name": "good", "labels": {"good": "true"}}
OBJECT = {
    "apiVersion": API_VERSION,
    "kind": "NodeFeatureRule",
    "metadata": {"name": "odd", "uid": "u", "generation": 1, "labels": {"a": "b"}},
    "spec": {
        "rules": [
            {
                "name": "odd",
                "labels": {"odd": "1"},
                "annotations": {"odd": "1"},
                "extendedResources": {"odd": "1"},
                "vars": {"odd": "1"},
                "labelsTemplate": "odd=1",
                "varsTemplate": "odd=1",
                "taints": [{"key": "example.com/a", "value": "b", "effect": "NoSchedule"}],
                "matchFeatures": [TERM, NAMES],
                "matchAny": [{"matchFeatures": [TERM]}],
            },
            GOOD,
        ]
    },
}
ODD: tuple[Any, ...] = (None, True, 7, "x", [], ["x"], {"x": 1})


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a document but those of the rule that is right."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inside in items:
        if inside is not GOOD:
            yield from places(inside, (*path, key))


def with_part(path: tuple[Any, ...], part: Any) -> Any:
    """The document with another part at a place."""
    if not path:
        return part
    made = copy.deepcopy(OBJECT)
    inside: Any = made
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = part
    return made


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The forms of `nfd plan` that need no cluster, for one machine with the same feature."""
    folder = tmp_path_factory.mktemp("plan")
    machine = make(folder / "n", {"etc/os-release": "ID=debian\n"})
    sources = {"system": SourceState(State.FRESH)}
    report = Report("n", "", "u", None, {}, sources=sources, features=Features(attributes=RELEASE))
    found = ClusterDocuments([NODE], {"n": report}, MasterState(), replaced={"system.osrelease": ["ID"]})
    (folder / "fleet.jsonl").write_text("".join(render_snapshot(found)))
    (folder / "new.yaml").write_text(json.dumps({**OBJECT, "metadata": {"name": "new"}, "spec": {"rules": [GOOD]}}))
    system = folder / "nfd-worker.conf"
    system.write_text("core: {sources: [system]}\n")
    replay = ["--replay", str(machine), "--current-config", str(system)]
    return {
        "snapshot": ["--cluster-snapshot", str(folder / "fleet.jsonl"), "--rules"],
        "replay": [*replay, "--rules"],
        "current rules": [*replay, "--rules", str(folder / "new.yaml"), "--current-rules"],
    }


@pytest.mark.parametrize("path", [*places(OBJECT)], ids=lambda path: ".".join(map(str, path)) or "document")
def test_a_part_of_another_type(run: Run, forms: dict[str, list[str]], tmp_path: Path, path: tuple[Any, ...]) -> None:
    """An object that is none is an error with file and line. In all others, the rule that is right is planned."""
    file = tmp_path / "odd.yaml"
    for part in ODD:
        file.write_text(json.dumps(with_part(path, part)))
        answers = {name: run("plan", *words, str(file), "-o", "json") for name, words in forms.items()}
        status, out, err = run("rules", "validate", str(file))
        assert (status in (0, 1), err.replace(f"{file}: has no rules\n", "")) == (True, ""), part
        results = {name: status for name, (status, _, _) in answers.items()}
        assert len({*results.values()}) == 1, (part, results)
        for name, (status, shown, err) in answers.items():
            if status == 2:
                assert (err.startswith(f"nfd plan: {file}:"), out != "") == (True, True), (part, err)
            elif name != "current rules" and len(path) > 3:
                assert "feature.node.kubernetes.io/good" in shown, (part, shown)
