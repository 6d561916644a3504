"""What a Node and the pods on it come down to."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.fleet.gpu_resources import Device, explain_offer
from nfd.fleet.gpus import Amount, group
from nfd.fleet.node_summary import cpu_name, summarize, summarize_all, to_json, with_reports
from nfd.fleet.pods import GPU_INDEX, Ask, ask_of

F = "feature.node.kubernetes.io/"
N = "nvidia.com/"
T4 = {
    N + "gpu.count": "2",
    N + "gpu.product": "Tesla-T4",
    N + "gpu.memory": "15360",
    N + "gpu.present": "true",
    N + "gpu.replicas": "1",
    N + "gpu.sharing-strategy": "none",
    N + "cuda.driver-version.full": "550.163.01",
    F + "pci-10de.present": "true",
}


def node(labels: dict[str, str], name: str = "n", **offered: str) -> dict[str, Any]:
    amounts = {
        key.replace("nvidia_com", "nvidia.com")
        .replace("aliyun_com", "aliyun.com")
        .replace("__", "/")
        .replace("_", "-"): value
        for key, value in offered.items()
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": {"cpu": "8", **amounts},
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(amounts: dict[str, str], **fields: Any) -> dict[str, Any]:
    containers = [{"resources": {"limits": amounts}}]
    return {
        "metadata": {"name": "p", "namespace": "d", "annotations": fields.get("annotations")},
        "spec": {"nodeName": "n", "containers": containers, **fields.get("spec", {})},
        "status": {"phase": fields.get("phase", "Running")},
    }


def test_a_healthy_node() -> None:
    found = summarize(node(T4, nvidia_com__gpu="2") | {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    assert (found.gpus.product, found.gpus.usable, found.gpus.present) == ("Tesla-T4", 2, 2)
    assert (found.gpus.driver, found.gpus.models[0].memory) == ("550.163.01", 15360)
    assert found.taints == ("gpu:NoSchedule",)


PROBLEMS = [
    ({}, {}, ["no feature labels: no worker has reported"]),
    (T4, {"aliyun.com__gpu_mem": "30"}, []),
    (T4, {"cpu": "8"}, ["GPUs are not offered: no device plug-in"]),
    ({F + "pci-0302_10de.present": "true"}, {}, ["NVIDIA GPU on PCI without nvidia.com labels"]),
    (
        {**T4, N + "gpu.state": "degraded", N + "gpu.count.present": "4", N + "gpu.count.failing": "1"},
        {},
        ["GPUs degraded", "1 of 4 GPUs failing"],
    ),
    ({**T4, N + "gpu.count.present": "3"}, {"nvidia.com__gpu": "2"}, ["1 of 3 GPUs missing"]),
    ({N + "gpu.present": "true", F + "x": "1"}, {}, ["GPUs known from PCI alone"]),
    ({N + "gpu.present": "true", N + "gpu.state": "no-driver", F + "x": "1"}, {}, ["GPUs no-driver"]),
]


@pytest.mark.parametrize(("labels", "offered", "problems"), PROBLEMS)
def test_problems(labels: dict[str, str], offered: dict[str, str], problems: list[str]) -> None:
    assert list(summarize(node(labels, **offered)).problems) == problems


def test_silent_workers_are_problems() -> None:
    """Nodes without a label of ours have none to speak of."""
    nodes = [summarize(node({F + "x": "1"}, name)) for name in "abc"] + [summarize(node({}, "d"))]
    found = with_reports(nodes, {"a": 12.0, "b": 4000.0})
    assert [one.problems for one in found[:3]] == [
        (),
        ("worker silent for 67 min",),
        ("has not reported to this master",),
    ]
    assert [one.reported for one in found] == [12.0, 4000.0, None, None]
    assert found[3].problems == nodes[3].problems
    assert to_json(found[0])["lastReport"] == 12.0


def test_conditions_come_first() -> None:
    sick = node({F + "x": "1"})
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}]
    sick["spec"] = {"unschedulable": True}
    assert summarize(sick).problems == ("not ready", "DiskPressure", "cordoned")
    del sick["status"]["conditions"]
    assert summarize(sick).problems[0] == "not ready"


SHARED = {**T4, N + "gpu.product": "Tesla-T4-SHARED", N + "gpu.replicas": "4", N + "gpu.sharing-strategy": "mps"}
CARVED = {**T4, N + "gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", N + "gpu.count": "14"}
MIXED = {
    **T4,
    N + "mig-1g.5gb.count": "3",
    N + "mig-2g.10gb.count": "1",
    N + "mig-1g.5gb.replicas": "2",
    N + "mig-1g.5gb.sharing-strategy": "time-slicing",
}


@pytest.mark.parametrize(
    ("labels", "resource", "product", "layout", "shared"),
    [
        (SHARED, "nvidia.com__gpu.shared", "Tesla-T4", "", "mps×4"),
        (CARVED, "nvidia.com__gpu", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "1g.5gb×14", ""),
        (MIXED, "nvidia.com__mig_1g.5gb", "Tesla-T4", "1g.5gb×3 2g.10gb×1", "time-slicing×2"),
        (T4, "aliyun.com__gpu_mem", "Tesla-T4", "", "gpu-mem"),
    ],
)
def test_every_way_to_share(labels: dict[str, str], resource: str, product: str, layout: str, shared: str) -> None:
    found = group([summarize(node(labels, **{resource: "7"}))])[0]
    assert (found.product, found.mig, found.sharing) == (product, layout, shared)
    assert list(found.resources.values()) == [Amount(7, 0)]


def test_several_models() -> None:
    labels = {**T4, N + "gpu.model.Tesla-T4.count": "2", N + "gpu.model.NVIDIA-L4.count": "1"}
    found = summarize(node(labels)).gpus
    assert (found.product, found.usable) == ("NVIDIA-L4 + Tesla-T4", 3)


def test_pods_hold_the_greater_of_containers_and_init_containers() -> None:
    gpu = "nvidia.com/gpu"
    limits = {"resources": {"limits": {gpu: "1"}}}
    sidecar = {**limits, "restartPolicy": "Always"}
    init = {"resources": {"requests": {gpu: "3"}}}
    for first, held in (([], 1), ([sidecar], 2), ([sidecar, init], 4), ([init, sidecar], 3)):
        ask = ask_of(pod({gpu: "1"}, spec={"initContainers": first}))
        assert ask is not None
        assert ask.resources == {gpu: held}
    assert ask_of(pod({gpu: "1"}, phase="Succeeded")) is None
    assert ask_of(pod({gpu: "1"}, spec={"nodeName": ""})) is None
    assert ask_of(pod({"cpu": "1"})) is None


def asks_of(pods: list[dict[str, Any]]) -> list[Ask]:
    return [ask for one in pods if (ask := ask_of(one)) is not None]


@pytest.mark.parametrize("text", ["9" * 5000, "²", "１", "-1", "1_0", ""], ids=lambda text: ascii(text[:8]))
def test_a_text_that_is_no_number(text: str) -> None:
    """In an annotation of a pod, which any tenant may write, and in labels."""
    gpu = "nvidia.com/gpu"
    assert [ask.gpu for ask in asks_of([pod({gpu: "1"}, annotations={GPU_INDEX: text})])] == [None]
    model = {F + "cpu-model.vendor_id": "Intel", F + "cpu-model.family": text, F + "cpu-model.id": text}
    found = summarize(node({**T4, **model, N + "gpu.count.present": text, N + "gpu.count": text}))
    assert (found.gpus.usable, found.gpus.present) == (0, 1)


def test_gpushare_says_on_which_gpu() -> None:
    def placed(index: str, amount: str) -> dict[str, Any]:
        return pod({"aliyun.com/gpu-mem": amount}, annotations={"ALIYUN_COM_GPU_MEM_IDX": index})

    asks = asks_of([placed("0", "8"), placed("1", "3"), placed("1", "4"), placed("-1", "2"), placed("9", "1")])
    offered = {"aliyun.com__gpu_mem": "30", "aliyun.com__gpu_count": "2"}
    resource = summarize(node(T4, **offered), asks).resources[0]
    assert resource.devices == (Device(0, 15, 8), Device(1, 15, 7))
    assert (resource.allocated, resource.unplaced) == (18, 3)


def test_resources_that_are_gone_count_while_pods_hold_them() -> None:
    asks = asks_of([pod({"nvidia.com/gpu": "1"})])
    assert summarize(node(T4, nvidia_com__gpu="0")).resources == ()
    assert [one.allocated for one in summarize(node(T4, nvidia_com__gpu="0"), asks).resources] == [1]


def test_nodes_come_by_name_and_groups_by_size() -> None:
    two = node(T4, "b", nvidia_com__gpu="2")
    eight = node({**T4, N + "gpu.product": "NVIDIA-L4", N + "gpu.count": "8"}, "a", nvidia_com__gpu="8")
    found = summarize_all([two, eight])
    assert [one.name for one in found] == ["a", "b"]
    assert [one.product for one in group(found)] == ["NVIDIA-L4", "Tesla-T4"]


@pytest.mark.parametrize(
    ("vendor", "family", "model", "name"),
    [
        ("Intel", "6", "143", "Intel Sapphire Rapids"),
        ("AMD", "25", "1", "AMD Milan"),
        ("ARM", "15", "54512", "ARM Neoverse-V2"),
        ("Intel", "15", "2", "Intel 15/2"),
        ("AMD", "15", "junk", "AMD 15/junk"),
        ("", "", "", ""),
    ],
)
def test_processors_have_names(vendor: str, family: str, model: str, name: str) -> None:
    labels = {"vendor_id": vendor, "family": family, "id": model}
    assert cpu_name({f"{F}cpu-model.{key}": value for key, value in labels.items() if value}) == name


@pytest.mark.parametrize("count", ["65", "2G", "2000000000", "-4", "banana", "9" * 60])
def test_a_count_of_devices_that_no_machine_has_costs_nothing(count: str) -> None:
    """Anybody who may write a node's status, a rule among them, may say so."""
    found = summarize(node(T4, aliyun_com__gpu_count=count, aliyun_com__gpu_mem="2000000000"), ())
    (shared,) = (one for one in found.resources if one.name == "aliyun.com/gpu-mem")
    assert (shared.devices, shared.capacity) == ((), 2_000_000_000)


