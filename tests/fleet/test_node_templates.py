"""Node templates: what a group has in common, each planner's form of it, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.fleet.node_template import NodeTemplate, distinguish, group_nodes, make_template, managed_labels
from nfd.fleet.planner_formats import PLANNERS, Facts, drift, join
from nfd.master.node.ownership import Owned, render_owned
from nfd.store.base import Kind

F = "feature.node.kubernetes.io/"
N = "nvidia.com/"
H200 = {
    N + "gpu.product": "NVIDIA-H200",
    N + "gpu.memory": "143771",
    N + "gpu.count": "8",
    F + "cpu-cpuid.AMXBF16": "true",
    F + "cpu-hardware_multithreading": "true",
}
PASSING = {
    N + "gpu.state": "degraded",
    N + "gpu.clique": "7f3c.32766",
    N + "gfd.timestamp": "1700000000",
    F + "kernel-version.full": "6.8.0",
    F + "accelerator-amd.state": "no-driver",
    F + "accelerator-amd.count.failing": "1",
}
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def node(
    name: str, labels: Mapping[str, str], taints: tuple[Mapping[str, str], ...] = (), **capacity: str
) -> dict[str, Any]:
    """A Node whose labels are all managed but those of Kubernetes."""
    managed = ",".join(sorted(key.removeprefix(F) for key in labels if not key.startswith("kubernetes.io/")))
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/arch": "amd64", **labels},
            "annotations": {"nfd.node.kubernetes.io/feature-labels": managed},
        },
        "spec": {"taints": list(taints)},
        "status": {
            "capacity": {"cpu": "192", "memory": "2113928Mi", **capacity},
            "nodeInfo": {"architecture": "amd64"},
        },
    }


def test_what_all_nodes_have_is_taken_and_the_rest_has_a_reason() -> None:
    one = node("a", H200 | PASSING | {F + "pci-10de.present": "true", F + "only": "a", F + "second": "x"}, (TAINT,))
    two = node("b", H200 | PASSING | {F + "pci-10de.present": "true", F + "only": "b"}, (TAINT,))
    found = make_template("h200", [one, two])
    assert found.labels == H200 | {F + "pci-10de.present": "true"}
    assert found.taints == (("nvidia.com/gpu", "present", "NoSchedule"),)
    assert dict(found.left_out) == {
        N + "gpu.state": "it is a state",
        N + "gpu.clique": "it belongs to single nodes",
        N + "gfd.timestamp": "it is a time",
        F + "kernel-version.full": "it changes with the image",
        F + "accelerator-amd.state": "it is a state",
        F + "accelerator-amd.count.failing": "it is a state",
        F + "only": "the nodes have 2 values",
        F + "second": "1 of 2 nodes do not have it",
    }
    assert (found.arch, found.os, found.cpu, found.memory) == ("amd64", "linux", 192, 2113928 << 20)


def test_labels_of_other_writers_are_not_taken() -> None:
    one = node("a", H200)
    one["metadata"]["labels"] |= {"team": "x", N + "mig.config": "all-1g", "node.kubernetes.io/instance-type": "p5en"}
    assert managed_labels(one) == H200.keys()
    assert make_template("a", [one]).labels == H200
    assert make_template("a", [one]).instance_types == ("p5en",)


def test_lists_of_several_masters_count() -> None:
    one = node("a", {F + "x": "1", "vendor.io/y": "2"})
    one["metadata"]["annotations"] = {
        "nfd.node.kubernetes.io/feature-labels": "x",
        "edge.nfd.node.kubernetes.io/feature-labels": "vendor.io/y",
        "evilnfd.node.kubernetes.io/feature-labels": "kubernetes.io/arch",
    }
    assert managed_labels(one) == {F + "x", "vendor.io/y"}


def test_every_label_that_a_master_lists_counts() -> None:
    """Also one without a namespace."""
    labels = {"bare": "1", F + "cpu-x": "1", "vendor.io/y": "1"}
    one = node("a", labels)
    one["metadata"]["annotations"] = render_owned(Owned({Kind.LABELS: dict.fromkeys(labels)}))
    assert managed_labels(one) == labels.keys()
    assert make_template("a", [one]).labels == labels


def test_resources_and_passing_taints() -> None:
    startup = {"key": "readiness.k8s.io/features", "effect": "NoSchedule"}
    unready = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    capacity = {"nvidia.com/gpu": "8", "hugepages-2Mi": "0", "vendor.io/nic": "4", "attachable-volumes-x": "3"}
    one = node("a", H200, (TAINT, startup), **capacity)
    two = node("b", H200, (unready, TAINT), **capacity | {"vendor.io/nic": "3"})
    found = make_template("g", [one, two])
    assert found.resources == {"nvidia.com/gpu": "8"}
    assert found.left_out["vendor.io/nic"] == "the nodes have different amounts"
    assert found.taints == (("nvidia.com/gpu", "present", "NoSchedule"),)


def test_patterns_choose_labels() -> None:
    assert make_template("g", [node("a", H200)], ["nvidia.com/*"]).labels.keys() == {
        key for key in H200 if key.startswith(N)
    }


def test_a_group_without_nodes_is_an_error() -> None:
    with pytest.raises(ValueError, match="group g: no node"):
        make_template("g", [])


def test_groups_by_label() -> None:
    groups, without = group_nodes([node("a", {"pool": "x"}), node("b", {}), node("c", {"pool": "x"})], "pool")
    assert [one["metadata"]["name"] for one in groups["x"]] == ["a", "c"]
    assert without == ["b"]


def test_the_fewest_labels_that_tell_groups_apart() -> None:
    template = make_template("g", [node("a", H200)])
    assert distinguish(template, [], 8) == ({N + "gpu.product": "NVIDIA-H200"}, 0)
    twin = dict(H200) | {F + "cpu-cpuid.AMXBF16": "false"}
    assert distinguish(template, [twin], 8) == (
        {N + "gpu.product": "NVIDIA-H200", F + "cpu-cpuid.AMXBF16": "true"},
        0,
    )
    assert distinguish(template, [H200, twin], 8)[1] == 1
    assert distinguish(template, [twin], 1) == ({N + "gpu.product": "NVIDIA-H200"}, 1)


names = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789", min_size=1, max_size=20)
parts = st.builds("{}{}{}".format, names, st.sampled_from("-_."), names)
keys = st.builds("{}/{}".format, st.sampled_from(("nvidia.com", F[:-1], "vendor.io")), parts)
templates = st.builds(
    NodeTemplate,
    name=names,
    labels=st.dictionaries(keys, parts, min_size=1, max_size=8),
    taints=st.lists(st.tuples(keys, st.just("") | parts, st.sampled_from(("NoSchedule", "NoExecute"))), max_size=3).map(
        lambda found: tuple(sorted({key: (key, *rest) for key, *rest in found}.values()))
    ),
    resources=st.dictionaries(keys, st.integers(1, 64).map(str), max_size=1),
    cpu=st.just(8),
    memory=st.just(1 << 35),
    arch=st.just("amd64"),
    os=st.just("linux"),
    instance_types=st.just(("p5en.48xlarge",)),
)


@pytest.mark.parametrize("name", ["aws-asg", "azure-vmss", "gce", "cluster-api", "karpenter"])
@given(template=templates)
def test_what_is_rendered_is_read_back(name: str, template: NodeTemplate) -> None:
    planner = PLANNERS[name]
    found = join(map(planner.read, planner.render(template, []).documents))
    assert found == Facts(template.labels, frozenset(template.taints), template.resources)
    assert drift(found, found, [template.labels]) == []


@pytest.mark.parametrize("name", ["kueue", "volcano"])
@given(template=templates)
def test_selectors_choose_the_group(name: str, template: NodeTemplate) -> None:
    planner = PLANNERS[name]
    found = join(map(planner.read, planner.render(template, []).documents))
    assert found.labels.items() <= template.labels.items()


def many(count: int) -> NodeTemplate:
    labels = H200 | {F + f"cpu-cpuid.X{index:03}": "true" for index in range(count)}
    return NodeTemplate("g", labels, (("nvidia.com/gpu", "present", "NoSchedule"),), {"nvidia.com/gpu": "8"})


@pytest.mark.parametrize(("name", "limit"), [("aws-asg", 50), ("azure-vmss", 50), ("karpenter", 100), ("kueue", 8)])
def test_limits_of_a_planner(name: str, limit: int) -> None:
    rendered = PLANNERS[name].render(many(150), [])
    facts = join(map(PLANNERS[name].read, rendered.documents))
    assert N + "gpu.product" in facts.labels
    assert len(facts.labels) <= limit
    if name != "kueue":
        total = len(facts.labels) + (2 if "tags" in name or name != "karpenter" else 0)
        assert total == limit
        assert "are over the limit of" in " ".join(rendered.notes)
    assert N + "gpu.memory" in facts.labels or name == "kueue"


def test_keys_that_are_too_long_for_tags() -> None:
    long = f"{F}{'x' * 63}"
    rendered = PLANNERS["aws-asg"].render(NodeTemplate("g", {long: "true", F + "short": "true"}), [])
    assert list(rendered.documents[0]) == [f"k8s.io/cluster-autoscaler/node-template/label/{F}short"]
    assert rendered.notes == [f"1 labels have keys of more than 82 characters: {long}"]


@pytest.mark.parametrize("name", ["aws-asg", "azure-vmss", "gce"])
def test_taints_with_one_key(name: str) -> None:
    taints = (("k", "", "NoExecute"), ("k", "", "NoSchedule"))
    rendered = PLANNERS[name].render(NodeTemplate("g", {F + "x": "1"}, taints), [])
    assert PLANNERS[name].read(rendered.documents[0]).taints == {("k", "", "NoExecute")}
    place = "AUTOSCALER_ENV_VARS" if name == "gce" else "a tag"
    assert rendered.notes == [f"{place} holds one taint for each key, so this one is left out: k:NoSchedule"]


LISTS = ("node_labels", "node_taints", "extended_resources")


@given(template=templates)
def test_the_cluster_autoscaler_reads_the_text_of_gce(template: NodeTemplate) -> None:
    """As it reads a list (cloudprovider/gce/templates.go): each item has a `=`, and the last one of a key counts."""
    (document,) = PLANNERS["gce"].render(template, []).documents
    parts = dict(part.split("=", 1) for part in document["AUTOSCALER_ENV_VARS"].split(";"))
    found = [dict(item.split("=", 1) for item in parts[name].split(",")) if name in parts else {} for name in LISTS]
    taints = {key: f"{value}:{effect}" for key, value, effect in template.taints}
    assert found == [template.labels, taints, template.resources]


def test_azure_spells_underscores() -> None:
    (tags,) = PLANNERS["azure-vmss"].render(NodeTemplate("g", H200), []).documents
    prefix = "k8s.io_cluster-autoscaler_node-template_label_"
    assert tags[f"{prefix}nvidia.com_gpu.product"] == "NVIDIA-H200"
    assert tags[f"{prefix}feature.node.kubernetes.io_cpu-hardware~2multithreading"] == "true"


def test_the_text_of_gce() -> None:
    template = make_template("g", [node("a", {N + "gpu.count": "8"}, (TAINT,), **{"nvidia.com/gpu": "8"})])
    assert PLANNERS["gce"].render(template, []).documents == [
        {
            "AUTOSCALER_ENV_VARS": "node_labels=nvidia.com/gpu.count=8;node_taints=nvidia.com/gpu=present:NoSchedule;"
            "extended_resources=nvidia.com/gpu=8;arch=amd64;os=linux"
        }
    ]


def test_labels_that_karpenter_rejects() -> None:
    template = NodeTemplate("g", {"karpenter.sh/x": "1", "kubernetes.io/hostname": "a", N + "gpu.count": "8"})
    rendered = PLANNERS["karpenter"].render(template, [])
    assert rendered.documents[0]["spec"]["template"]["metadata"]["labels"] == {N + "gpu.count": "8"}
    assert sorted(rendered.notes) == [
        "Karpenter rejects the label karpenter.sh/x",
        "Karpenter rejects the label kubernetes.io/hostname",
    ]


def test_drift() -> None:
    wanted = Facts({"a/x": "1", "a/y": "2"}, frozenset({("t", "", "NoSchedule")}), {"r/x": "8"})
    there = Facts({"a/x": "0", "a/z": "3", "team": "red"}, frozenset({("u", "v", "NoExecute")}), {"r/y": "1"})
    nodes = [{"a/x": "1", "a/y": "2", "team": "red"}, {"a/x": "1", "a/y": "2", "team": "red", "a/z": "3"}]
    assert drift(wanted, there, nodes) == [
        "label a/x: the nodes have '1', '0' is configured",
        "label a/y: the nodes have '2', it is not configured",
        "label a/z: '3' is configured, but 1 of 2 nodes do not have it",
        "resource r/x: the nodes have '8', it is not configured",
        "resource r/y: 1 is configured, but not all nodes have it",
        "taint t:NoSchedule is not configured",
        "taint u=v:NoExecute is configured, but not all nodes have it",
    ]


@pytest.mark.parametrize(
    ("name", "document", "reason"),
    [
        ("aws-asg", {"Tags": "x"}, "neither a map of tags nor a list"),
        ("aws-asg", {"k8s.io/cluster-autoscaler/node-template/taint/x": "y:Never"}, "the effect must be one of"),
        ("gce", {"x": "y"}, "has no AUTOSCALER_ENV_VARS"),
        ("gce", {"AUTOSCALER_ENV_VARS": "node_taints=a=b:NoExecute,c:NoSchedule"}, "'c:NoSchedule' has no '='"),
        ("karpenter", {"kind": "NodePool", "spec": {"template": []}}, None),
        ("karpenter", {"kind": "NodePool", "spec": {"template": ["x"]}}, "template must be a map"),
    ],
)
def test_documents_of_another_form(name: str, document: dict[str, Any], reason: str | None) -> None:
    if reason is None:
        assert PLANNERS[name].read(document) == Facts()
        return
    with pytest.raises(ValueError, match=reason):
        PLANNERS[name].read(document)


def test_lists_of_the_aws_command_line_are_read() -> None:
    tags = [{"Key": "k8s.io/cluster-autoscaler/node-template/label/a/x", "Value": "1", "PropagateAtLaunch": True}]
    assert PLANNERS["aws-asg"].read({"Tags": tags}).labels == {"a/x": "1"}
    assert PLANNERS["aws-asg"].read({"k8s.io/cluster-autoscaler/node-template/label/a/x": True}).labels == {
        "a/x": "true"
    }
