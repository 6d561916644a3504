"""A recording answers as the machine did, holds nothing that identifies it, and stays in its directory."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfd.errors import ConfigError, HostError
from nfd.host import Host
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from nfd.host.scrub_files import Scrubber

MAC = "00:16:3e:5e:6c:0b"
UUID = "4c4c4544-0044-4810-8031-b4c04f4a3332"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "machine"
    for path, text in {
        "proc/sys/kernel/osrelease": "6.1.0-18-amd64\n",
        "proc/cpuinfo": "model name\t: x\nSerial\t\t: 10000000abcdef01\n",
        "sys/class/dmi/id/product_name": "DGXA100\n",
        "sys/class/dmi/id/product_serial": "1570920000123\n",
        "sys/class/dmi/id/product_uuid": f"{UUID}\n",
        "sys/class/dmi/id/board_asset_tag": "SN-42x\n",
        "sys/devices/pci0/net/eth0/address": f"{MAC}\n",
        "sys/devices/pci0/net/eth0/mtu": "1500\n",
        "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "etc/kubernetes/node-feature-discovery/features.d/a": f"mac={MAC.replace(':', '-')}\nid={UUID}\n",
        "etc/os-release": "ID=debian\n",
        "boot/config": "CONFIG_SERIAL_8250=y\nCONFIG_SERIAL_NR=4\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_X=y\n", mtime=0))
    (root / "sys/class/net").mkdir()
    (root / "sys/class/net/eth0").symlink_to("../../devices/pci0/net/eth0")
    (root / "sys/class/net/enx00163e5e6c0b").symlink_to("/sys/devices/pci0/net/eth0")
    (root / "sys/class/net/gone").symlink_to("nowhere")
    (root / "sys/fs").mkdir()
    return root


FILES = [
    "proc/sys/kernel/osrelease",
    "proc/cpuinfo",
    "proc/config.gz",
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/product_serial",
    "sys/class/dmi/id/product_uuid",
    "sys/class/dmi/id/board_asset_tag",
    "sys/class/net/eth0/mtu",
    "sys/class/net/eth0/address",
    "etc/machine-id",
    "etc/kubernetes/node-feature-discovery/features.d/a",
    "etc/os-release",
    "etc/nothing",
    "boot/config",
    "sys/fs",
    "sys/class/net/gone",
]


def look(host: Host) -> dict[str, object]:
    """Everything a scan might ask."""
    seen: dict[str, object] = {}
    for path in FILES:
        try:
            seen[path] = host.data(path)
        except HostError as error:
            seen[path] = (error.errno, error.reason)
        try:
            seen[f"head of {path}"] = host.head(path, 3)
        except HostError as error:
            seen[f"head of {path}"] = (error.errno, error.reason)
        seen[f"kind of {path}"] = (host.exists(path), host.is_dir(path), host.is_file(path))
    seen["names"] = host.names("sys/class/net")
    seen["no names"] = host.names("sys/class/nothing")
    seen["empty"] = (host.names("sys/fs"), host.is_dir("sys/fs"))
    seen["probe"] = host.probe("gpu", lambda: json.dumps({"uuid": f"GPU-{UUID}", "serial": "1322621000123"}))
    seen["cpuid"] = host.probe("cpuid", lambda: "0 0 1 2 3 4\n")
    seen["no probe"] = host.probe("none", lambda: None)
    seen["env"] = (host.env("NODE_NAME"), host.env("NFD_X"), host.env("UNSET"))
    seen["arch"] = host.arch()
    return seen


def test_a_replay_answers_as_the_machine_did(machine: Path, tmp_path: Path) -> None:
    recorder = Recorder(Host(machine, {"NODE_NAME": "n1", "NFD_X": "y"}))
    live = look(recorder)
    recorder.write(tmp_path / "out")
    again = look(Replay(tmp_path / "out"))
    same = {path for path in live if live[path] == again[path]}
    changed = {
        "proc/cpuinfo",
        "sys/class/dmi/id/product_serial",
        "sys/class/dmi/id/product_uuid",
        "sys/class/dmi/id/board_asset_tag",
        "sys/class/net/eth0/address",
        "etc/machine-id",
        "etc/kubernetes/node-feature-discovery/features.d/a",
        "names",
        "probe",
        "env",
    }
    assert {path for path in live.keys() - same if not path.startswith("head of ")} == changed
    assert again["env"] == ("n1", "", "")
    assert (tmp_path / "out/cpuid").read_text() == "0 0 1 2 3 4\n"
    once = Recorder(Replay(tmp_path / "out"))
    assert look(once) == again
    once.write(tmp_path / "copy", Scrubber(b"k"))
    assert look(Replay(tmp_path / "copy")).keys() == again.keys()


def test_ids_of_gpus_are_not_written(tmp_path: Path) -> None:
    """AMD's compute driver has them among numbers that a scan needs; other drivers have files of their own."""
    folder = "sys/class/kfd/kfd/topology/nodes/1"
    files = {
        f"{folder}/properties": "simd_count 416\nunique_id 9182736455463728190\nhive_id 1122334455667788\ndomain 0\n",
        "sys/bus/pci/devices/0000:05:00.0/unique_id": "7f3a9bb2c1d0e4f5\n",
        "sys/bus/pci/devices/0000:05:00.0/serial_number": "692231001245\n",
        "sys/bus/pci/devices/0000:05:00.0/xgmi_hive_info/xgmi_hive_id": "1122334455667788\n",
        "sys/class/tenstorrent/tenstorrent!0/tt_serial": "0100014211702033\n",
        "sys/class/tenstorrent/tenstorrent!0/tt_asic_id": "8f3c11aa22bb44cc\n",
    }
    for path, text in files.items():
        (tmp_path / "a" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / path).write_text(text)
    recorder = Recorder(Host(tmp_path / "a"))
    for path in files:
        recorder.text(path)
    recorder.write(tmp_path / "b")
    assert (tmp_path / "b" / folder / "properties").read_text() == (
        "simd_count 416\nunique_id 0\nhive_id 0\ndomain 0\n"
    )
    for path in list(files)[1:]:
        assert files[path].strip() not in (tmp_path / "b" / path).read_text(), path


