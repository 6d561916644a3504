"""Where devices are in the machine, and what disks and RDMA ports are: live, recorded, replayed."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nfd.discovery import Plan, discover
from nfd.errors import HostError
from nfd.features import Features
from nfd.host import Host
from nfd.host.pcie import read_roots
from nfd.host.record import Recorder
from nfd.host.replay import Replay
from nfd.sources import cpu, memory, network, pci, storage
from tests.sources.hosts import make_host

SOURCES = (pci.SOURCE, network.SOURCE, storage.SOURCE)
ROOT, GPU = "sys/devices/pci0000:64", "sys/devices/pci0000:64/0000:64:01.0/0000:65:00.0"
NIC = "sys/devices/pci0001:00/0001:00:00.0"
IDS = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "subsystem_vendor": "1", "subsystem_device": "2"}
FILES = {
    **{f"{GPU}/{name}": f"{value}\n" for name, value in IDS.items()},
    f"{GPU}/numa_node": "1\n",
    **{f"{NIC}/{name}": f"{value}\n" for name, value in IDS.items()},
    f"{NIC}/numa_node": "-1\n",
    f"{NIC}/net/eth0/mtu": "9000\n",
    "sys/devices/virtual/net/lo/mtu": "65536\n",
    f"{NIC}/infiniband/mlx5_0/fw_ver": "28.39.1002\n",
    f"{NIC}/infiniband/mlx5_0/node_guid": "0c42:a103:0012:3456\n",
    f"{NIC}/infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n",
    f"{NIC}/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    f"{NIC}/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)\n",
    f"{NIC}/infiniband/mlx5_0/ports/1/gids/0": "fe80::\n",
    "sys/devices/virtual/block/loop0/queue/rotational": "0\n",
    "sys/devices/virtual/block/loop0/size": "8\n",
    f"{ROOT}/ata1/host0/target0:0:0/0:0:0:0/block/sda/size": "1000\n",
    f"{ROOT}/ata1/host0/target0:0:0/0:0:0:0/block/sda/removable": "0\n",
    f"{ROOT}/ata1/host0/target0:0:0/0:0:0:0/model": "SAMSUNG MZ7L3960\n",
    f"{ROOT}/nvme/nvme0/nvme0n1/size": "2000\n",
    f"{ROOT}/nvme/nvme0/transport": "pcie\n",
    "sys/devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1/size": "1\n",
    "sys/devices/virtual/nvme-fabrics/ctl/nvme1/transport": "tcp\n",
    f"{ROOT}/odd/block/odd0/size": "many\n",
}
LINKS = {
    "sys/bus/pci/devices/0000:65:00.0": f"../../../../{GPU}",
    "sys/bus/pci/devices/0001:00:00.0": f"../../../../{NIC}",
    "sys/class/net/eth0": f"../../../{NIC}/net/eth0",
    f"{NIC}/net/eth0/device": "../..",
    "sys/class/net/lo": "../../../sys/devices/virtual/net/lo",
    "sys/class/infiniband/mlx5_0": f"../../../{NIC}/infiniband/mlx5_0",
    f"{NIC}/infiniband/mlx5_0/device": "../..",
    "sys/block/loop0": "../devices/virtual/block/loop0",
    "sys/block/sda": f"../../{ROOT}/ata1/host0/target0:0:0/0:0:0:0/block/sda",
    f"{ROOT}/ata1/host0/target0:0:0/0:0:0:0/block/sda/device": "../..",
    "sys/block/nvme0n1": f"../../{ROOT}/nvme/nvme0/nvme0n1",
    f"{ROOT}/nvme/nvme0/nvme0n1/device": "..",
    "sys/block/nvme1n1": "../devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1",
    "sys/devices/virtual/nvme-fabrics/ctl/nvme1/nvme1n1/device": "..",
    "sys/block/odd0": f"../../{ROOT}/odd/block/odd0",
}
EXPECTED: Mapping[str, Any] = {
    "pci.device": [{"numa_node": "1", "pcie_root": "pci0000:64"}, {"pcie_root": "pci0001:00"}],
    "network.device": [{"name": "eth0", "mtu": "9000", "pcie_root": "pci0001:00"}],
    "network.virtual": [{"name": "lo", "mtu": "65536"}],
    "rdma.device": [
        {
            "port": "1",
            "link_layer": "Ethernet",
            "state": "ACTIVE",
            "rate": "400",
            "firmware": "28.39.1002",
            "netdev": "eth0",
            "pcie_root": "pci0001:00",
        }
    ],
    "storage.block": [
        {"name": "loop0", "rotational": "0"},
        {"name": "nvme0n1", "size": "1024000", "transport": "nvme"},
        {"name": "nvme1n1", "size": "512", "transport": "nvme-tcp"},
        {"name": "odd0"},
        {"name": "sda", "size": "512000", "removable": "0", "model": "SAMSUNG MZ7L3960", "transport": "sata"},
    ],
}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "machine"
    make_host(root, FILES)
    for name, target in LINKS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    return root


def features(host: Host) -> Features:
    found = discover(host, Plan(SOURCES, SOURCES, {source.name: source.config() for source in SOURCES}))
    assert not found.failed
    return found.features


def shown(found: Features) -> dict[str, list[dict[str, str]]]:
    ids = {*IDS}
    return {
        name: [{key: value for key, value in one.items() if key not in ids} for one in instances]
        for name, instances in found.instances.items()
    }


def test_a_live_machine(machine: Path) -> None:
    assert shown(features(Host(machine, {}))) == EXPECTED


def test_a_recording_says_the_same(machine: Path, tmp_path: Path) -> None:
    recorder = Recorder(Host(machine, {}))
    live = features(recorder)
    recorder.write(tmp_path / "recording")
    assert features(Replay(tmp_path / "recording")) == live
    assert shown(live) == EXPECTED


def test_no_address_is_in_the_features(machine: Path) -> None:
    (machine / NIC / "net/eth0").rename(machine / NIC / "net/enx0c42a1123456")
    text = str(features(Host(machine, {})).instances["rdma.device"])
    assert not [word for word in ("0c42", "netdev", "mlx5_0", "fe80") if word in text]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["/dev/sda2 partition 1 0 -2"], "partition"),
        (["/swapfile file 1 0 -2", "/swap2 file 1 0 -3"], "file"),
        (["/dev/zram0 partition 1 0 100"], "zram"),
        (["/dev/zram0 partition 1 0 100", "/swapfile file 1 0 -2"], "mixed"),
        ([], None),
    ],
)
def test_kind_of_swap(lines: list[str], kind: str | None, tmp_path: Path) -> None:
    host = make_host(tmp_path, {"proc/swaps": "\n".join(["Filename Type Size Used Priority", *lines, ""])})
    found = discover(host, Plan((memory.SOURCE,), (memory.SOURCE,), {"memory": memory.SOURCE.config()}))
    assert found.features.attributes["memory.swap"].get("kind") == kind
    assert found.features.attributes["memory.swap"]["enabled"] == ("true" if kind else "false")


def test_tiers_microcode_and_vulnerabilities(tmp_path: Path) -> None:
    files = {
        "sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0-1\n",
        "sys/devices/virtual/memory_tiering/memory_tier961/nodelist": "2\n",
        "sys/devices/virtual/memory_tiering/uevent": "",
        "sys/devices/system/cpu/cpu0/microcode/version": "0xd0003d1\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
        "sys/devices/system/cpu/vulnerabilities/mds": "Mitigation: Clear CPU buffers; SMT vulnerable\n",
    }
    sources = (cpu.SOURCE, memory.SOURCE)
    configs = {source.name: source.config() for source in sources}
    found = discover(make_host(tmp_path, files), Plan(sources, sources, configs))
    tiers = ({"name": "memory_tier4", "nodes": "0-1"}, {"name": "memory_tier961", "nodes": "2"})
    assert found.features.instances["memory.tier"] == tiers
    assert found.features.attributes["cpu.microcode"] == {"version": "0xd0003d1"}
    assert found.features.attributes["cpu.vulnerability"] == {
        "mds": "Mitigation: Clear CPU buffers; SMT vulnerable",
        "meltdown": "Not affected",
    }
    assert not [key for key in found.labels if "microcode" in key or "vulner" in key or "tier" in key]


@pytest.mark.parametrize(("code", "fails"), [(errno.EIO, True), (errno.EMFILE, True), (errno.EACCES, False)])
@pytest.mark.parametrize("call", ["open", "readlink"])
def test_links_that_cannot_be_read(
    call: str, code: int, fails: bool, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(machine)
    read = partial(read_roots, host, "sys/bus/pci/devices")
    assert read()

    def refuse(*arguments: object, **named: object) -> None:
        raise OSError(code, os.strerror(code))

    target: tuple[object, str] = (host, "directory") if call == "open" else (os, "readlink")
    monkeypatch.setattr(*target, refuse)
    if fails:
        with pytest.raises(HostError, match=r"^sys/bus/pci/devices") as caught:
            read()
        assert caught.value.errno == code
    else:
        assert read() == {}