PROFILE = {N + "mig-1g.5gb.count": "7", N + "mig-1g.5gb.replicas": "1"}
MIXED = {N + "mig.strategy": "mixed", N + "gpu.replicas": "0", **PROFILE}
FOUR = {N + "gpu.replicas": "4", N + "gpu.sharing-strategy": "time-slicing"}
SINGLE = {N + "gpu.product": "A100-MIG-1g.5gb", N + "gpu.count": "7", N + "mig.strategy": "single"}
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("labels", "offered", "problems"),
    [
        ({}, {GPU: "2"}, []),
        ({}, {GPU: "8"}, [f"{GPU}: labels say 2, the node offers 8"]),
        (FOUR, {GPU: "8"}, []),
        (FOUR, {f"{GPU}.shared": "8"}, []),
        (FOUR, {GPU: "2"}, [f"{GPU}: labels say 8 (2 with 4 replicas each), the node offers 2"]),
        (SINGLE, {GPU: "7"}, []),
        (SINGLE, {GPU: "3"}, [f"{GPU}: labels say 7, the node offers 3"]),
        (MIXED, {MIG: "7", GPU: "0"}, []),
        (
            MIXED,
            {MIG: "2", GPU: "1"},
            [f"{MIG}: labels say 7, the node offers 2", f"{GPU}: labels say 0, the node offers 1"],
        ),
        (MIXED | {N + "gpu.replicas": "1"}, {MIG: "7", GPU: "1"}, []),
        (
            {},
            {MIG: "14"},
            [f"{GPU}: labels say 2, the node offers 0", f"{MIG}: the node offers 14, no label says so"],
        ),
        (FOUR | {N + "gpu.state": "degraded"}, {GPU: "2"}, ["GPUs degraded"]),
        ({}, {"nvidia.com/gpumem": "30720"}, []),
    ],
)
def test_what_a_node_offers_beside_what_labels_say(
    labels: dict[str, str], offered: dict[str, str], problems: list[str]
) -> None:
    found = summarize(node(T4 | labels, **offered))
    assert list(found.problems) == problems
    shown = [f"{one.name}: {one.contradiction}" for one in found.resources if one.contradiction]
    assert sorted(shown) == sorted(one for one in problems if "the node offers" in one and "offers 0" not in one)