def test_nothing_that_identifies_the_machine_is_written(machine: Path, tmp_path: Path) -> None:
    recorder = Recorder(Host(machine))
    look(recorder)
    recorder.write(tmp_path / "out")
    words = (
        MAC,
        MAC.replace(":", "-"),
        "00163e5e6c0b",
        UUID,
        "1570920000123",
        "10000000abcdef01",
        "SN-42x",
        "1322621000123",
    )
    words += ("0123456789abcdef0123456789abcdef",)
    for folder, _, names in os.walk(tmp_path / "out"):
        for name in names:
            path = Path(folder, name)
            text = str(path) + (path.read_bytes().decode("latin-1") if path.exists() else "")
            assert [word for word in words if word in text] == []


def test_equal_values_are_replaced_equally(machine: Path, tmp_path: Path) -> None:
    recorder = Recorder(Host(machine))
    look(recorder)
    recorder.write(tmp_path / "out")
    host = Replay(tmp_path / "out")
    address = (host.text("sys/class/net/eth0/address") or "").strip()
    local = host.text("etc/kubernetes/node-feature-discovery/features.d/a") or ""
    assert address.replace(":", "-") in local
    assert f"enx{address.replace(':', '')}" in host.names("sys/class/net")
    uuid = (host.text("sys/class/dmi/id/product_uuid") or "").strip()
    assert uuid in local
    assert f"GPU-{uuid}" in (host.probe("gpu", lambda: None) or "")
    assert len(uuid) == len(UUID)


def test_failures_are_recorded(tmp_path: Path) -> None:
    class Broken(Host):
        """A machine of which some parts cannot be read."""

        def data(self, path: str, limit: int = 0) -> bytes | None:
            raise HostError(path, "Permission denied", 13)

        def names(self, path: str) -> tuple[str, ...]:
            raise HostError(path, "Input/output error", 5)

        def probe(self, name: str, live: object) -> str | None:
            raise HostError(name, "cannot be asked", None)

    (tmp_path / "machine/sys").mkdir(parents=True)
    (tmp_path / "machine/sys/file").write_text("x")
    recorder = Recorder(Broken(tmp_path / "machine"))

    def answers(host: Host) -> list[object]:
        found: list[object] = [host.is_file("sys/file"), host.is_dir("sys")]
        for ask in (lambda: host.data("sys/file"), lambda: host.names("sys"), lambda: host.probe("p", lambda: "x")):
            with pytest.raises(HostError) as caught:
                ask()
            found.append((caught.value.path, caught.value.reason, caught.value.errno))
        return found

    live = answers(recorder)
    recorder.write(tmp_path / "out")
    assert answers(Replay(tmp_path / "out")) == live


def test_a_directory_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("keep")
    recorder = Recorder(Host(tmp_path))
    for target in (tmp_path, tmp_path / "x", tmp_path / "x/y", "a\0b"):
        with pytest.raises(ConfigError):
            recorder.write(target)
    assert (tmp_path / "x").read_text() == "keep"


PARTS = st.sampled_from(["a", "b", "..", ".", "", "host.json", "cpuid", "x" * 200, "ä\udcff", "new\nline", "é" * 60])


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.lists(PARTS, max_size=5).map("/".join), st.sampled_from("fdln")), max_size=8))
def test_no_name_leads_out_of_the_directory(paths: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as base:
        (Path(base) / "machine").mkdir()
        recorder = Recorder(Host(Path(base) / "machine"))
        for path, kind in paths:
            if kind == "f":
                recorder._files[path] = b"x"
                recorder._others.add(path)
            {"f": set(), "d": recorder._folders, "l": recorder._dangling, "n": recorder._others}[kind].add(path)
        recorder.write(Path(base) / "p/out")
        assert sorted(os.listdir(base)) == ["machine", "p"]  # noqa: PTH208
        assert os.listdir(Path(base) / "p") == ["out"]  # noqa: PTH208
        assert os.listdir(Path(base) / "machine") == []  # noqa: PTH208
        assert json.loads((Path(base) / "p/out/host.json").read_text())["probes"] == {}
        Replay(Path(base) / "p/out")


BAD_RECORDS = [
    "{",
    "[]",
    "null",
    "[" * 100_000,
    '{"probes": []}',
    '{"probes": {"a": 1}}',
    '{"failures": {"a": 3}}',
    '{"failures": {"a": ["x", "y"]}}',
    '{"time": "now"}',
    '{"colour": 1}',
]


@pytest.mark.parametrize("text", BAD_RECORDS)
def test_a_record_that_does_not_fit_is_an_error_of_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "host.json").write_text(text)
    with pytest.raises(ConfigError) as caught:
        Replay(tmp_path)
    assert "host.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not {"Record", "NoneType", "recursion"} & set(str(caught.value).replace(".", " ").split())
