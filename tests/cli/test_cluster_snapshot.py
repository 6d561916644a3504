"""`nfd export fleet` and `nfd plan --cluster-snapshot`: the plan of the cluster, from a file that names nobody."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from nfd.cli import main
from nfd.cli.export.anonymous import Anonymizer
from nfd.cli.plan.cluster import ClusterDocuments
from nfd.cli.plan.snapshot import parse_snapshot, render_snapshot
from nfd.master.http.reports_api import MasterState
from nfd.master.node.known_rejections import Unwritten
from nfd.master.rules.nodefeatures import NODE_NAME
from nfd.rules.policy import Policy
from tests.cli.test_plan_on_cluster import rule_object
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.place import MASTER_CONFIG, MASTER_NAMESPACE, SELECTOR, FleetPlace, fleet_on
from tests.master.custom_resources import API

Json = dict[str, Any]
NODE, OTHER = "gpu-a100-1", "gpu-h200-1"
SERIAL, TAG = "1322621064404", "MXQ93407Q8"
PLANTED = (  # a text, and what of it must not be in the file
    ("4c4c4544-0042-3510-8052-b4c04f4e3733", "4c4c4544"),
    ("4C4C4544-0042-3510-8052-B4C04F4E3734", "4C4C4544"),
    ("00:1b:21:aa:bb:cc", "1b:21:aa"),
    ("enx001b21aabbcd", "001b21aabbcd"),
    ("10.20.30.40", "20.30"),
    ("ip-10-20-30-41", "20-30"),
    ("fd00:1:2::77", "1:2::77"),
    ("bigiron.corp.internal", "bigiron"),
    ("hal9000", "hal9000"),
    ("frodo", "frodo"),
    ("i-0abcd1234ef567890", "0abcd1234ef567890"),
    (SERIAL, SERIAL),
    (TAG, TAG),
    ("somebody@corp.example.de", "somebody"),
    ("/home/erika/models", "erika"),
    ("glpat-Zx81kq99aabbccdd", "Zx81kq99"),
    (NODE, NODE),
    (OTHER, OTHER),
    ("gpu-gb200-1", "gpu-gb200"),
)
KEPT = ("NVIDIA-H200", "big-gpus", "label-of-ours.example.org/rack", "matchFeatures", "AVX512F", "rack-r17")
TEXT = " and ".join(text for text, _ in PLANTED[:11]) + " https://bigiron.corp.internal/wiki 10.20.30.40/24"
LOCAL = {
    "serial": SERIAL,
    "service.tag": TAG,
    "hostname": "frodo",
    "ip": "10.20.30.40",
    "uuid": "4c4c4544-0042-3510-8052-b4c04f4e3733",
    "interface": "enx001b21aabbcd",
    "owner": "somebody@corp.example.de",
    "models": "/home/erika/models",
    "token": "glpat-Zx81kq99aabbccdd",
    "rack": "rack-r17",
}
RULES: dict[str, list[Json]] = {
    "copies": [  # a label with a harmless key and a value that identifies
        {
            "name": "copy",
            "labels": {"label-of-ours.example.org/asset": "@local.machine.serial", "tag": "@local.machine.service.tag"},
            "annotations": {"label-of-ours.example.org/host": "@local.machine.hostname"},
            "labelsTemplate": "{{ range .local.machine }}x-{{ .Name }}=yes\n{{ end }}",
            "matchFeatures": [{"feature": "local.machine", "matchExpressions": {"serial": {"op": "Exists"}}}],
        }
    ],
    "hosts": [
        {
            "name": f"only on {NODE} and bigiron.corp.internal, as {TEXT}",
            "labels": {"special": "true"},
            "extendedResources": {"example.com/dongles": "2"},
            "taints": [{"key": "feature.node.kubernetes.io/special", "value": "hal9000", "effect": "PreferNoSchedule"}],
            "matchFeatures": [
                {"feature": "system.name", "matchExpressions": {"nodename": {"op": "In", "value": [NODE, OTHER]}}}
            ],
        }
    ],
    "memory": [
        {
            "name": "big",
            "labels": {"big-gpus": "true"},
            "matchFeatures": [
                {"feature": "nvidia.gpu", "matchExpressions": {"memory": {"op": "Gt", "value": ["80000"]}}}
            ],
        }
    ],
}


def plant(plane: ControlPlane) -> None:
    """What identifies, in every kind of object that a plan reads."""
    for number, node in enumerate(
        sorted(
            plane.request("GET", f"/api/v1/nodes?labelSelector={SELECTOR}")["items"],
            key=lambda x: str(x["metadata"]["name"]),
        )
    ):
        plane.request(
            "PATCH",
            f"/api/v1/nodes/{node['metadata']['name']}",
            {"metadata": {"labels": {"example.com/number": f"{number:02}"}}},
        )
    labels = {
        "label-of-ours.example.org/rack": "rack-r17",
        "label-of-ours.example.org/board": SERIAL,
        "example.com/nic-enx001b21aabbcd": "true",
        "example.com/host": "bigiron.corp.internal",
        "example.com/beside": f"rack-{OTHER}-eth0",
        "example.com/instance": "i-0abcd1234ef567890",
        "example.com/vm": "4C4C4544-0042-3510-8052-B4C04F4E3734",
    }
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"serial": SERIAL, "text": TEXT}),
        "example.com/note": TEXT,
    }
    plane.request("PATCH", f"/api/v1/nodes/{NODE}", {"metadata": {"labels": labels, "annotations": annotations}})
    addresses = [
        {"type": "Hostname", "address": "hal9000"},
        {"type": "InternalIP", "address": "10.20.30.40"},
        {"type": "InternalDNS", "address": "bigiron.corp.internal"},
    ]
    plane.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": {"addresses": addresses}})
    features = {"attributes": {"local.machine": {"elements": LOCAL}}}
    for name in ("extra", "zz-last"):
        item = {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {"name": name, "labels": {NODE_NAME: NODE}},
            "spec": {"labels": {"vendor.io/made": name, "vendor.io/serial": SERIAL}, "features": features},
        }
        plane.request("POST", f"{API}/namespaces/{MASTER_NAMESPACE}/nodefeatures", item)
    for name, rules in RULES.items():
        plane.request("POST", f"{API}/nodefeaturerules", rule_object(name, rules))
    data = {"nfd-worker.conf": f"# {TEXT}\ncore: {{labelSources: [all]}}\n"}
    config = {"metadata": {"name": "nfd-worker-conf"}, "data": data}
    plane.request("POST", f"/api/v1/namespaces/{MASTER_NAMESPACE}/configmaps", config)


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetPlace]:
    folder = tmp_path_factory.mktemp("snapshot")
    (folder / MASTER_CONFIG).write_text("enableTaints: true\n")
    with fleet_on(control_plane, folder, "--serve-reports") as found:
        try:
            plant(control_plane)

            def settled() -> bool:
                labels = control_plane.get_node(NODE)["metadata"]["labels"]
                return {"vendor.io/made", "label-of-ours.example.org/asset"} <= labels.keys()

            eventually(settled, 60)
            yield found
        finally:
            for name in RULES:
                control_plane.request("DELETE", f"{API}/nodefeaturerules/{name}")
            for name in ("extra", "zz-last"):
                control_plane.request("DELETE", f"{API}/namespaces/{MASTER_NAMESPACE}/nodefeatures/{name}")
            control_plane.request("DELETE", f"/api/v1/namespaces/{MASTER_NAMESPACE}/configmaps/nfd-worker-conf")


def cluster(place: FleetPlace) -> list[str]:
    url = f"http://localhost:{place.master.http_port}"
    return [f"--kubeconfig={place.plane.kubeconfig}", f"--master={url}", "-l", SELECTOR]


@pytest.fixture(scope="module")
def snapshot(place: FleetPlace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "fleet.jsonl.gz"
    assert main(["export", "fleet", "--path", str(path), *cluster(place)]) == 0
    return path


def test_nothing_in_the_file_identifies(snapshot: Path) -> None:
    text = gzip.decompress(snapshot.read_bytes()).decode()
    assert [hidden for _, hidden in PLANTED if hidden.lower() in text.lower()] == []
    assert [kept for kept in KEPT if kept not in text] == []
    lines = [json.loads(line) for line in text.splitlines()]
    assert sum("Node" in line for line in lines) == 20
    assert not any("uid" in line.get("Node", {}).get("metadata", {}) for line in lines)


def test_equal_texts_stay_equal(snapshot: Path) -> None:
    """The copy of a serial number in a label is the serial number of the feature."""
    found = parse_snapshot(gzip.decompress(snapshot.read_bytes()), "x")
    (node,) = (one for one in found.nodes if "label-of-ours.example.org/rack" in one["metadata"]["labels"])
    labels = node["metadata"]["labels"]
    (item, other) = found.objects.items
    serial = item["spec"]["features"]["attributes"]["local.machine"]["elements"]["serial"]
    assert serial != SERIAL
    assert {labels[f"label-of-ours.example.org/{name}"] for name in ("asset", "board")} == {serial}
    assert item["spec"]["labels"]["vendor.io/serial"] == other["spec"]["labels"]["vendor.io/serial"] == serial
    rule = found.rules["hosts"]["spec"]["rules"][0]
    assert node["metadata"]["name"] in rule["matchFeatures"][0]["matchExpressions"]["nodename"]["value"]
    assert list(found.replaced["system.name"]) == ["nodename"]


class Names:
    """What stands for what: one to one."""

    def __init__(self) -> None:
        self.there: dict[str, str] = {}
        self.back: dict[str, str] = {}

    def pair(self, real: str, other: str) -> bool:
        return self.there.setdefault(real, other) == other and self.back.setdefault(other, real) == real


def compare(real: Any, other: Any, names: Names, where: str = "") -> Iterator[str]:
    """Where two plans differ, but for texts that stand for others."""
    if isinstance(real, Mapping) and isinstance(other, Mapping):
        keys = {names.there.get(key, key): key for key in real}
        if keys.keys() != other.keys():
            yield f"{where}: {sorted(keys.keys() ^ other.keys())}"
        for fresh in keys.keys() & other.keys():
            yield from compare(real[keys[fresh]], other[fresh], names, f"{where}/{keys[fresh]}")
    elif isinstance(real, list) and isinstance(other, list):
        if len(real) != len(other):
            yield f"{where}: {real} {other}"
        for one, fresh in zip(real, other, strict=False):
            yield from compare(one, fresh, names, where)
    elif real != other and not (isinstance(real, str) and isinstance(other, str) and names.pair(real, other)):
        yield f"{where}: {real} {other}"


class Changes:
    """Random changes, made of features that the fleet has."""

    def __init__(self, snapshot: Path, folder: Path, seed: int) -> None:
        found = parse_snapshot(gzip.decompress(snapshot.read_bytes()), "x")
        self.random, self.folder = Random(seed), folder
        values: dict[tuple[str, str], set[str]] = {}
        for report in found.reports.values():
            contents: dict[str, list[Mapping[str, str]]] = {
                **{name: [one] for name, one in report.features.attributes.items()},
                **{name: list(one) for name, one in report.features.instances.items()},
            }
            for feature, elements in contents.items():
                for one in elements:
                    for name, value in one.items():
                        if name not in found.replaced.get(feature, ()):
                            values.setdefault((feature, name), set()).add(value)
        self.values = {key: sorted(some) for key, some in sorted(values.items())}
        features = {feature for feature, _ in values}
        self.by_feature = {name: [key for key in self.values if key[0] == name] for name in sorted(features)}

    def words(self) -> list[str]:
        """A change as flags: rules always, and perhaps others."""
        random, words = self.random, []
        rules = {random.choice(["new", *RULES]): [self.rule(index) for index in range(random.randint(1, 4))]}
        path = self.folder / "rules.yaml"
        path.write_text(yaml.safe_dump_all(rule_object(name, items) for name, items in rules.items()))
        words += ["--rules", str(path)]
        if random.random() < 0.4:
            words.append(f"--delete-rules={random.choice([one for one in RULES if one not in rules])}")
        if random.random() < 0.5:
            words.append(f"--config={self.write('nfd-master.conf', self.master())}")
        if random.random() < 0.5:
            words.append(f"--config={self.write('nfd-worker.conf', self.worker())}")
        return words

    def write(self, name: str, config: Json) -> Path:
        path = self.folder / name
        path.write_text(yaml.safe_dump(config))
        return path

    def rule(self, index: int) -> Json:
        random = self.random
        feature = random.choice(list(self.by_feature))
        _, name = random.choice(self.by_feature[feature])
        value = random.choice(self.values[feature, name])
        op, values = random.choice(
            [("In", [value]), ("NotIn", [value]), ("Exists", None), ("DoesNotExist", None), ("InRegexp", ["[0-4]"])]
        )
        expression = {"op": op, **({"value": values} if values else {})}
        sets: Json = random.choice(
            [
                {"labels": {f"made-{index}": "yes"}},
                {"labels": {f"made-{index}": f"@{feature}.{name}", "big-gpus": "perhaps"}},
                {"annotations": {f"note-{index}": "some text"}, "labels": {"special": "no"}},
                {
                    "taints": [
                        {"key": "feature.node.kubernetes.io/t", "effect": "PreferNoSchedule", "value": str(index)}
                    ]
                },
                {"extendedResources": {"example.com/dongles": str(index)}},
                {"labels": {"where": "@system.name.nodename", "label-of-ours.example.org/asset": "none"}},
            ]
        )
        return {
            "name": f"r{index}",
            **sets,
            "matchFeatures": [{"feature": feature, "matchExpressions": {name: expression}}],
        }

    def master(self) -> Json:
        options: list[Json] = [
            {"enableTaints": False},
            {"labelWhiteList": "^(cpu|gpu|made)"},
            {"resourceLabels": ["nvidia.com/gpu.memory"]},
            {"denyLabelNs": ["nvidia.com", "vendor.io"]},
            {"restrictions": {"disableAnnotations": True}},
            {"restrictions": {"denyNodeFeatureLabels": True}},
            {"restrictions": {"nodeFeatureNamespaceSelector": {"matchLabels": {"no": "where"}}}},
        ]
        return {"enableTaints": True, **self.random.choice(options)}

    def worker(self) -> Json:
        options: list[Json] = [
            {"core": {"labelSources": ["all", "-cpu"]}},
            {"core": {"labelWhiteList": "gpu|kernel"}},
            {"core": {"featureSources": ["all", "-memory"]}},
            {"sources": {"pci": {"deviceLabelFields": ["vendor"]}}},
            {"sources": {"kernel": {"configOpts": ["X86", "NUMA"]}}},
        ]
        return dict(self.random.choice(options))


def plan(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Json]:
    status = main(["plan", *words, "-o", "json", "--exit-code"])
    out, err = capsys.readouterr()
    assert err == ""
    return status, json.loads(out)


def test_a_plan_from_the_file_is_that_of_the_cluster(
    place: FleetPlace, snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty random changes: nodes, keys, values, what is not done, warnings and exit status."""
    changes, changed = Changes(snapshot, tmp_path, 21), 0
    found = parse_snapshot(gzip.decompress(snapshot.read_bytes()), "x")
    by_number = {
        str(node["metadata"]["labels"]["example.com/number"]): str(node["metadata"]["name"]) for node in found.nodes
    }
    names = Names()
    for node in place.plane.request("GET", f"/api/v1/nodes?labelSelector={SELECTOR}")["items"]:
        assert names.pair(node["metadata"]["name"], by_number[node["metadata"]["labels"]["example.com/number"]])
    for number in range(20):
        words = changes.words()
        real = plan(capsys, *words, *cluster(place))
        other = plan(capsys, *words, "--cluster-snapshot", str(snapshot))
        told = {
            name: Path(name).read_text() for word in words if Path(name := word.partition("=")[2] or word).is_file()
        }
        assert (number, list(compare([*real], [*other], names))) == (number, []), told
        changed += len(real[1]["nodes"])
    assert changed > 100


