"""What is foretold honours what the master's configuration says of NodeFeature objects: nodeFeatureNamespaceSelector.

A real master on a real API server; what plan, test and explain say is compared with what the master then does.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli import main
from nfd.cli.namespace_selector import ObjectDocuments
from nfd.features import Features
from nfd.master.config import NamespaceSelector
from nfd.master.http.reports_api import MasterState
from nfd.master.rules.nodefeatures import NODE_NAME
from nfd.report import Report, SourceState, State
from nfd.report_order import Order
from nfd.rpc.client import Reporter
from tests.cli.test_commands import Run
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import Program, eventually, port_of
from tests.fleet20.place import MASTER_CONFIG, running_master
from tests.master.custom_resources import API, Kinds

F = "feature.node.kubernetes.io/"
NODE, TAKEN, LEFT = "selected-node", "selector-taken", "selector-left"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SELECTS = {"restrictions": {"nodeFeatureNamespaceSelector": {"matchLabels": {"team": "trusted"}}}}
EXPRESSION = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["trusted"]}]}
TURNED = {"restrictions": {"nodeFeatureNamespaceSelector": EXPRESSION}}
Json = dict[str, Any]


@dataclass
class Place:
    plane: ControlPlane
    master: Program
    folder: Path

    @property
    def url(self) -> str:
        return f"--master=http://localhost:{self.master.http_port}"

    def labels(self) -> dict[str, str]:
        found = self.plane.get_node(NODE)["metadata"].get("labels") or {}
        return {key.removeprefix(F): value for key, value in found.items() if key.startswith(F)}

    def configure(self, config: Json) -> None:
        before = len(self.master.said("configuration loaded"))
        (self.folder / MASTER_CONFIG).write_text(yaml.safe_dump(config))
        self.master.signal(signal.SIGHUP)
        eventually(lambda: len(self.master.said("configuration loaded")) > before)

    def plan(self, capsys: pytest.CaptureFixture[str], *words: str) -> Json:
        """Labels of the node as they would be after the change, and the warnings."""
        status = main(
            ["plan", *words, f"--kubeconfig={self.plane.kubeconfig}", self.url, "-o", "json", "-l", f"name={NODE}"]
        )
        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        found = json.loads(out)
        labels = self.labels()
        for what, keys in found["nodes"].get(NODE, {}).get("labels", {}).items():
            for key, pair in keys.items():
                labels.pop(key.removeprefix(F), None)
                if what != "remove":
                    labels[key.removeprefix(F)] = pair["after"]
        return {"labels": labels, "warnings": found["warnings"]}


def flag(name: str) -> Json:
    return {"flags": {f"third.{name}": {"elements": {"yes": {}}}}}


def rules() -> list[Json]:
    """A label for each object of which the rules see the feature."""
    return [
        {
            "name": name,
            "labels": {f"saw-{name}": "1"},
            "matchFeatures": [{"feature": f"third.{name}", "matchExpressions": {"yes": {"op": "Exists"}}}],
        }
        for name in (TAKEN, LEFT)
    ]


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("selector")
    kinds = Kinds(control_plane)
    (folder / MASTER_CONFIG).write_text(yaml.safe_dump(SELECTS))
    with ExitStack() as stack:
        master = stack.enter_context(running_master(control_plane, folder, "--serve-reports"))
        stack.callback(kinds.clear)
        control_plane.create_node(NODE, {"name": NODE}, boot_id="b")
        stack.callback(control_plane.delete_node, NODE)
        kinds.namespace(TAKEN, {"team": "trusted"})
        kinds.namespace(LEFT, {"team": "other"})
        for namespace in (TAKEN, LEFT):
            kinds.features(namespace, "third", NODE, labels={f"of-{namespace}": "1"}, features=flag(namespace))
        features = Features(flags={"cpu.cpuid": frozenset({"AVX"})})
        report = Report(NODE, "v", "", Order("b", 1, 1), {F + "cpu-a": "1"}, {}, {F + "cpu-a": "cpu"},
                        {"cpu": SourceState(State.FRESH)}, features)  # fmt: skip
        Reporter(f"127.0.0.1:{port_of(master)}").send(report)
        found = Place(control_plane, master, folder)
        eventually(lambda: found.labels() == {"cpu-a": "1", f"of-{TAKEN}": "1"})
        yield found


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yaml"
    head = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": {"name": "saw"}}
    path.write_text(yaml.safe_dump({**head, "spec": {"rules": rules()}}))
    return path


def left_out(namespace: str) -> str:
    return f"NodeFeature {namespace}/third is ignored: nodeFeatureNamespaceSelector does not select its namespace"


@pytest.mark.parametrize(
    ("labels", "taken"), [({"team": "trusted"}, False), ({"team": "other"}, True), ({}, True), (None, False)]
)
def test_objects_of_a_namespace(labels: dict[str, str] | None, taken: bool) -> None:
    """A namespace that does not exist is not selected, and invalid objects count as valid ones do."""
    items = [
        {
            "kind": "NodeFeature",
            "metadata": {"name": name, "namespace": "ns", "labels": {NODE_NAME: NODE}},
            "spec": spec,
        }
        for name, spec in (("valid", {"labels": {"a": "1"}}), ("invalid", {"features": 1}))
    ]
    documents = ObjectDocuments(items, {} if labels is None else {"ns": labels})
    selected = documents.select(MasterState(namespace_selector=NamespaceSelector.model_validate(EXPRESSION)))
    assert [one.name for one in selected.objects] == ["valid"] * taken
    assert [one.name for one in selected.left_out] == ["valid"] * (not taken)
    assert dict(selected.invalid) == ({"object:ns/invalid": NODE} if taken else {})
    assert selected.lists(NODE).blind == taken


def test_a_plan_foresees_what_the_master_takes(
    place: Place, rule_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New rules, then another selector: both times the node becomes what was foreseen."""
    foreseen = place.plan(capsys, "--rules", str(rule_file))
    assert foreseen["warnings"] == [left_out(LEFT)]
    place.plane.request("POST", f"{API}/nodefeaturerules", yaml.safe_load(rule_file.read_text()))
    try:
        eventually(lambda: place.labels() == foreseen["labels"])
        assert foreseen["labels"] == {"cpu-a": "1", f"of-{TAKEN}": "1", f"saw-{TAKEN}": "1"}
        turned = tmp_path / "nfd-master.conf"
        turned.write_text(yaml.safe_dump(TURNED))
        foreseen = place.plan(capsys, f"--config={turned}")
        assert foreseen["warnings"] == [left_out(TAKEN)]
        place.configure(TURNED)
        eventually(lambda: place.labels() == foreseen["labels"])
        assert foreseen["labels"] == {"cpu-a": "1", f"of-{LEFT}": "1", f"saw-{LEFT}": "1"}
    finally:
        place.plane.request("DELETE", f"{API}/nodefeaturerules/saw")
        place.configure(SELECTS)
        eventually(lambda: place.labels() == {"cpu-a": "1", f"of-{TAKEN}": "1"})


