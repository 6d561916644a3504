"""`nfd compat find`: what it says of each node is what `nfd compat validate-node` says on that machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nfd.cli import main
from tests.compat.registries import REPOSITORY, Publisher, registry
from tests.controlplane.cluster import ControlPlane
from tests.fleet.expressions import parse_terms
from tests.fleet20.place import SELECTOR, FleetPlace, fleet_on

LABELLED = """
version: v1alpha1
compatibilities:
  - tag: fast
    weight: 2
    rules:
      - name: avx
        matchFeatures:
          - {feature: cpu.cpuid, matchExpressions: {AVX512F: {op: Exists}}}
          - {feature: kernel.version, matchExpressions: {major: {op: Gt, value: ["4"]}}}
      - name: vendor
        matchAny:
          - matchFeatures: [{feature: cpu.model, matchExpressions: {vendor_id: {op: In, value: [Intel]}}}]
          - matchFeatures: [{feature: cpu.cpuid, matchName: {op: In, value: [SEV_SNP, SEV]}}]
  - tag: arm
    rules:
      - name: ubuntu
        matchFeatures:
          - feature: system.osrelease
            matchExpressions: {ID: {op: InRegexp, value: ["^ubu", "^rh"]}}
          - feature: cpu.model
            matchExpressions: {vendor_id: {op: NotIn, value: [Intel, AMD]}}
"""
DEVICES = """
version: v1alpha1
compatibilities:
  - rules:
      - name: memory
        matchFeatures:
          - {feature: nvidia.gpu, matchExpressions: {memory: {op: Gt, value: ["80000"]}}}
      - name: new driver
        matchFeatures:
          - {feature: nvidia.driver, matchExpressions: {version: {op: InRegexp, value: ["^5[3-9]"]}}}
"""
INVALID = """
version: v1alpha1
compatibilities:
  - rules:
      - name: broken
        matchFeatures: [{feature: cpu.model, matchExpressions: {vendor_id: {op: Unheard, value: [x]}}}]
"""
BESIDE = """
version: v1alpha1
compatibilities:
  - rules:
      - name: broken
        matchFeatures: [{feature: cpu.model, matchExpressions: {vendor_id: {op: InRegexp, value: ["("]}}}]
  - rules:
      - name: right
        matchFeatures: [{feature: cpu.model, matchExpressions: {vendor_id: {op: Exists}}}]