def test_a_plan_as_markdown(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table with a row for each key; what a key or a value has in it ends no cell and no code."""
    rules = tmp_path / "rules.yaml"
    made = {"annotations": {"note": "a|b `c` @all"}, "labels": {"made": "yes", "kubernetes.io/x": "1"}}
    rule = {
        "name": "r",
        **made,
        "matchFeatures": [{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}],
    }
    rules.write_text(yaml.safe_dump(rule_object("new", [rule])))
    words = ["plan", "--cluster-snapshot", str(snapshot), "--rules", str(rules), "-l", "example.com/number in (03, 04)"]
    assert main([*words, "-o", "markdown"]) == 0
    out, _ = capsys.readouterr()
    assert out == (
        "**nfd plan:** 2 of 2 nodes change: 4 added, 0 changed, 0 removed\n\n"
        "|  | Kind | Key | Before | After | Nodes |\n| --- | --- | --- | --- | --- | ---: |\n"
        "| + | labels | `feature.node.kubernetes.io/made` |  | `yes` | 2 |\n"
        "| + | annotations | `feature.node.kubernetes.io/note` |  | `` a\\|b `c` @all `` | 2 |\n\n"
        "**Not done**\n\n- label `kubernetes.io/x`: `namespace 'kubernetes.io' is not allowed` (2 nodes)\n\n"
        "**Warnings**\n\n- `rule 'r' of NodeFeatureRule new: label 'kubernetes.io/x': "
        "namespace 'kubernetes.io' is not allowed`\n"
    )


def test_what_cannot_be_evaluated_is_named(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule of a file that compares what the snapshot has replaced; not one that asks whether it is there."""
    rules = tmp_path / "rules.yaml"
    expressions = [{"nodename": {"op": "In", "value": [NODE]}}, {"nodename": {"op": "Exists"}}]
    terms = [{"feature": "system.name", "matchExpressions": one} for one in expressions]
    both = [
        {"name": f"r{index}", "labels": {"x": "1"}, "matchAny": [{"matchFeatures": [one]}]}
        for index, one in enumerate(terms)
    ]
    rules.write_text(yaml.safe_dump(rule_object("new", both)))
    _, found = plan(capsys, "--cluster-snapshot", str(snapshot), "--rules", str(rules))
    assert [one for one in found["warnings"] if "in their place" in one] == [
        "rule 'r0' of NodeFeatureRule new compares system.name.nodename: the snapshot has other values in their place, "
        "so the result may differ on the cluster"
    ]


def test_a_file_that_is_none(snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is an error with file and line, and exit status 2."""
    whole, path = gzip.decompress(snapshot.read_bytes()), tmp_path / "f"
    lines = whole.split(b"\n")
    for content, told in (
        (b"", "f:1: is not a line of a snapshot"),
        (b"{}", "is not a snapshot of format 1: found null"),
        (b'{"snapshot": 2}', "is not a snapshot of format 1: found 2"),
        (b'{"snapshot": 1}', "f:1: is not a line of a snapshot that `nfd export fleet` made: 'settings' is missing"),
        (lines[0].replace(b'"replaced":{', b'"replaced":{"pci.device":5,'), "f:1: is not a line"),
        (b"\n".join([lines[0], b"[]"]), "f:2: is not a line"),
        (b"\n".join([lines[0], b'{"content":1e999,"value":[]}', b"[]"]), "f:3: is not a line"),
        (b"\n".join([*lines[:3], lines[3][:50]]), "f:4: is not a line"),
        (snapshot.read_bytes()[:2000], "is packed with gzip, and cut off"),
        (b"\x1f\x8bnothing", "is packed with gzip, and damaged"),
    ):
        path.write_bytes(content)
        assert main(["plan", "--delete-rules=memory", f"--cluster-snapshot={path}"]) == 2
        assert told in capsys.readouterr().err
    assert main(["plan", "--delete-rules=memory", f"--cluster-snapshot={tmp_path / 'none'}"]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["plan", "--delete-rules=memory", f"--cluster-snapshot={snapshot}", "--context=c", "--replay=x"]) == 2
    assert "--cluster-snapshot cannot be combined with --replay, --context" in capsys.readouterr().err


def test_of_the_master_s_state_a_file_has_what_a_plan_needs() -> None:
    """A node is not named by what the API server rejects there, nor by a startup taint that it still has."""
    name, rejected = "hal9000", Unwritten("label", "a/b", "webhook of hal9000", "not on hal9000.", ("hal9000",))
    state = MasterState(Policy(enable_taints=True), unwritten=(rejected,), kept_taints={name: {"a/b:NoSchedule": name}})
    node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}}
    made = Anonymizer(ClusterDocuments([node], {}, state)).documents().documents
    assert name not in "".join(render_snapshot(made))
    (fresh,) = made.state.unwritten
    assert fresh.nodes == (made.nodes[0]["metadata"]["name"],)
    assert fresh.reason == f"not on {fresh.nodes[0]}."
    assert made.state.policy == state.policy
