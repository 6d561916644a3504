"""What is left, computed by hand: accounting, zones and fingerprint over values, NUMA nodes from trees of files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.errors import HostError
from nfd.host import Host
from nfd.quantity import parse_quantity
from nfd.topology.accounting import Amount, account, counted, excluded_for
from nfd.topology.allocations import Allocatable, Claim, Container, Devices, Memory, Pod
from nfd.topology.numa import NumaNode, cpu_list, hugepage_resource, read_hybrid, read_nodes
from nfd.topology.podresources import allocatable_of, pods_of
from nfd.topology.pods import claim_of
from nfd.topology.zones import fingerprint, owned, policy_in_one_word, quantity, same, topology, zones_of
from tests.topology import scene
from tests.topology.machine import GIB, write_machine
from tests.topology.scene import DONGLE, GPU, HUGE, NIC, ZONES

CLAIMS = {
    ("default", "pinned"): Claim(True, frozenset({"main"})),
    ("other", "wide"): Claim(True, frozenset({"main"})),
    ("default", "fraction"): Claim(True),
    ("default", "burstable"): Claim(False, frozenset({"main"})),
    ("default", "idle"): Claim(False, frozenset({"main"})),
}


@pytest.fixture
def nodes(tmp_path: Path) -> tuple[NumaNode, ...]:
    return read_nodes(Host(write_machine(tmp_path)))


def left(nodes: Any, namespace: str = "*", excluded: Any = ()) -> Any:
    pods = counted(pods_of(scene.pods()), namespace)
    return account(nodes, allocatable_of(scene.allocatable()), pods, CLAIMS, excluded)


def test_the_zones_are_those_computed_by_hand(nodes: tuple[NumaNode, ...]) -> None:
    found = left(nodes)
    assert zones_of(nodes, found) == ZONES
    assert found.problems == ()


def test_what_belongs_to_no_numa_node_is_in_no_zone(nodes: tuple[NumaNode, ...]) -> None:
    assert not any(DONGLE in amounts for amounts in left(nodes).nodes.values())


def test_one_namespace_alone_counts(nodes: tuple[NumaNode, ...]) -> None:
    amounts = left(nodes, "other").nodes
    assert amounts[0]["cpu"] == Amount(8, 6, 6)
    assert amounts[1]["cpu"] == Amount(8, 8, 6)
    assert amounts[0][GPU].available == amounts[1][GPU].available == 2
    assert (amounts[0]["memory"].available, amounts[1]["memory"].available) == (0, 23 * GIB)


def test_excluded_resources_are_left_out(nodes: tuple[NumaNode, ...]) -> None:
    lists = {"node1": ("cpu", GPU), "*": (HUGE,), "node2": ("memory",)}
    assert excluded_for("node1", lists) == {"cpu", GPU, HUGE}
    for amounts in left(nodes, excluded=excluded_for("node1", lists)).nodes.values():
        assert amounts.keys() == {NIC, "memory"}


def test_a_node_whose_cpus_are_all_reserved_shows_them(nodes: tuple[NumaNode, ...]) -> None:
    found = account(nodes, Allocatable(cpus=(4, 5)), (), {})
    assert found.nodes[0] == {"cpu": Amount(8, 0, 0)}
    assert found.nodes[1] == {"cpu": Amount(8, 2, 2)}


def test_what_does_not_fit_is_told_and_spoils_nothing(nodes: tuple[NumaNode, ...]) -> None:
    may = Allocatable((1, 99), (Devices(GPU, ("a",), (7,)),), (Memory("memory", GIB, (0,)),))
    pod = Pod(
        "n", "p", (Container("c", (1, 99), (Devices(GPU, ("a", "b"), (7,)),), (Memory("memory", 3 * GIB, (0,)),)),)
    )
    found = account(nodes, may, [pod], {("n", "p"): Claim(True, frozenset({"c"}))})
    assert found.nodes[0] == {"cpu": Amount(8, 1, 0), "memory": Amount(32 * GIB, GIB, 0)}
    assert [subject for subject, _ in found.problems] == ["CPU 99", GPU, "n/p"]


@given(st.sets(st.integers(1, 15)), st.sets(st.integers(1, 15)), st.integers(0, 80), st.booleans())
def test_what_is_left_is_never_negative_and_never_more_than_allocatable(
    may: set[int], held: set[int], gib: int, guaranteed: bool
) -> None:
    nodes = (NumaNode(0, frozenset(range(8))), NumaNode(1, frozenset(range(8, 16))))
    allocatable = Allocatable(tuple(may), memory=(Memory("memory", 30 * GIB, (0,)), Memory("memory", 30 * GIB, (1,))))
    pod = Pod("n", "p", (Container("c", tuple(held), memory=(Memory("memory", gib * GIB, (0, 1)),)),))
    found = account(nodes, allocatable, [pod], {("n", "p"): Claim(guaranteed, frozenset({"c"}))}).nodes
    for amounts in found.values():
        assert all(0 <= one.available <= one.allocatable for one in amounts.values())
    cpus = sum(one["cpu"].available for one in found.values())
    assert cpus == len(may - held if guaranteed else may)
    taken = 60 * GIB - sum(one["memory"].available for one in found.values())
    assert taken == (min(gib, 60) * GIB if guaranteed else 0)


def test_a_kernel_without_numa_has_all_in_one_node(tmp_path: Path) -> None:
    (node,) = read_nodes(Host(write_machine(tmp_path, numa=False)))
    assert node.cpus == frozenset(range(16))
    assert node.distances == {0: 10}
    assert node.memory == {"memory": 64 * GIB, "hugepages-2Mi": 16 * 1024**2, "hugepages-1Gi": 8 * GIB}


def test_distances_are_those_to_nodes_that_are_online(tmp_path: Path) -> None:
    """A node that is offline has no folder, and no place in the others' lists."""
    write_machine(tmp_path)
    folder = tmp_path / "sys/devices/system/node"
    (folder / "node1").rename(folder / "node3")
    found = read_nodes(Host(tmp_path))
    assert [node.distances for node in found] == [{0: 10, 3: 21}, {0: 21, 3: 10}]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("node0/distance", "10\n"),
        ("node0/distance", "10 far\n"),
        ("node0/distance", f"10 {'9' * 5000}\n"),
        ("node1/cpulist", "4-7,x\n"),
        ("node1/meminfo", "Node 1 MemFree: 1 kB\n"),
        ("node1/hugepages/hugepages-2048kB/nr_hugepages", "many\n"),
        ("node1/hugepages/hugepages-2048kB/nr_hugepages", f"{'9' * 5000}\n"),
    ],
)
def test_files_that_say_nothing_sensible_are_errors_that_name_them(tmp_path: Path, file: str, text: str) -> None:
    (write_machine(tmp_path) / "sys/devices/system/node" / file).write_text(text)
    with pytest.raises(HostError, match=file):
        read_nodes(Host(tmp_path))