"""
ALTERNATIVES = [
    {"matchFeatures": [{"feature": feature, "matchExpressions": {name: expression}}]}
    for feature, name, expression in (
        ("cpu.cpuid", "AVX512F", {"op": "Exists"}),
        ("cpu.model", "vendor_id", {"op": "In", "value": ["Intel"]}),
        ("cpu.model", "vendor_id", {"op": "In", "value": ["AMD"]}),
    )
]
MANY = json.dumps({"compatibilities": [{"rules": [{"name": f"{n}", "matchAny": ALTERNATIVES} for n in range(5)]}]})
ARTIFACTS = {"labelled": LABELLED, "beside": BESIDE, "many": MANY}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetPlace]:
    with fleet_on(control_plane, tmp_path_factory.mktemp("compat"), "--serve-reports") as found:
        yield found


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("registry")) as address:
        publisher = Publisher(address)
        for name, text in {**ARTIFACTS, "devices": DEVICES, "invalid": INVALID}.items():
            publisher.attach(publisher.image(name, architecture=name), text)  # so that their digests differ
        images = {f"linux/{name}": publisher.image(architecture=name) for name in ("amd64", "arm64")}
        publisher.index(images, "two")
        publisher.attach(images["linux/arm64"], LABELLED)
        yield address


def words(place: FleetPlace, host: str, name: str) -> list[str]:
    cluster = [f"--kubeconfig={place.plane.kubeconfig}", f"--master=http://localhost:{place.master.http_port}"]
    return ["compat", "find", f"--image={host}/{REPOSITORY}:{name}", "--plain-http", "-l", SELECTOR, *cluster]


def find(capsys: pytest.CaptureFixture[str], place: FleetPlace, host: str, name: str, *more: str) -> Json:
    assert main([*words(place, host, name), "-o", "json", *more]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return dict(json.loads(out))


def validated(capsys: pytest.CaptureFixture[str], place: FleetPlace, host: str, name: str, node: str) -> bool:
    """What the machine itself says: it meets all rules of one set."""
    image = f"--image={host}/{REPOSITORY}:{name}"
    replay = f"--replay={place.machine(node)}"
    assert main(["compat", "validate-node", image, "--plain-http", "--output-json", replay]) == 0
    return any(all(rule["isMatch"] for rule in one["rules"]) for one in json.loads(capsys.readouterr().out))


@pytest.mark.parametrize(("name", "listed"), [("labelled", False), ("devices", True)])
def test_each_node_as_the_machine_says(
    name: str, listed: bool, place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the affinity takes the same nodes, by labels where labels say it."""
    found = find(capsys, place, host, name)
    results = {one["name"]: one for one in found["nodes"]}
    workers = [node.name for node in place.nodes if node.worker]
    assert len(results) == 20
    suitable = {node for node, one in results.items() if one["isMatch"]}
    assert suitable == {node for node in workers if validated(capsys, place, host, name, node)}
    assert 0 < len(suitable) < len(workers)
    assert [one["reasons"] for node, one in results.items() if node not in workers] == [
        ["the master has no features of it"]
    ]
    assert all(one["reasons"] for node, one in results.items() if node not in suitable)
    terms = found["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    selector, items = parse_terms(terms), place.plane.request("GET", f"/api/v1/nodes?labelSelector={SELECTOR}")["items"]
    assert {one["metadata"]["name"] for one in items if selector.selects(one["metadata"]["labels"])} == suitable
    assert ("kubernetes.io/hostname" in json.dumps(terms)) is listed
    assert any("listed as they are now; later ones" in one for one in found["warnings"]) is listed


def test_the_set_with_most_weight(place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = find(capsys, place, host, "labelled")
    assert {one["set"] for one in found["nodes"]} == {1, 2, None}
    tagged = find(capsys, place, host, "labelled", "--tags", "fast")
    assert {one["set"] for one in tagged["nodes"]} == {1, None}
    assert main([*words(place, host, "labelled"), "--tags", "none"]) == 2
    assert "has one of them" in capsys.readouterr().err


def test_why_not(place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As text: the expressions that do not match, for each set and rule."""
    assert main(words(place, host, "labelled")) == 0
    out, _ = capsys.readouterr()
    (line,) = [one for one in out.splitlines() if one.startswith("gpu-t4-1")]
    assert "set #1, rule avx: cpu.cpuid.AVX512F Exists" in " ".join(line.split())
    assert "nodeSelectorTerms:" in out


def test_each_architecture_has_its_artifact(place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = find(capsys, place, host, "two")
    arm = {node.name for node in place.nodes if node.arch == "arm64"}
    for one in found["nodes"]:
        missing = any("no compatibility artifact" in reason for reason in one["reasons"])
        assert missing is (one["name"] not in arm and one["reasons"] != ["the master has no features of it"]), one
    assert any(one["isMatch"] for one in found["nodes"])


def test_failures(place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An invalid rule is an error once, not for each node; no artifact is one, too."""
    assert main(words(place, host, "invalid")) == 1
    err = capsys.readouterr().err
    assert err.count("rule 'broken'") == 1
    assert main([*words(place, host, "beside"), "-o", "name"]) == 1
    out, err = capsys.readouterr()
    assert "node/gpu-t4-1\n" in out
    assert err.count("rule 'broken': ") == err.count("\n") == 1
    assert main(words(place, host, "nothing")) == 1
    assert "no such image" in capsys.readouterr().err


def test_more_alternatives_than_an_affinity_may_have(
    place: FleetPlace, host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nodes are listed, with the reason."""
    found = find(capsys, place, host, "many")
    assert "more than 100 alternatives, so the nodes are listed as they are now" in found["warnings"][0]


def test_from_a_snapshot(place: FleetPlace, host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many nodes suit as on the cluster."""
    path = tmp_path / "fleet.jsonl"
    cluster = [one for one in words(place, host, "x") if one.startswith(("--kubeconfig", "--master"))]
    assert main(["export", "fleet", "--path", str(path), "-l", SELECTOR, *cluster]) == 0
    capsys.readouterr()
    image = [f"--image={host}/{REPOSITORY}:labelled", "--plain-http"]
    assert main(["compat", "find", *image, "--cluster-snapshot", str(path), "-o", "json"]) == 0
    there = json.loads(capsys.readouterr().out)["nodes"]
    here = find(capsys, place, host, "labelled")["nodes"]
    assert sorted(str(one["set"]) for one in there) == sorted(str(one["set"]) for one in here)
