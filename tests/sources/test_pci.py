"""PCI devices and their labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd import names
from nfd.discovery import Discovery
from nfd.host import Host
from nfd.sources import pci
from tests.sources.hosts import Counting, labels_of, make_host, scan

FOLDER = "sys/bus/pci/devices"


def device(address: str, **values: str) -> dict[str, str]:
    """Files of one device; a display controller unless told otherwise."""
    usual = {"class": "0x030200", "vendor": "0x10de", "device": "0x1eb8"}
    usual |= {"subsystem_vendor": "0x10de", "subsystem_device": "0x12a2"} | values
    return {f"{FOLDER}/{address}/{name.replace('__', '/')}": f"{value}\n" for name, value in usual.items() if value}


def test_values_lose_their_prefix_and_class_its_interface(tmp_path: Path) -> None:
    host = make_host(
        tmp_path, device("0000:01:00.0", vendor="0x 10DE ", sriov_totalvfs="0x0x8", iommu_group__type="DMA")
    )
    (found,) = scan(host, pci.SOURCE).features.instances["pci.device"]
    assert found == {
        "class": "0302",
        "vendor": "10DE",
        "device": "1eb8",
        "subsystem_vendor": "10de",
        "subsystem_device": "12a2",
        "sriov_totalvfs": "0x8",
        "iommu_group/type": "DMA",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"0302_10de.present", "0302_10de.sriov.capable", "10de.present"}),
        ({"vendorAlias": False}, {"0302_10de.present", "0302_10de.sriov.capable"}),
        ({"deviceLabelFields": ["vendor"]}, {"10de.present", "10de.sriov.capable"}),
        ({"deviceLabelFields": ["device", "class"]}, {"0302_1eb8.present", "0302_1eb8.sriov.capable", "10de.present"}),
        ({"deviceLabelFields": ["bogus"]}, {"0302_10de.present", "0302_10de.sriov.capable", "10de.present"}),
        ({"deviceLabelFields": []}, {"0302_10de.present", "0302_10de.sriov.capable", "10de.present"}),
        ({"deviceClassWhitelist": []}, set()),
        ({"deviceClassWhitelist": ["0302"]}, {"0302_10de.present", "0302_10de.sriov.capable", "10de.present"}),
        ({"deviceClassWhitelist": ["030200"]}, set()),
        ({"deviceClassWhitelist": [""]}, {"0302_10de.present", "0302_10de.sriov.capable", "10de.present"}),
    ],
)
def test_labels_follow_the_options(tmp_path: Path, options: dict[str, object], expected: set[str]) -> None:
    host = make_host(tmp_path, device("0000:01:00.0", sriov_totalvfs="0"))
    assert labels_of(scan(host, pci.SOURCE, **options), pci.SOURCE) == dict.fromkeys(expected, "true")


def test_a_field_that_does_not_exist_is_told(tmp_path: Path) -> None:
    host = make_host(tmp_path, device("0000:01:00.0"))
    (problem,) = scan(host, pci.SOURCE, deviceLabelFields=["class", "colour"]).problems
    assert problem.subject == "deviceLabelFields"
    assert "'colour'" in problem.reason


def test_a_device_without_its_values_is_left_out_and_told(tmp_path: Path) -> None:
    files = device("0000:01:00.0", vendor="") | device("0000:02:00.0", vendor="0x8086")
    found = scan(make_host(tmp_path, files), pci.SOURCE)
    assert [one["vendor"] for one in found.features.instances["pci.device"]] == ["8086"]
    assert [problem.subject for problem in found.problems] == [f"{FOLDER}/0000:01:00.0"]
    assert not found.failed


@given(st.binary(), st.binary())
def test_whatever_a_device_says_its_labels_are_legal(
    tmp_path_factory: pytest.TempPathFactory, kind: bytes, vendor: bytes
) -> None:
    root = tmp_path_factory.mktemp("host")
    make_host(root, device("0000:01:00.0"))
    host = make_host(root, {f"{FOLDER}/0000:01:00.0/class": kind, f"{FOLDER}/0000:01:00.0/vendor": vendor})
    found = scan(host, pci.SOURCE, deviceClassWhitelist=[""])
    assert not found.failed
    assert all(names.key_problem(key) is None for key in found.labels)


def test_without_a_bus_there_is_no_feature_and_with_an_empty_one_an_empty_list(tmp_path: Path) -> None:
    assert scan(make_host(tmp_path, {}), pci.SOURCE).features.instances == {}
    assert scan(make_host(tmp_path, {f"{FOLDER}/": ""}), pci.SOURCE).features.instances == {"pci.device": ()}


def test_an_unreadable_device_keeps_its_labels_and_lets_others_come(tmp_path: Path) -> None:
    files = device("0000:01:00.0") | device("0000:02:00.0", vendor="0x1002")
    host = make_host(tmp_path, files)
    before = scan(host, pci.SOURCE)
    vendor = tmp_path / FOLDER / "0000:01:00.0/vendor"
    vendor.unlink()
    vendor.mkdir()
    make_host(tmp_path, device("0000:03:00.0", vendor="0x8086"))
    after = scan(host, pci.SOURCE, before)
    assert set(before.labels) < set(after.labels)
    assert "feature.node.kubernetes.io/pci-0302_8086.present" in after.labels
    assert "0000:01:00.0/vendor" in after.failed["pci"]
    assert after.lost == frozenset()


def test_a_removed_device_takes_its_labels_along(tmp_path: Path) -> None:
    host = make_host(tmp_path, device("0000:01:00.0") | device("0000:02:00.0", vendor="0x1002"))
    before = scan(host, pci.SOURCE)
    folder = tmp_path / FOLDER / "0000:02:00.0"
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    after = scan(host, pci.SOURCE, before)
    gone = set(before.labels) - set(after.labels)
    assert gone == {f"feature.node.kubernetes.io/pci-{name}.present" for name in ("1002", "0302_1002")}


def test_the_ids_of_a_device_are_read_once(tmp_path: Path) -> None:
    """They cannot change; another device at the address has another inode number."""
    make_host(tmp_path, device("0000:01:00.0", sriov_totalvfs="8") | device("0000:02:00.0", numa_node="0"))
    host = Counting(tmp_path)
    before = scan(host, pci.SOURCE)
    host.seen.clear()
    make_host(tmp_path, device("0000:01:00.0", sriov_totalvfs="16"))
    after = scan(host, pci.SOURCE, before)
    assert not {path.name for path in map(Path, host.seen)} & set(pci.FIELDS)
    assert [one.get("sriov_totalvfs") for one in instances(before)] == ["8", None]
    assert [one.get("sriov_totalvfs") for one in instances(after)] == ["16", None]
    make_host(tmp_path / "other", device("0000:01:00.0", vendor="0x1002"))
    (tmp_path / FOLDER / "0000:01:00.0").rename(tmp_path / "pulled")
    (tmp_path / "other" / FOLDER / "0000:01:00.0").rename(tmp_path / FOLDER / "0000:01:00.0")
    assert [one["vendor"] for one in instances(scan(host, pci.SOURCE, after))] == ["1002", "10de"]


def test_a_device_whose_ids_could_not_be_read_is_read_again(tmp_path: Path) -> None:
    make_host(tmp_path, device("0000:01:00.0", subsystem_device=""))
    host = Host(tmp_path)
    before = scan(host, pci.SOURCE)
    assert instances(before) == ()
    make_host(tmp_path, device("0000:01:00.0"))
    assert [one["subsystem_device"] for one in instances(scan(host, pci.SOURCE, before))] == ["12a2"]


def instances(found: Discovery) -> tuple[Mapping[str, str], ...]:
    return found.features.instances["pci.device"]