def test_kinds_of_cores(tmp_path: Path) -> None:
    for name, cpus in {"cpu_core": "0-3", "cpu_atom": "4-7"}.items():
        (tmp_path / "sys/devices" / name).mkdir(parents=True)
        (tmp_path / "sys/devices" / name / "cpus").write_text(f"{cpus}\n")
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    assert read_hybrid(Host(tmp_path)) == {"cpu_atom": "4-7", "cpu_core": "0-3"}


def test_cpu_lists_and_sizes_of_huge_pages() -> None:
    assert cpu_list("0-2,8\n", "f") == {0, 1, 2, 8}
    assert cpu_list("\n", "f") == frozenset()
    names = [hugepage_resource(kib) for kib in (64, 2048, 32768, 1048576, 16777216)]
    assert names == ["hugepages-64Ki", "hugepages-2Mi", "hugepages-32Mi", "hugepages-1Gi", "hugepages-16Gi"]


@given(st.integers(0, 2**62))
def test_quantities_say_the_number(number: int) -> None:
    assert parse_quantity(quantity(number)) == number


def test_quantities_have_the_greatest_suffix_without_a_fraction() -> None:
    assert [quantity(one) for one in (0, 7, 1000, 1500, 2_000_000, 10**18)] == ["0", "7", "1k", "1500", "2M", "1E"]


@pytest.mark.parametrize(
    ("policy", "scope", "word"),
    [
        ("single-numa-node", "container", "SingleNUMANodeContainerLevel"),
        ("single-numa-node", "pod", "SingleNUMANodePodLevel"),
        ("restricted", "container", "RestrictedContainerLevel"),
        ("restricted", "pod", "RestrictedPodLevel"),
        ("best-effort", "container", "BestEffortContainerLevel"),
        ("best-effort", "pod", "BestEffortPodLevel"),
        ("none", "pod", "None"),
        ("restricted", "socket", "None"),
    ],
)
def test_policies_in_one_word(policy: str, scope: str, word: str) -> None:
    assert policy_in_one_word(policy, scope) == word


def test_the_fingerprint_is_that_of_podfingerprint_v001() -> None:
    """Its own example: three pods of one namespace, in any order."""
    pods = [("production", name) for name in ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")]
    assert fingerprint(pods) == fingerprint(pods[::-1]) == "pfp0v001607b76a0e9d3aeb4"
    assert fingerprint([*pods, ("other", "envoy-g9m22")]) != fingerprint(pods)


@pytest.mark.parametrize(
    ("requests", "init", "qos", "claim"),
    [
        ({"cpu": "2"}, None, "Guaranteed", Claim(True, frozenset({"main"}))),
        ({"cpu": "1500m"}, None, "Guaranteed", Claim(True)),
        ({"cpu": "2000m"}, {"cpu": "1"}, "Guaranteed", Claim(True, frozenset({"main", "first"}))),
        ({"cpu": "0"}, None, "Guaranteed", Claim(True)),
        ({"cpu": "2"}, None, "Burstable", Claim(False, frozenset({"main"}))),
        ({}, None, "BestEffort", Claim(False)),
    ],
)
def test_claims(requests: Any, init: Any, qos: str, claim: Claim) -> None:
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    first = [{"name": "first", "resources": {"requests": init}}] if init else []
    assert claim_of({"spec": {**spec, "initContainers": first}, "status": {"qosClass": qos}}) == claim


def test_the_same_is_told_from_what_differs(nodes: tuple[NumaNode, ...]) -> None:
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "1"}
    one = owned(topology("n1", zones_of(nodes, left(nodes)), "none", "container", {}), owner)
    there = {**one, "metadata": {**one["metadata"], "uid": "2", "resourceVersion": "3"}}
    assert same(one, there)
    assert not same(one, {})
    assert not same(one, {**there, "zones": there["zones"][:1]})
    assert not same(one, {**there, "metadata": {"name": "n1"}})
    assert not same(replace_attribute(one), there)


def replace_attribute(one: dict[str, Any]) -> dict[str, Any]:
    return {**one, "attributes": [{**one["attributes"][0], "value": "restricted"}, *one["attributes"][1:]]}


def test_a_pod_that_holds_nothing_needs_no_claim() -> None:
    pod = Pod("n", "p", (Container("c"),))
    assert counted([pod, replace(pod, containers=(Container("c", (1,)),))], "n") == [
        Pod("n", "p", (Container("c", (1,)),))
    ]
