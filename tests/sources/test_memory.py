"""NUMA, swap, persistent memory and huge pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.sources import memory
from tests.sources.hosts import labels_of, make_host, scan

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@pytest.mark.parametrize(
    ("files", "feature", "expected"),
    [
        ({}, "memory.numa", None),
        ({"sys/bus/node/devices/": ""}, "memory.numa", {"is_numa": "false", "node_count": "0"}),
        ({"sys/bus/node/devices/node0/": ""}, "memory.numa", {"is_numa": "false", "node_count": "1"}),
        (
            {f"sys/bus/node/devices/node{number}/": "" for number in range(12)},
            "memory.numa",
            {"is_numa": "true", "node_count": "12"},
        ),
        ({}, "memory.swap", None),
        ({"proc/swaps": ""}, "memory.swap", {"enabled": "false"}),
        ({"proc/swaps": HEADER + "\n"}, "memory.swap", {"enabled": "false"}),
        ({"proc/swaps": HEADER + "/dev/zram0 partition 1 0 100\n"}, "memory.swap", {"enabled": "true", "kind": "zram"}),
        ({}, "memory.hugepages", {"enabled": "false"}),
        (
            {
                "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "2\n",
                "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "0\n",
                "sys/kernel/mm/hugepages/hugepages-64kB/": "",
                "sys/kernel/mm/hugepages/hugepages-bigkB/nr_hugepages": "9\n",
                "sys/kernel/mm/hugepages/README": "9\n",
            },
            "memory.hugepages",
            {"enabled": "true", "hugepages-1Gi": "2", "hugepages-2Mi": "0", "hugepages-64Ki": ""},
        ),
        (
            {"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "many"},
            "memory.hugepages",
            {"enabled": "false", "hugepages-2Mi": "many"},
        ),
    ],
)
def test_attributes(tmp_path: Path, files: dict[str, str], feature: str, expected: dict[str, str] | None) -> None:
    assert scan(make_host(tmp_path, files), memory.SOURCE).features.attributes.get(feature) == expected


@pytest.mark.parametrize(
    ("files", "devices", "expected"),
    [
        ({}, [], {}),
        ({"sys/bus/nd/devices/": ""}, [], {}),
        ({"sys/bus/nd/devices/ndbus0/": ""}, [{"name": "ndbus0"}], {"nv.present": "true"}),
        (
            {"sys/bus/nd/devices/dax0.0/devtype": "nd_dax\n", "sys/bus/nd/devices/dax0.0/mode": "devdax\n"},
            [{"name": "dax0.0", "devtype": "nd_dax", "mode": "devdax"}],
            {"nv.present": "true", "nv.dax": "true"},
        ),
    ],
)
def test_persistent_memory(
    tmp_path: Path, files: dict[str, str], devices: list[dict[str, str]], expected: dict[str, str]
) -> None:
    found = scan(make_host(tmp_path, files), memory.SOURCE)
    assert list(found.features.instances["memory.nv"]) == devices
    assert labels_of(found, memory.SOURCE) == expected


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("hugepages-2048kB", "2Mi"),
        ("hugepages-1048576kB", "1Gi"),
        ("hugepages-64kB", "64Ki"),
        ("hugepages-16777216kB", "16Gi"),
        ("hugepages-1025kB", "1025Ki"),
        ("hugepages-kB", "0"),
        ("hugepages-0kB", "0"),
        ("hugepages-bigkB", None),
        ("hugepages--1kB", "-1Ki"),
        ("hugepages-1.5kB", "1536"),
        ("hugepages-1.0001kB", None),
        (f"hugepages-{1 << 60}kB", str((1 << 63) - 1)),
        ("README", None),
    ],
)
def test_page_size(name: str, size: str | None) -> None:
    assert memory.page_size(name) == size


def test_a_link_is_no_page_size(tmp_path: Path) -> None:
    folder = "sys/kernel/mm/hugepages/hugepages-2048kB"
    host = make_host(tmp_path, {f"{folder}/nr_hugepages": "1\n"})
    (tmp_path / folder).with_name("hugepages-1048576kB").symlink_to("hugepages-2048kB")
    found = scan(host, memory.SOURCE).features.attributes["memory.hugepages"]
    assert found == {"enabled": "true", "hugepages-2Mi": "1"}


@given(st.integers(min_value=1, max_value=2**50))
def test_a_page_size_is_exact(kibibytes: int) -> None:
    units = {"Ki": 1, "Mi": 2**10, "Gi": 2**20, "Ti": 2**30, "Pi": 2**40, "Ei": 2**50}
    size = memory.page_size(f"hugepages-{kibibytes}kB")
    assert size is not None
    assert int(size[:-2]) * units[size[-2:]] == kibibytes


@given(st.binary())
def test_whatever_the_list_of_swap_areas_holds_is_a_yes_or_no(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    found = scan(make_host(tmp_path_factory.mktemp("host"), {"proc/swaps": data}), memory.SOURCE)
    assert found.features.attributes["memory.swap"]["enabled"] in ("true", "false")


def test_one_unreadable_file_leaves_the_rest(tmp_path: Path) -> None:
    files = {"sys/bus/node/devices/node0/": "", "sys/bus/node/devices/node1/": "", "proc/swaps": HEADER + "x 1\n"}
    host = make_host(tmp_path, files)
    before = scan(host, memory.SOURCE)
    swaps = tmp_path / "proc/swaps"
    swaps.unlink()
    swaps.mkdir()
    after = scan(host, memory.SOURCE, before)
    assert after.labels == before.labels
    assert "proc/swaps" in after.failed["memory"]
    assert labels_of(scan(host, memory.SOURCE), memory.SOURCE) == {"numa": "true"}
