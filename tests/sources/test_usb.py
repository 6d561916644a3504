"""USB devices and their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfd.sources import usb
from tests.sources.hosts import labels_of, make_host, scan

FOLDER = "sys/bus/usb/devices"


def device(name: str, *interfaces: str, **values: str) -> dict[str, str]:
    files = {"class": "bDeviceClass", "vendor": "idVendor", "device": "idProduct", "serial": "serial"}
    usual = {"class": "ff", "vendor": "1a86", "device": "7523"} | values
    found = {f"{FOLDER}/{name}/{files[key]}": f"{value}\n" for key, value in usual.items()}
    return found | {
        f"{FOLDER}/{name}/{name}:1.{number}/bInterfaceClass": f"{one}\n" for number, one in enumerate(interfaces)
    }


@pytest.mark.parametrize(
    ("files", "classes"),
    [
        (device("1-1"), ["ff"]),
        (device("1-1", "0e", "01"), ["ff"]),
        (device("1-1", "03", "03", **{"class": "00"}), ["03", "03"]),
        (device("1-1", **{"class": "00"}), []),
        (device("1-[1]*?", "fe", **{"class": "00"}), ["fe"]),
        (device("1-1", "fe", **{"class": ""}), [None]),
        ({f"{FOLDER}/1-1:1.0/bInterfaceClass": "ff"}, []),
        ({}, []),
    ],
)
def test_an_open_class_is_taken_from_each_interface(
    tmp_path: Path, files: dict[str, str], classes: list[str | None]
) -> None:
    found = scan(make_host(tmp_path, files), usb.SOURCE).features.instances["usb.device"]
    assert [one.get("class") for one in found] == classes


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"ff_1a86_7523.present"}),
        ({"deviceLabelFields": ["serial", "class"]}, {"ff_abc_1.present"}),
        ({"deviceLabelFields": None}, {"ff_1a86_7523.present"}),
        ({"deviceClassWhitelist": ["FF"]}, {"ff_1a86_7523.present"}),
        ({"deviceClassWhitelist": []}, set()),
    ],
)
def test_labels_follow_the_options(tmp_path: Path, options: dict[str, object], expected: set[str]) -> None:
    host = make_host(tmp_path, device("1-1", serial="abc/1"))
    given = {key: [] if value is None else value for key, value in options.items()}
    assert labels_of(scan(host, usb.SOURCE, **given), usb.SOURCE) == dict.fromkeys(expected, "true")


def test_an_unreadable_interface_harms_no_other(tmp_path: Path) -> None:
    files = device("1-1", "ff", **{"class": "00"}) | {f"{FOLDER}/1-1/1-1:1.9/bInterfaceClass/": ""} | device("1-2")
    found = scan(make_host(tmp_path, files), usb.SOURCE)
    assert [one["class"] for one in found.features.instances["usb.device"]] == ["ff", "ff"]
    assert "1-1:1.9/bInterfaceClass" in found.failed["usb"]
