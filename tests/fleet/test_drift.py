"""Nodes that differ from their group."""

from __future__ import annotations

from typing import Any

import pytest

from nfd.features import Features
from nfd.fleet.drift import Deviation, deviations, firmware_of, versions_of

DRIVER = "nvidia.com/cuda.driver-version.full"


def node(name: str, driver: str = "580.65.06", kernel: str = "6.8.0-45", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {DRIVER: driver, **labels} if driver else dict(labels)},
        "status": {"nodeInfo": {"kernelVersion": kernel, "osImage": "Ubuntu 24.04"}},
    }


def test_what_can_drift() -> None:
    assert versions_of(node("a", **{"vendor.io/gpu-vbios": "96.00", "amd.com/gpu.firmware": "7"})) == {
        "kernel": "6.8.0-45",
        "system": "Ubuntu 24.04",
        "driver": "580.65.06",
        "AMD firmware": "7",
        "gpu-vbios": "96.00",
    }


def test_the_nodes_that_differ() -> None:
    groups = {"h200": [node("c", driver="570.1"), node("a"), node("b", kernel="6.5.0-1")], "t4": [node("d")]}
    assert deviations(groups) == [
        Deviation("b", "h200", "kernel", "6.5.0-1", "6.8.0-45", 2, 3),
        Deviation("c", "h200", "driver", "570.1", "580.65.06", 2, 3),
    ]


def test_a_value_that_is_absent_differs() -> None:
    assert deviations({"g": [node("a"), node("b"), node("c", driver="")]}) == [
        Deviation("c", "g", "driver", "", "580.65.06", 2, 3)
    ]


def test_of_two_that_differ_the_second_deviates() -> None:
    (found,) = deviations({"g": [node("b", driver="2"), node("a", driver="1")]})
    assert (found.node, found.value, found.usual, found.count, found.size) == ("b", "2", "1", 1, 2)


@pytest.mark.parametrize("groups", [{}, {"g": []}, {"g": [node("a")]}])
def test_nothing_differs(groups: dict[str, list[dict[str, Any]]]) -> None:
    assert deviations(groups) == []


def test_firmware_of_features() -> None:
    """Of several devices all different values; a node without features is not compared."""
    usual = Features(
        attributes={"cpu.microcode": {"version": "0xd0003d1"}, "system.dmiid": {"bios_version": "2.1"}},
        instances={
            "nvidia.gpu": ({"vbios": "96.00.5E.00.01", "gsp": "580.65"}, {"vbios": "96.00.5E.00.01"}),
            "rdma.device": ({"firmware": "28.39.1002"}, {}),
        },
    )
    instances = {**usual.instances, "nvidia.gpu": ({"vbios": "96.00.5E.00.01"}, {"vbios": "92.00.45.00.06"})}
    other = Features(attributes={"cpu.microcode": {"version": "0xd000390"}}, instances=instances)
    assert firmware_of(usual) == {
        "microcode": "0xd0003d1",
        "BIOS": "2.1",
        "VBIOS": "96.00.5E.00.01",
        "GSP firmware": "580.65",
        "RDMA firmware": "28.39.1002",
    }
    by_name = {"a": usual, "b": usual, "c": other, "d": None}
    groups = {"g": [node(name) for name in by_name], "unknown": [node("d"), node("d")]}
    found = deviations(groups, lambda one: firmware_of(by_name[one["metadata"]["name"]]))
    assert [(one.node, one.what, one.value, one.usual, one.count, one.size) for one in found] == [
        ("c", "microcode", "0xd000390", "0xd0003d1", 2, 4),
        ("c", "BIOS", "", "2.1", 2, 4),
        ("c", "VBIOS", "92.00.45.00.06, 96.00.5E.00.01", "96.00.5E.00.01", 2, 4),
        ("c", "GSP firmware", "", "580.65", 2, 4),
    ]
