"""Metrics about the fleet: what labels and resources say, bounded, and from the leader alone."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from nfd.config.load import load
from nfd.config.overlay import Layer
from nfd.errors import ConfigError
from nfd.fleet.gpu_labels import read_gpus
from nfd.fleet.gpu_resources import differing_resources
from nfd.master.config import Config
from nfd.master.http.fleet_metrics import MOST_NODES, MOST_SERIES, FleetMetrics
from nfd.store.base import Node
from tests.controlplane.cluster import ControlPlane
from tests.e2e.programs import eventually
from tests.fleet20.place import MASTER_CONFIG, SELECTOR, FleetPlace, fleet_on

GPU = "nvidia.com/gpu"
PRODUCT, KERNEL = f"{GPU}.product", "feature.node.kubernetes.io/kernel-version.full"
Series = dict[tuple[str, ...], float]


def node(name: str, labels: Mapping[str, str], offered: Mapping[str, str] | None = None) -> Node:
    amounts = dict(offered or {})
    return replace(Node.bare(name), labels=dict(labels), resources=amounts, allocatable=amounts)


def gpus(product: str, count: int, **more: str) -> dict[str, str]:
    return {PRODUCT: product, f"{GPU}.count": str(count), **{f"{GPU}.{key}": text for key, text in more.items()}}


def series(metrics: FleetMetrics, name: str) -> Series:
    (family,) = [one for one in metrics.families() if one.name == name]
    return {tuple(labels.values()): value for _, labels, value in family.samples}


def metrics_of(nodes: list[Node], *keys: str) -> FleetMetrics:
    return FleetMetrics(lambda: nodes, lambda: keys)


def test_products_and_states() -> None:
    nodes = [
        node("a", gpus("A100", 4)),
        node("b", gpus("A100", 4)),
        node("c", {**gpus("A100", 3, state="some-failing"), f"{GPU}.count.failing": "1", f"{GPU}.count.present": "5"}),
        node("d", {f"{GPU}.state": "no-driver", f"{GPU}.count.present": "8"}),
        node("e", {"kubernetes.io/arch": "amd64"}),
    ]
    found = metrics_of(nodes)
    assert series(found, "nfd_master_gpu_nodes") == {
        ("A100", "ok"): 2,
        ("A100", "some-failing"): 1,
        ("unknown", "no-driver"): 1,
    }
    counts = {key: value for key, value in series(found, "nfd_master_gpus").items() if value}
    assert counts == {
        ("A100", "usable"): 11,
        ("A100", "failing"): 1,
        ("A100", "missing"): 1,
        ("unknown", "missing"): 8,
    }
    assert series(found, "nfd_node_feature_info") == {}
    nodes[0] = replace(nodes[0], labels=gpus("H100", 4))
    assert series(found, "nfd_master_gpu_nodes")["H100", "ok"] == 1, "what is known of a node is not kept"


@pytest.mark.parametrize(
    ("labels", "capacity", "allocatable", "differing"),
    [
        (gpus("A100", 4), {GPU: "4"}, {GPU: "4"}, []),
        (gpus("A100", 4), {GPU: "4"}, {GPU: "3"}, [GPU]),
        (gpus("A100", 4), {GPU: "4"}, {GPU: "0"}, [GPU]),
        (gpus("A100", 3), {GPU: "4"}, {GPU: "4"}, [GPU]),
        (gpus("A100", 4), {}, {}, []),  # DRA, or no device plugin at all
        (gpus("A100", 4), {GPU: "0", "aliyun.com/gpu-mem": "320"}, {GPU: "0", "aliyun.com/gpu-mem": "320"}, []),
        (gpus("A100-SHARED", 2, replicas="4"), {GPU: "8"}, {GPU: "8"}, []),
        (gpus("A100", 2, replicas="4"), {f"{GPU}.shared": "8"}, {f"{GPU}.shared": "8"}, []),
        (gpus("A100", 2, replicas="4"), {f"{GPU}.shared": "8"}, {f"{GPU}.shared": "2"}, [GPU]),
        (gpus("A100-MIG-1g.5gb", 14), {GPU: "14"}, {GPU: "14"}, []),
        (gpus("A100-MIG-1g.5gb", 14), {GPU: "2"}, {GPU: "2"}, [GPU]),
        (
            {**gpus("A100", 2), "nvidia.com/mig-1g.5gb.count": "7", "nvidia.com/mig-3g.20gb.count": "2"},
            {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-3g.20gb": "2", GPU: "0"},
            {"nvidia.com/mig-1g.5gb": "7", "nvidia.com/mig-3g.20gb": "1", GPU: "0"},
            ["nvidia.com/mig-3g.20gb"],
        ),
        ({"kubernetes.io/arch": "amd64"}, {GPU: "4"}, {GPU: "4"}, []),
    ],
)
def test_resources_that_differ_from_labels(
    labels: dict[str, str], capacity: dict[str, str], allocatable: dict[str, str], differing: list[str]
) -> None:
    assert differing_resources(labels, capacity, allocatable) == differing


def test_pieces_of_hami_do_not_differ_from_labels() -> None:
    """Its plug-in may be installed, and removed, while all else stays as it is."""
    nodes = [node("a", gpus("A100", 8), {GPU: "80"})]
    found = metrics_of(nodes)
    name, plain = "nfd_master_differing_resource_nodes", nodes[0]
    assert series(found, name) == {(GPU,): 1}
    nodes[0] = replace(plain, annotations={"hami.io/node-nvidia-register": "GPU-0,10,15360"})
    assert series(found, name) == {}
    nodes[0] = plain
    assert series(found, name) == {(GPU,): 1}


def test_their_number_is_bounded() -> None:
    many = [node(f"n{number:05}", gpus(f"P{number}", 1)) for number in range(MOST_NODES + 5)]
    found = metrics_of(many, PRODUCT)
    by_state = series(found, "nfd_master_gpu_nodes")
    assert len(by_state) == MOST_SERIES + 1
    assert by_state["others", ""] == len(many) - MOST_SERIES
    assert len(series(found, "nfd_node_feature_info")) == MOST_NODES


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (["a/b"] * 11, "11 labels, at most 10 are possible"),
        (["a b"], "'a b'"),
        (["a.b/c", "a-b/c"], "'a.b/c' and 'a-b/c' have the same name in metrics"),
    ],
)
def test_labels_that_cannot_be_chosen(keys: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        load(Config, [Layer("f", {"featureInfoLabels": keys})])
    assert load(Config, [Layer("f", {"featureInfoLabels": ["a/b", "c"]})]).config.feature_info_labels == ("a/b", "c")


@pytest.fixture(scope="module")
def place(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetPlace]:
    folder = tmp_path_factory.mktemp("metrics")
    (folder / MASTER_CONFIG).write_text(yaml.safe_dump({"featureInfoLabels": [PRODUCT, KERNEL]}))
    with fleet_on(control_plane, folder, f"--node-selector={SELECTOR}") as found:
        yield found


def scraped(place: FleetPlace) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{place.master.http_port}/metrics", timeout=10) as answer:
        return str(answer.read().decode()).splitlines()


def of(lines: list[str], name: str) -> dict[str, float]:
    return {one.rpartition(" ")[0]: float(one.rpartition(" ")[2]) for one in lines if one.startswith(f"{name}{{")}


def items(place: FleetPlace) -> list[dict[str, Any]]:
    return list(place.plane.request("GET", f"/api/v1/nodes?labelSelector={SELECTOR}")["items"])


def test_what_a_master_tells_of_its_nodes(place: FleetPlace) -> None:
    """The labels on the Nodes of the API server; other labels once the configuration chooses them."""
    labels = {one["metadata"]["name"]: one["metadata"]["labels"] for one in items(place)}
    info = {f'node_name="{name}"': one.get(PRODUCT, "") for name, one in labels.items()}
    found = of(scraped(place), "nfd_node_feature_info")
    assert len(found) == len(labels) == 20
    for line in found:
        (name,) = [key for key in info if key in line]
        assert f'label_nvidia_com_gpu_product="{info[name]}"' in line
    states = Counter(
        (read_gpus(one).product or "unknown", read_gpus(one).state or "ok") for one in labels.values() if read_gpus(one)
    )
    lines = of(scraped(place), "nfd_master_gpu_nodes")
    assert lines == {
        f'nfd_master_gpu_nodes{{product="{product}",state="{state}"}}': count
        for (product, state), count in states.items()
    }
    before = len(place.master.said("configuration loaded"))
    (place.folder / MASTER_CONFIG).write_text("{}\n")
    place.master.signal(signal.SIGHUP)
    eventually(lambda: len(place.master.said("configuration loaded")) > before)
    assert of(scraped(place), "nfd_node_feature_info") == {}


def test_a_device_plugin_that_offers_less(place: FleetPlace) -> None:
    """The metric follows the status of a Node, which changes nothing that is planned with."""

    def differing() -> float:
        return of(scraped(place), "nfd_master_differing_resource_nodes").get(
            f'nfd_master_differing_resource_nodes{{resource="{GPU}"}}', 0
        )

    name, was = "gpu-h200-1", differing()
    for amount, expected in (("6", was + 1), ("8", was)):
        body = {"status": {"allocatable": {GPU: amount}}}
        place.plane.request("PATCH", f"/api/v1/nodes/{name}/status", body)
        eventually(lambda expected=expected: differing() == expected)  # type: ignore[misc]
