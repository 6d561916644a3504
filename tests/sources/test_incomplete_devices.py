"""A device of which a file cannot be read is the one it was, and each device is there once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from nfd.discovery import Discovery
from nfd.host.replay import Replay
from nfd.source import Source
from nfd.sources import accelerator, amd, intel, memory, network, pci, storage, usb
from nfd.sources.accelerator import states
from nfd.sources.amd import gpus, kfd
from tests.sources.hosts import Failing, make_host, scan

Found = Mapping[str, list[list[tuple[str, str]]]]

PCI, NET, RDMA, USB = "sys/bus/pci/devices", "sys/class/net", "sys/class/infiniband", "sys/bus/usb/devices"
IDS = {"vendor": "0x8086", "device": "0x0bda", "class": "0x038000", "revision": "0x2f", "uevent": "DRIVER=xe"}
SUBSYSTEM = {"subsystem_vendor": "0x8086", "subsystem_device": "0x1"}
MI300X = IDS | {
    "vendor": "0x1002",
    "device": "0x74a1",
    "uevent": "DRIVER=amdgpu",
    "product_name": "AMD Instinct MI300X OAM",
    "mem_info_vram_total": str(1 << 37),
}
PARTITION = {"current_compute_partition": "CPX"}
N150 = IDS | {"vendor": "0x1e52", "device": "0x401e", "class": "0x120000", "uevent": "DRIVER=tenstorrent"}
N150 |= {"tenstorrent/tenstorrent!0/tt_card_type": "n150"}
KFD = "simd_count 152\nvendor_id 4098\nlocation_id {}\n"
HCA = {"fw_ver": "28.39.1002", "ports/1/link_layer": "InfiniBand", "ports/1/state": "4: ACTIVE", "ports/1/rate": "400"}


@dataclass(frozen=True)
class Kind:
    """Two devices of a feature, with the same files, and the other content that a file can have."""

    source: Source
    feature: str
    folder: str
    names: tuple[str, str]
    files: Mapping[str, str]
    change: Mapping[str, str]

    def path(self, device: int, file: str) -> str:
        return f"{self.folder}/{self.names[device]}/{file}"


ADDRESSES = ("0000:05:00.0", "0000:15:00.0")
KINDS = [
    Kind(
        storage.SOURCE,
        storage.BLOCK,
        storage.DEVICES,
        ("sda", "sdb"),
        {"queue/rotational": "0"},
        {"queue/rotational": "1"},
    ),
    Kind(network.SOURCE, network.VIRTUAL, NET, ("v0", "v1"), {"operstate": "up", "mtu": "1500"}, {"operstate": "down"}),
    Kind(
        network.SOURCE,
        network.DEVICE,
        NET,
        ("eth0", "eth1"),
        {"operstate": "up", "device/numa_node": "1", "device": "", "device/sriov_totalvfs": "8"},
        {"operstate": "down"},
    ),
    Kind(network.SOURCE, network.RDMA, RDMA, ("mlx5_0", "mlx5_1"), HCA | {"ports": ""}, {"ports/1/state": "1: DOWN"}),
    Kind(memory.SOURCE, memory.NV, memory.NVDIMMS, ("n0", "n1"), {"devtype": "nd_dax"}, {"devtype": "nd_pmem"}),
    Kind(
        memory.SOURCE, memory.TIER, memory.TIERS, ("memory_tier4", "memory_tier9"), {"nodelist": "0"}, {"nodelist": "1"}
    ),
    Kind(
        pci.SOURCE,
        pci.DEVICE,
        PCI,
        ADDRESSES,
        {name: IDS[name] for name in ("vendor", "device", "class")} | SUBSYSTEM | {"numa_node": "0"},
        {"sriov_totalvfs": "4"},
    ),
    Kind(
        usb.SOURCE,
        usb.DEVICE,
        USB,
        ("1-1", "1-2"),
        {"bDeviceClass": "00", "idVendor": "046d", "idProduct": "1", "serial": "a", "1-1:1.0/bInterfaceClass": "0e"},
        {"1-1:1.0/bInterfaceClass": "ff"},
    ),
    Kind(intel.SOURCE, intel.DEVICE, PCI, ADDRESSES, IDS, {"uevent": "DRIVER=vfio-pci"}),
    Kind(amd.SOURCE, gpus.GPU, PCI, ADDRESSES, MI300X | PARTITION, {"current_compute_partition": "SPX"}),
    Kind(accelerator.SOURCE, states.DEVICE, PCI, ADDRESSES, MI300X, {"uevent": "DRIVER=vfio-pci"}),
    Kind(accelerator.SOURCE, states.DEVICE, PCI, ADDRESSES, N150, {"uevent": "DRIVER=vfio-pci"}),
]
CASES = [
    pytest.param(kind, file, id=f"{kind.feature}-{number}-{file}")
    for number, kind in enumerate(KINDS)
    for file in kind.files
]


class Machine(Failing):
    """One whose broken paths cannot be looked at either."""

    def exists(self, path: str) -> bool:
        return self.unless_broken(path, lambda: super(Machine, self).exists(path))

    def spoil(self, path: str) -> None:
        """This path alone, a file or a folder, gives an error."""
        self.broken = frozenset({path, f"{path}/"})


class Node:
    """A machine with the two devices of a kind, and what its scans find."""

    def __init__(self, kind: Kind, root: Path) -> None:
        self.kind, self.root = kind, root
        make_host(root, {f"{NET}/": ""})
        for device in (0, 1):
            self.put(device, kind.files)
        self.host = Machine(root)
        self.found = Discovery()

    def put(self, device: int, files: Mapping[str, str]) -> None:
        made = {self.kind.path(device, name): text for name, text in files.items() if text}
        make_host(self.root, made)

    def scan(self) -> Found:
        self.found = scan(self.host, self.kind.source, self.found)
        return listed(self.found)

    def truth(self) -> Found:
        """What the next scan finds if it has no error."""
        return listed(scan(Replay(self.root, {}), self.kind.source, self.found))


def listed(found: Discovery) -> Found:
    """In any order."""
    return {name: sorted(sorted(one.items()) for one in every) for name, every in found.features.instances.items()}


@pytest.mark.parametrize(("kind", "file"), CASES)
def test_a_device_with_an_unreadable_file_stays_as_it_was(kind: Kind, file: str, tmp_path: Path) -> None:
    """It is there once, however often the other one changes, which is as it is now."""
    node = Node(kind, tmp_path)
    before = node.scan()
    assert len(before[kind.feature]) == 2
    assert not node.found.failed
    node.host.spoil(kind.path(1, file))
    assert node.scan() == before
    assert node.found.failed
    for files in (kind.change, kind.files, kind.change):
        node.put(0, files)
        expected = node.truth()
        assert node.scan() == expected
    node.put(1, kind.change)
    assert node.scan() == expected
    node.host.broken = frozenset()
    expected = node.truth()
    assert node.scan() == expected
    assert not node.found.failed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.feature)
def test_a_device_that_was_never_read_without_an_error_is_there_once(kind: Kind, tmp_path: Path) -> None:
    node = Node(kind, tmp_path)
    node.host.spoil(kind.path(1, [*kind.files][-1]))
    for files in (kind.change, kind.files, kind.change):
        node.put(0, files)
        assert len(node.scan()[kind.feature]) <= 2
        assert node.found.failed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.feature)
def test_a_device_that_is_gone_does_not_stay_because_of_another_one(kind: Kind, tmp_path: Path) -> None:
    node = Node(kind, tmp_path)
    node.scan()
    node.host.spoil(kind.path(1, [*kind.files][-1]))
    shutil.rmtree(node.root / kind.path(0, ""))
    assert len(node.scan()[kind.feature]) == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.files.get("device")], ids=lambda kind: kind.feature)
def test_another_device_in_its_place_is_seen(kind: Kind, tmp_path: Path) -> None:
    """Its ids could be read, so the former device is gone, whichever other file has an error."""
    node = Node(kind, tmp_path)
    before = node.scan()
    folder = node.root / kind.path(1, "")
    shutil.move(folder, tmp_path / "away")  # so that the new one has another inode
    node.put(1, {**kind.files, "device": "0x74a9" if kind.files["device"] == "0x74a1" else "0x0bd9"})
    node.host.spoil(kind.path(1, [*kind.files][-1]))
    now = node.scan()
    assert len(now[kind.feature]) == len(before[kind.feature])
    assert now[kind.feature] != before[kind.feature]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.feature)
def test_if_the_devices_cannot_be_listed_all_stay(kind: Kind, tmp_path: Path) -> None:
    node = Node(kind, tmp_path)
    before = node.scan()
    node.host.spoil(kind.folder)
    assert node.scan()[kind.feature] == before[kind.feature]
    assert node.found.failed


def test_an_error_that_is_of_no_device_concerns_all(tmp_path: Path) -> None:
    """Which of the GPUs an unreadable node of the compute driver belongs to is not known."""
    node = Node(next(kind for kind in KINDS if kind.feature == gpus.GPU), tmp_path)
    nodes = {f"{kfd.NODES}/{number}/properties": KFD.format(bus) for number, bus in enumerate((5 << 8, 21 << 8), 1)}
    make_host(node.root, nodes)
    before = node.scan()[gpus.PARTITION]
    node.host.spoil(f"{kfd.NODES}/1/properties")
    assert node.scan()[gpus.PARTITION] == before
    assert node.found.failed