def test_devices_that_are_unhealthy_or_pieces_of_hami_contradict_no_label() -> None:
    sick = node(T4, **{GPU: "2"})
    sick["status"] |= {"allocatable": {GPU: "1"}}
    assert summarize(sick).problems == ()
    assert list(explain_offer(N + "gpu.count", sick)) == [f"allocatable: 1 {GPU}, 1 unhealthy"]
    pieces = node(T4, **{GPU: "20"})
    pieces["metadata"]["annotations"] = {"hami.io/node-nvidia-register": "GPU-0,10,15360"}
    assert summarize(pieces).problems == ()


def test_explain_says_what_is_offered_beside_the_labels_of_an_amount() -> None:
    shared = node(T4 | FOUR, **{GPU: "2"})
    against = "which contradicts the labels: labels say 8 (2 with 4 replicas each), the node offers 2"
    for name in ("gpu.count", "gpu.replicas", "gpu.sharing-strategy", "mig.strategy"):
        assert list(explain_offer(N + name, shared)) == [f"allocatable: 2 {GPU}, {against}"]
    assert not list(explain_offer(N + "gpu.product", shared))
    divided = node(T4 | MIXED, **{MIG: "7"})
    assert list(explain_offer(N + "mig-1g.5gb.count", divided)) == [f"allocatable: 7 {MIG}"]