def test_rules_are_tried_on_what_the_master_takes(place: Place, rule_file: Path, run: Run) -> None:
    words = ("test", "-f", str(rule_file), "-n", NODE, "-k", str(place.plane.kubeconfig))
    status, out, err = run(*words, place.url)
    assert (status, err) == (0, f"warning: {left_out(LEFT)}\n")
    assert (f"saw-{TAKEN}" in out, f"saw-{LEFT}" in out) == (True, False)
    status, out, err = run(*words)
    doubt = "warning: it is unknown whether nodeFeatureNamespaceSelector excludes NodeFeature objects: give --master\n"
    assert (status, err) == (0, doubt)
    assert (f"saw-{TAKEN}" in out, f"saw-{LEFT}" in out) == (True, True)


def test_explain_names_what_is_left_out(place: Place, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig))
    for label in (f"of-{LEFT}", f"of-{TAKEN}"):
        status, out, err = run("explain", NODE, label, place.url)
        assert (status, err) == (0, "")
        assert left_out(LEFT) in out
        assert (f"{label} is missing" in out) == (label == f"of-{LEFT}")


def test_who_may_not_read_namespaces_is_told(place: Place, rule_file: Path, run: Run) -> None:
    """Everything counts then, and it is said."""
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}]
    reads = [{"apiGroups": ["nfd.k8s-sigs.io"], "resources": ["nodefeatures"], "verbs": ["list"]},
             {"nonResourceURLs": ["/reports"], "verbs": ["get"]}]  # fmt: skip
    place.plane.create(f"{RBAC}/clusterroles", {"metadata": {"name": "bob-tests"}, "rules": reads})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bob-tests"}
    binding = {"metadata": {"name": "bob-tests"}, "roleRef": role, "subjects": subjects}
    place.plane.create(f"{RBAC}/clusterrolebindings", binding)
    try:
        kubeconfig = place.plane.kubeconfig_for(place.plane.token("bob"))
        status, out, err = run("test", "-f", str(rule_file), "-n", NODE, "-k", str(kubeconfig), place.url)
    finally:
        place.plane.request("DELETE", f"{RBAC}/clusterrolebindings/bob-tests")
        place.plane.request("DELETE", f"{RBAC}/clusterroles/bob-tests")
    assert (status, f"saw-{LEFT}" in out) == (0, True)
    assert err.startswith("warning: it is unknown whether nodeFeatureNamespaceSelector excludes NodeFeature objects: ")
    assert "namespaces" in err


def test_a_master_that_writes_nothing_changes_nothing(
    place: Place, rule_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "nfd-master.conf"
    config.write_text(yaml.safe_dump({**SELECTS, "noPublish": True}))
    found = place.plan(capsys, "--rules", str(rule_file), f"--config={config}")
    assert found["labels"] == place.labels()
    assert "the master has noPublish set and writes nothing" in found["warnings"]


def test_recorded_machines_have_no_objects(machine: str, tmp_path: Path, run: Run) -> None:
    config = tmp_path / "nfd-master.conf"
    config.write_text(yaml.safe_dump(SELECTS))
    status, out, _ = run("plan", "--replay", machine, f"--config={config}", "-o", "json")
    (warning,) = json.loads(out)["warnings"]
    assert (status, warning.startswith("nodeFeatureNamespaceSelector is ignored")) == (0, True)
