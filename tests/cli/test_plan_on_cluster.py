"""`nfd plan` says beforehand what happens: sample changes, each foreseen and then really made on the recorded fleet."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from nfd.cli import main
from nfd.master.node.ownership import bookkeeping
from nfd.quantity import parse_quantity
from nfd.store.base import Kind, trim
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.place import MASTER_CONFIG, SELECTOR, SETUP, FleetPlace, fleet_on
from tests.master.custom_resources import API

Json = dict[str, Any]
CHANGES = yaml.safe_load((Path(__file__).parents[1] / "fleet20/changes.yaml").read_text())
SENTINEL = "feature.node.kubernetes.io/sentinel"


@dataclass
class Bench:
    """The fleet and what is in force on it: rules by name, the master's configuration, workers' ones by setup."""

    place: FleetPlace
    rules: dict[str, Json] = field(default_factory=dict)
    workers: dict[str, Path] = field(default_factory=dict)
    round: int = 0

    def state(self, selector: str) -> dict[str, dict[Kind, Mapping[str, str]]]:
        """What is on the nodes, but for the bookkeeping."""
        found = {}
        for item in self.place.plane.request("GET", f"/api/v1/nodes?labelSelector={selector}")["items"]:
            node = trim(item)
            books = bookkeeping() if node.annotations else ()
            values = {kind: {k: v for k, v in node.actual(kind).items() if k not in books} for kind in Kind}
            values[Kind.RESOURCES] = {key: plain(amount) for key, amount in values[Kind.RESOURCES].items()}
            found[node.name] = values
        return found

    def put_rules(self, new: Mapping[str, list[Json]], gone: list[str]) -> None:
        plane = self.place.plane
        for name, rules in new.items():
            item = rule_object(name, rules)
            if name in self.rules:
                plane.request("PATCH", f"{API}/nodefeaturerules/{name}", {"spec": item["spec"]})
            else:
                plane.request("POST", f"{API}/nodefeaturerules", item)
            self.rules[name] = item
        for name in gone:
            plane.request("DELETE", f"{API}/nodefeaturerules/{name}")
            del self.rules[name]

    def settle(self) -> None:
        """All nodes with a report have seen the rules, and whatever changed before them: they are told in order."""
        self.put_rules(sentinel(self.round), [])
        reported = [node.name for node in self.place.nodes if node.worker]

        def done() -> bool:
            states = self.state(SELECTOR)
            return all(states[name][Kind.LABELS].get(SENTINEL) == str(self.round) for name in reported)

        eventually(done, 60)

    def reload(self, config: Json) -> None:
        master = self.place.master
        before = len(master.said("configuration loaded"))
        (self.place.folder / MASTER_CONFIG).write_text(yaml.safe_dump(config))
        master.signal(signal.SIGHUP)
        eventually(lambda: len(master.said("configuration loaded")) > before)

    def report(self, setup: str, config: Path) -> None:
        for node in self.place.plane.request("GET", f"/api/v1/nodes?labelSelector={SETUP}={setup}")["items"]:
            self.place.report(node["metadata"]["name"], config)


def plain(amount: str) -> str:
    """The API server writes 147000 as 147k."""
    return f"{parse_quantity(amount):f}"


def rule_object(name: str, rules: list[Json]) -> Json:
    head = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule", "metadata": {"name": name}}
    return {**head, "spec": {"rules": rules}}


def sentinel(number: int) -> dict[str, list[Json]]:
    """A rule that holds on every node."""
    term = {"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}
    return {"zz-sentinel": [{"name": "s", "labels": {"sentinel": str(number)}, "matchFeatures": [term]}]}


@pytest.fixture(scope="module")
def bench(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("plan")
    (folder / MASTER_CONFIG).write_text("enableTaints: true\n")
    with fleet_on(control_plane, folder, "--serve-reports") as place:
        found = Bench(place)
        try:
            yield found
        finally:
            found.put_rules({}, list(found.rules))


def foreseen(capsys: pytest.CaptureFixture[str], bench: Bench, selector: str, *words: str) -> Json:
    url = f"http://localhost:{bench.place.master.http_port}"
    cluster = (f"--kubeconfig={bench.place.plane.kubeconfig}", f"--master={url}", "-l", selector)
    status = main(["plan", *words, *cluster, "-o", "json"])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    found = dict(json.loads(out))
    for kinds in found["nodes"].values():
        for keys in kinds.get(Kind.RESOURCES.value, {}).values():
            keys.update({key: {part: plain(text) for part, text in pair.items()} for key, pair in keys.items()})
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Json:
    """What happened, in the form in which a plan says it."""
    found: Json = {}
    for name, kinds in now.items():
        for kind, values in kinds.items():
            was = before[name][kind]
            for key in was.keys() | values.keys():
                if was.get(key) == values.get(key):
                    continue
                what = "add" if key not in was else "remove" if key not in values else "change"
                pair = {"before": was.get(key), "after": values.get(key)}
                told = {part: value for part, value in pair.items() if value is not None}
                found.setdefault(name, {}).setdefault(kind.value, {}).setdefault(what, {})[key] = told
    return found


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: str(change["name"]).replace(" ", "-"))
def test_what_happens_is_what_was_foreseen(
    change: Json, bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Per node, kind and key, with the values; and nothing besides."""
    bench.round += 1
    setup = change.get("setup")
    selector = f"{SETUP}={setup}" if setup else SELECTOR
    words: list[str] = []
    if setup:
        config = tmp_path / "nfd-worker.conf"
        config.write_text(yaml.safe_dump(change["worker"]))
        current = bench.workers.get(setup) or first_config(bench, setup)
        words += [f"--config={config}", f"--current-config={current}"]
    else:
        rules = tmp_path / "rules.yaml"
        objects = {**change.get("rules", {}), **sentinel(bench.round)}
        rules.write_text(yaml.safe_dump_all(rule_object(name, items) for name, items in objects.items()))
        words += ["--rules", str(rules), *(f"--delete-rules={name}" for name in change.get("delete", []))]
        if "master" in change:
            (tmp_path / "nfd-master.conf").write_text(yaml.safe_dump(change["master"]))
            words.append(f"--config={tmp_path / 'nfd-master.conf'}")
    plan = foreseen(capsys, bench, selector, *words)
    before = bench.state(selector)
    if setup:
        bench.report(setup, config)
        bench.workers[setup] = config
    else:
        bench.put_rules(change.get("rules", {}), change.get("delete", []))
        if "master" in change:
            bench.reload(change["master"])
        bench.settle()
    wanted = flat(plan["nodes"])
    with suppress(AssertionError):  # taints have a patch of their own, after that of the labels
        eventually(lambda: flat(differences(before, bench.state(selector))) == wanted)
    assert flat(differences(before, bench.state(selector))) == wanted
    assert [one for one in wanted if change["expect"] in one] != []


def flat(nodes: Json) -> set[str]:
    """One text for each change, so that a difference is short."""
    return {
        f"{name} {kind} {what} {key} {sorted(pair.items())}"
        for name, kinds in nodes.items()
        for kind, whats in kinds.items()
        for what, keys in whats.items()
        for key, pair in keys.items()
    }


def first_config(bench: Bench, setup: str) -> Path:
    """What all workers of these nodes were started with."""
    items = bench.place.plane.request("GET", f"/api/v1/nodes?labelSelector={SETUP}={setup}")["items"]
    return bench.place.config(items[0]["metadata"]["name"])


def test_twenty_and_more() -> None:
    assert len(CHANGES) >= 20
