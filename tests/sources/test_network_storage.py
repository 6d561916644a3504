"""Network interfaces and block devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nfd.discovery import Plan
from nfd.host.replay import Replay
from nfd.report import State
from nfd.sources import network, storage
from nfd.worker.report_content import derive_states
from tests.sources.hosts import labels_of, make_host, scan

NET, BLOCK = "sys/class/net", "sys/block"


def test_interfaces_with_a_device_are_told_from_virtual_ones(tmp_path: Path) -> None:
    files = {
        f"{NET}/bond0/operstate": "up\n",
        f"{NET}/bonding_masters": "bond0\n",
        f"{NET}/ens1/mtu": "9000\n",
        f"{NET}/ens1/device/sriov_totalvfs": "8\n",
        f"{NET}/lo/mtu": "65536\n",
    }
    host = make_host(tmp_path, files)
    (tmp_path / NET / "lo/device").symlink_to("../../../gone")
    found = scan(host, network.SOURCE).features.instances
    assert found["network.device"] == ({"name": "ens1", "mtu": "9000", "sriov_totalvfs": "8"},)
    assert found["network.virtual"] == ({"name": "bond0", "operstate": "up"}, {"name": "lo", "mtu": "65536"})


def test_an_interface_whose_kind_cannot_be_read_is_neither(tmp_path: Path) -> None:
    """Its features are incomplete, so nothing that was known of it is removed."""
    files = {f"{NET}/ens1/mtu": "9000\n", f"{NET}/ens1/device/sriov_totalvfs": "8\n", f"{NET}/lo/mtu": "65536\n"}
    host = make_host(tmp_path, files)
    before = scan(host, network.SOURCE)
    lost = {"unreachable": {f"{NET}/ens1/device": [5, "Input/output error"]}}
    after = scan(make_host(tmp_path, {"host.json": json.dumps(lost)}), network.SOURCE, before)
    assert (after.labels, after.features) == (before.labels, before.features)
    assert "ens1/device" in after.failed["network"]


@pytest.mark.parametrize(
    ("total", "made", "expected"),
    [
        ("64", "2", {"sriov.capable", "sriov.configured"}),
        ("64", "0", {"sriov.capable"}),
        ("0", "0", set()),
        ("", "", set()),
        ("+1", "-1", {"sriov.capable"}),
        ("1_0", "٣", set()),
        (" 8 ", "0x8", {"sriov.capable"}),
    ],
)
def test_sriov_counts_only_whole_numbers(tmp_path: Path, total: str, made: str, expected: set[str]) -> None:
    folder = f"{NET}/ens1/device"
    host = make_host(tmp_path, {f"{folder}/sriov_totalvfs": f"{total}\n", f"{folder}/sriov_numvfs": f"{made}\n"})
    assert labels_of(scan(host, network.SOURCE), network.SOURCE) == dict.fromkeys(expected, "true")


def test_a_virtual_interface_has_no_sriov(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{NET}/veth1/sriov_totalvfs": "8\n"})
    assert scan(host, network.SOURCE).labels == {}


@pytest.mark.parametrize("source", [network.SOURCE, storage.SOURCE])
def test_no_directory_is_no_feature(tmp_path: Path, source: object) -> None:
    host = make_host(tmp_path, {})
    assert scan(host, network.SOURCE).features.names() == frozenset()
    assert scan(host, storage.SOURCE).features.names() == frozenset()


@pytest.mark.parametrize(
    ("rotational", "expected"),
    [({"sda": "1\n", "sdb": "0\n"}, True), ({"sda": "1\n"}, False), ({"sda": "00\n"}, False), ({"sda": ""}, False)],
)
def test_one_still_disk_is_enough(tmp_path: Path, rotational: dict[str, str], expected: bool) -> None:
    host = make_host(tmp_path, {f"{BLOCK}/{name}/queue/rotational": text for name, text in rotational.items()})
    assert labels_of(scan(host, storage.SOURCE), storage.SOURCE) == ({"nonrotationaldisk": "true"} if expected else {})


def test_a_value_that_turns_unreadable_keeps_the_label(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{BLOCK}/sda/queue/rotational": "0\n", f"{BLOCK}/sdb/queue/rotational": "1\n"})
    before = scan(host, storage.SOURCE)
    file = tmp_path / BLOCK / "sda/queue/rotational"
    file.unlink()
    file.mkdir()
    after = scan(host, storage.SOURCE, before)
    assert after.labels == before.labels != {}
    assert after.features == before.features
    assert "sda/queue/rotational" in after.failed["storage"]


def test_names_that_are_no_text_are_made_text(tmp_path: Path) -> None:
    host = make_host(tmp_path, {f"{BLOCK}/sd\udcff/queue/rotational": "1\n"})
    assert [one["name"] for one in scan(host, storage.SOURCE).features.instances["storage.block"]] == ["sd�"]


def test_an_rdma_port_that_cannot_be_read_fails_its_source_by_name(tmp_path: Path) -> None:
    """The first scan has nothing to fall back to, so the port is reported with less."""
    port = "sys/class/infiniband/mlx5_0/ports/1"
    host = make_host(tmp_path, {f"{port}/state": "4: ACTIVE\n", f"{port}/link_layer": "InfiniBand\n"})
    (tmp_path / "host.json").write_text(json.dumps({"failures": {f"{port}/state": [5, "Input/output error"]}}))
    plan = Plan((network.SOURCE,), (network.SOURCE,), {"network": network.SOURCE.config()})
    found = scan(Replay(tmp_path), network.SOURCE)
    assert host.exists(port)
    assert found.features.instances["rdma.device"] == ({"port": "1", "link_layer": "InfiniBand"},)
    assert derive_states(plan, found) == {"network": State.FAILED}
    assert "ports/1/state" in found.failed["network"]
