"""`nfd explain NODE LABEL` on a real API server, after a real master has done its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nfd.cli import main
from nfd.features import Features
from nfd.rpc.client import Reporter
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import port_of
from tests.fleet20.place import running_master
from tests.master.conftest import BOOT, Worker, send
from tests.master.custom_resources import KINDS, OTHER, PCI, Kinds, RuleMasters, rule
from tests.master.places import Cluster, labels_of, until

F = "feature.node.kubernetes.io/"
LONG = "x" * 64


@pytest.fixture
def kinds(control_plane: ControlPlane) -> Iterator[Kinds]:
    found = Kinds(control_plane)
    found.install(*KINDS)
    yield found
    found.clear()


@pytest.fixture
async def masters(control_plane: ControlPlane) -> AsyncIterator[RuleMasters]:
    found = RuleMasters(control_plane)
    async with found.stack:
        yield found


EXPECTED = {
    F + "cpu-a": ["=1", "set by source cpu"],
    "ruled": ["=1", "set by rule 'r' of NodeFeatureRule explained", "it matches on 1 nodes"],
    "asked": ["=1", f"set by NodeFeature {OTHER}/explained", "sets it to '1'"],
    "zone/of-admin": ["=a", "not managed by nfd; set by kubelet"],
    F + "cpu-b": ["=mine", "set by rule 'over'", "label 'cpu-b': overwrites the value of source cpu"],
    "missing": ["is missing", "rule 'typo' of NodeFeatureRule explained sets it: it matches on 0 nodes",
                "feature pci.devise: no node reports it; did you mean pci.device?", "nfd explain -"],
    "kubernetes.io/bad": ["is missing", "explained sets it to '1'; namespace 'kubernetes.io' is not allowed"],
    "example.com/long": ["is missing", f"sets it to '{LONG}'; value '{LONG}' is 64 characters long, at most 63"],
    "unheard": ["nfd explain -", "is missing", "no rule and no NodeFeature sets it"],
}  # fmt: skip


WHOLE = "of NodeFeatureRule templated"
OVERWRITTEN = [
    "=2",
    f"set by rule 't' {WHOLE}",
    "rule 'twice' of NodeFeatureRule explained sets it",
    f"label 'ruled-twice': rule 't' {WHOLE} overwrites the value of this rule",
    f"rule 't' {WHOLE} sets labels by a template",
    "label 'ruled-twice': overwrites the value of rule 'twice' of NodeFeatureRule explained",
]
"""The template has unknown key in its text."""


async def test_explain_on_a_cluster(
    control_plane: ControlPlane,
    masters: RuleMasters,
    kinds: Kinds,
    node_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Cluster(control_plane)
    place.create(node_name, {"zone/of-admin": "a"}, {}, BOOT)
    kinds.rules(
        "explained",
        rule(labels={"ruled": "1"}),
        rule("typo", feature="pci.devise", labels={"missing": "1"}),
        rule("twice", labels={"ruled-twice": "1"}),
        rule("over", labels={"cpu-b": "mine"}),
    )
    kinds.features(
        OTHER, "explained", node_name, labels={"asked": "1", "kubernetes.io/bad": "1", "example.com/long": LONG}
    )
    await send(await masters.start(), Worker(node_name).report({F + "cpu-a": "1", F + "cpu-b": "1"}, features=PCI))
    await until(lambda: F + "cpu-b" in labels_of(place, node_name))
    await until(lambda: kinds.status("explained").get("nodes") == 1)
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    for label, words in EXPECTED.items():
        assert await asyncio.to_thread(main, ["explain", node_name, label]) == 0
        shown = capsys.readouterr().out
        assert [word for word in words if word not in shown] == []
    kinds.rules("templated", rule("t", labelsTemplate="{{ `ruled` }}-twice=2"))
    await until(lambda: "problems" in kinds.status("templated").get("rules", [{}])[0])
    await until(lambda: "problems" in kinds.status("explained")["rules"][2])
    assert await asyncio.to_thread(main, ["explain", node_name, "ruled-twice"]) == 0
    shown = capsys.readouterr().out
    assert [word for word in OVERWRITTEN if word not in shown] == []
    assert await asyncio.to_thread(main, ["explain", "no-such-node", "x"]) == 2
    assert "no such node" in capsys.readouterr().err


ODD = {
    "nvidia": {"nvidia.gpu": ({"index": "0", "memory": "many"},)},
    "amd": {"amd.gpu": ({"device": "74a1"},), "amd.partition": ({"memory": "many"},)},
    "intel": {"intel.device": ({"class": "0300"},)},
    "accelerator": {"accelerator.device": ({"vendor": "amd", "memory": "many"},)},
}
"""Elements that no source would give, as a NodeFeature object or a report may have them."""


def test_features_that_a_source_cannot_use(
    control_plane: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That source is named, and the label is explained."""
    place, name = Cluster(control_plane), "odd-features"
    place.create(name, {}, {}, BOOT)
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    instances = {key: value for one in ODD.values() for key, value in one.items()}
    features = Features(attributes={"nvidia.node": {}}, instances=instances)
    with running_master(control_plane, tmp_path, "--serve-reports") as program:
        Reporter(f"127.0.0.1:{port_of(program)}").send(Worker(name).report({F + "cpu-a": "1"}, features=features))
        assert main(["explain", name, "cpu-a", f"--master=http://localhost:{program.http_port}"]) == 0
    shown = capsys.readouterr().out
    assert "set by source cpu" in shown
    assert [source for source in ODD if f"source {source} fails on the features of the node: " not in shown] == []
    place.delete(name)
