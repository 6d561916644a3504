"""Node name, os-release and DMI."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd import names
from nfd.sources import system
from tests.sources.hosts import labels_of, make_host, scan


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ID=ubuntu", {"ID": "ubuntu"}),
        ('ID="rhel"', {"ID": "rhel"}),
        ("ID='odd\"'", {"ID": "odd"}),
        ("ID=", {}),
        ('ID=""', {"ID": ""}),
        (" ID=x", {}),
        ("ID =x", {}),
        ("#ID=x", {}),
        ("A-B=x", {}),
        ("Ä=x", {}),
        ("ID=x\r", {"ID": "x"}),
        ("A=b=c", {"A": "b=c"}),
        ("A=one\x0bB=two", {"A": "one\x0bB=two"}),
        ("A=\u2028", {"A": "\u2028"}),
        ("ID=a\nID=b", {"ID": "b"}),
    ],
)
def test_lines_of_os_release(line: str, expected: dict[str, str]) -> None:
    assert system.parse_os_release(line.encode()) == (expected, True)


def test_a_very_long_line_ends_the_reading(tmp_path: Path) -> None:
    text = "A=1\nB=" + "x" * system.MAX_LINE + "\nID=late\n"
    found = scan(make_host(tmp_path, {"etc/os-release": text}), system.SOURCE)
    assert found.features.attributes["system.osrelease"] == {"A": "1"}
    assert [problem.subject for problem in found.problems] == ["etc/os-release"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("22.04", ("22", "04")),
        ("12", ("12", None)),
        ("15.SP3", ("15", None)),
        ("3815.2.5", ("3815", "2")),
        ("3.", ("3", None)),
        ("1.2+git3", ("1", None)),
        ("v1.12.6", ("1", "12")),
        ("rolling", (None, None)),
        ("38_beta", (None, None)),
        ("2024-06-01", (None, None)),
        (" 5", (None, None)),
        ("١.٢", (None, None)),
        ("1\n", (None, None)),
        ("", (None, None)),
    ],
)
def test_parts_of_a_version(version: str, expected: tuple[str | None, str | None]) -> None:
    parts = system.split_version(version)
    assert (parts.get("VERSION_ID.major"), parts.get("VERSION_ID.minor")) == expected


@given(st.binary())
def test_whatever_os_release_holds_is_read(data: bytes) -> None:
    fields, whole = system.parse_os_release(data)
    assert whole
    for key, value in fields.items():
        assert key.isascii()
        assert value == value.strip("\"'")


@given(st.text())
def test_parts_of_a_version_are_digits(version: str) -> None:
    for part in system.split_version(version).values():
        assert part.isascii()
        assert part.isdigit()


@given(st.text(min_size=1))
def test_every_label_is_legal(tmp_path_factory: pytest.TempPathFactory, value: str) -> None:
    host = make_host(
        tmp_path_factory.mktemp("host"),
        {"etc/os-release": f"ID={value}\nVERSION_ID={value}\n".encode("utf-8", "replace")},
    )
    for key, text in scan(host, system.SOURCE).labels.items():
        assert names.key_problem(key) is None
        assert names.value_problem(text) is None


def test_labels_are_of_four_fields(tmp_path: Path) -> None:
    files = {"etc/os-release": "ID=talos\nVERSION_ID=v1.12.6\nVARIANT_ID=x\n"}
    assert labels_of(scan(make_host(tmp_path, files), system.SOURCE), system.SOURCE) == {
        "os_release.ID": "talos",
        "os_release.VERSION_ID": "v1.12.6",
        "os_release.VERSION_ID.major": "1",
        "os_release.VERSION_ID.minor": "12",
    }


def test_an_option_names_the_fields(tmp_path: Path) -> None:
    files = {"etc/os-release": "ID=rhcos\nVERSION_ID=4.16\nOSTREE_VERSION='416.94.2'\nODD.=x\n"}
    host, plan = make_host(tmp_path, files), ("ID", "OSTREE_VERSION", "RHEL_VERSION", "../x")
    config = system.Config(os_release_labels=plan)
    assert system.labels(scan(host, system.SOURCE).features, config) == {
        "os_release.ID": "rhcos",
        "os_release.OSTREE_VERSION": "416.94.2",
    }


def test_dmi_keeps_empty_values_and_leaves_serial_numbers_alone(tmp_path: Path) -> None:
    folder = "sys/devices/virtual/dmi/id"
    files = {f"{folder}/sys_vendor": b"Ac\xffme \n", f"{folder}/product_sku": "\n", f"{folder}/product_serial": "S1\n"}
    host = make_host(tmp_path, files, NODE_NAME="worker-1")
    found = scan(host, system.SOURCE).features.attributes
    assert found == {
        "system.dmiid": {"sys_vendor": "Ac�me", "product_sku": ""},
        "system.name": {"nodename": "worker-1"},
    }
